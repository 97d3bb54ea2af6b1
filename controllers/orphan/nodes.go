// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/orphan"
)

// Machines gives the machines that controllers/node has observed.
type Machines interface {
	// Known is the state of all machines from caches. It is no evidence.
	Known(ctx context.Context) (*nodelife.Lifecycle, error)
	// All is the state of all machines from live reads, of the Nodes after a time; nil if there are none yet.
	All(ctx context.Context, after time.Time) (*nodelife.Lifecycle, error)
	// Gone is since when all of the given machines are gone; without machines, since when no Node has the name.
	Gone(ctx context.Context, node string, machines []v1alpha1.NodeIdentity) (nodelife.Absence, error)
	// ReachedSince is since when the API server has been reached without a gap; while it is not, a time to come.
	ReachedSince() time.Time
}

// goneDue is the time until the delay of a machine without a Node is over, at most nodelife.LookInterval, because a delay may begin again; zero
// without such a machine.
func (k *reclaimer) goneDue(nodes []orphan.Node) time.Duration {
	due := time.Duration(0)
	for i := range nodes {
		if !nodes[i].GoneSince.IsKnown() {
			continue
		}
		left := nodes[i].GoneSince.Get().Add(k.orphans.options.Settings.NodeGoneDelay).Sub(k.orphans.clock.Now())
		if left <= 0 {
			left = nodelife.LookInterval // live reads may not confirm it
		}
		if due == 0 || left < due {
			due = left
		}
	}
	return min(due, nodelife.LookInterval)
}
