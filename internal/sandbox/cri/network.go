// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"encoding/json"

	criapi "k8s.io/cri-api/pkg/apis"

	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// infoKey is where containerd puts its own JSON into the map of a verbose status (pkg/cri/server/sandbox_status.go).
const infoKey = "info"

// network asks for the network namespace of one sandbox. What cannot be read of one sandbox is unknown for that one, and so
// not closed; it may have been removed since it was listed.
func network(ctx context.Context, service criapi.RuntimeService, id string) handshake.Namespace {
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
