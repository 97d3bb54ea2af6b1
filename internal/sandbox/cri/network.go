// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"encoding/json"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

// infoKey is the key of containerd's own JSON in the map of a verbose status (pkg/cri/server/sandbox_status.go).
const infoKey = "info"

// networkCalls is the number of concurrent status calls.
const networkCalls = 8

// readNetworks reads the state of the network namespace of queried sandboxes that are not ready. The calls take no longer than timeout
// together: one that hangs must not delay the others or the next list. A state that was not read by then is unknown.
func readNetworks(ctx context.Context, service reads, listing *handshake.Listing, queried sandbox.Queried, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var calls errgroup.Group
	calls.SetLimit(networkCalls)
	isQueried := queried.Among(listing.Sandboxes)
	for i := range listing.Sandboxes {
		s := &listing.Sandboxes[i]
		if s.State != handshake.StateNotReady || !isQueried(s) {
			continue
		}
		calls.Go(func() error {
			s.Network = network(ctx, service, s.ID)
			return nil
		})
	}
	_ = calls.Wait() // none fails
}

// network reads the state of the network namespace of one sandbox. After an error it is unknown, and so not closed.
func network(ctx context.Context, service reads, id string) handshake.Namespace {
	response, err := service.PodSandboxStatus(ctx, id, true)
	if err != nil {
		return 0
	}
	return parseNetwork(response.GetInfo()[infoKey])
}

// parseNetwork parses containerd's JSON. Without the field the state is unknown.
func parseNetwork(text string) handshake.Namespace {
	var info struct {
		Closed *bool `json:"netNamespaceClosed"`
	}
	switch err := json.Unmarshal([]byte(text), &info); {
	case err != nil || info.Closed == nil:
		return 0
	case *info.Closed:
		return handshake.NamespaceClosed
	default:
		return handshake.NamespaceOpen
	}
}
