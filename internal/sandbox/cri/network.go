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

// infoKey is where containerd puts its own JSON into the map of a verbose status (pkg/cri/server/sandbox_status.go).
const infoKey = "info"

// networkCalls is how many sandboxes are asked about at once.
const networkCalls = 8

// askNetworks asks for the network namespace of what is in question and not ready. Together the calls take no longer than timeout:
// one that hangs must neither hold the others up nor the next list. What was not answered by then is unknown.
func askNetworks(ctx context.Context, service reads, listing *handshake.Listing, asked sandbox.Asked, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var calls errgroup.Group
	calls.SetLimit(networkCalls)
	inQuestion := asked.About(listing.Sandboxes)
	for i := range listing.Sandboxes {
		s := &listing.Sandboxes[i]
		if s.State != handshake.StateNotReady || !inQuestion(s) {
			continue
		}
		calls.Go(func() error {
			s.Network = network(ctx, service, s.ID)
			return nil
		})
	}
	_ = calls.Wait() // none fails
}

// network asks for the network namespace of one sandbox. What cannot be read of one sandbox is unknown for that one, and so
// not closed; it may have been removed since it was listed.
func network(ctx context.Context, service reads, id string) handshake.Namespace {
	answer, err := service.PodSandboxStatus(ctx, id, true)
	if err != nil {
		return 0
	}
	return parseNetwork(answer.GetInfo()[infoKey])
}

// parseNetwork reads containerd's word. A field that is not there says nothing.
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
