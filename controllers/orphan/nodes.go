// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// nodesOf are the Nodes and machines of which a report has to count. A machine that only the Lease of its agent names is looked for by the name of its
// Node, which was deleted before Nodes were observed.
func (k *reclaimer) nodesOf(ctx context.Context, machines *nodelife.Lifecycle, acknowledged map[string]orphan.Acknowledgement) ([]orphan.Node, error) {
	nodes, uids := orphan.Nodes(machines, acknowledged, k.orphans.clock.Now()), machines.UIDs()
	for _, name := range slices.Sorted(maps.Keys(acknowledged)) {
		if uid := acknowledged[name].NodeUID; uid == "" || uids[uid] {
			continue
		}
		gone, err := k.orphans.options.Machines.Gone(ctx, name, nil)
		if err != nil {
			return nil, fmt.Errorf("looking for node %s, of which there is only the Lease of an agent: %w", name, err)
		}
		nodes = append(nodes, orphan.GoneNode(name, gone.Since))
	}
	return nodes, nil
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

// nodeOfLease is the name of the node whose agent has this Lease.
func nodeOfLease(name string) (string, bool) {
	return strings.CutPrefix(name, v1alpha1.AgentLeasePrefix)
}
