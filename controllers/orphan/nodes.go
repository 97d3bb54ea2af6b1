// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/orphan"
)

// Machines says which machines there are and were, as controllers/node observes them.
type Machines interface {
	// Known is what caches have of all machines. It confirms nothing.
	Known(ctx context.Context) (*nodelife.Lifecycle, error)
	// All is what was read live of all machines, the Nodes later than a time; nil while there is no such thing.
	All(ctx context.Context, after time.Time) (*nodelife.Lifecycle, error)
	// Gone is since when all of some machines are gone; without any, since when no Node has the name.
	Gone(ctx context.Context, node string, machines []v1alpha1.NodeIdentity) (nodelife.Absence, error)
}

// goneDue is when the delay of a machine without a Node is over; zero where none runs. A delay may begin again, so that it is looked at each minute.
func (k *reclaimer) goneDue(nodes []orphan.Node) time.Duration {
	due := time.Duration(0)
	for i := range nodes {
		if !nodes[i].GoneSince.IsKnown() {
			continue
		}
		left := nodes[i].GoneSince.Get().Add(k.orphans.options.Settings.NodeGoneDelay).Sub(k.orphans.clock.Now())
		if left <= 0 {
			left = nodelife.LookInterval // what was read live may not confirm it
		}
		if due == 0 || left < due {
			due = left
		}
	}
	return min(due, nodelife.LookInterval)
}
