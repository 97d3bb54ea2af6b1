// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/nodegone"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// readNodes lists every Node past the cache.
func (k *reclaimer) readNodes(ctx context.Context) ([]orphan.Present, error) {
	var present []orphan.Present
	for nodes, err := range pages.Of[corev1.NodeList](ctx, k.orphans.live) {
		if err != nil {
			return nil, fmt.Errorf("listing the Nodes that are asked about sandboxes without an owner: %w", err)
		}
		present = append(present, presentNodes(nodes.Items)...)
	}
	return present, nil
}

func presentNodes(nodes []corev1.Node) []orphan.Present {
	present := make([]orphan.Present, 0, len(nodes))
	for i := range nodes {
		present = append(present, orphan.Present{Name: nodes[i].Name, Node: facts.Node(&nodes[i])})
	}
	return present
}

// addTraces looks once through the records of pods for Nodes that went before there was a list, as where agents were just installed.
func (k *reclaimer) addTraces(ctx context.Context, traces []orphan.Trace) ([]orphan.Trace, error) {
	if k.isTraced() {
		return traces, nil
	}
	var records v1alpha1.IPAllocationList
	if err := k.orphans.client.List(ctx, &records, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("looking through the records for Nodes that are gone: %w", err)
	}
	for i := range records.Items {
		spec := &records.Items[i].Spec
		for j := range spec.Sandboxes {
			if node := spec.Sandboxes[j].Node; node != nil && spec.NodeName != "" {
				traces = append(traces, orphan.Trace{Name: spec.NodeName, Node: *node})
			}
		}
	}
	return traces, nil
}

// keep brings the list in line with the Nodes that are there, and confirms what is gone: each machine without a Node is looked for once
// more, in every place where it could show itself. Nothing counts before it is written.
func (k *reclaimer) keep(ctx context.Context, present []orphan.Present, traces []orphan.Trace) error {
	var keys []string
	err := k.inventory.change(ctx, func(inventory orphan.Inventory) error {
		inventory.Remember(traces, present)
		keys, _ = inventory.Fold(present, k.orphans.orphanSettings(), k.orphans.clock.Now())
		return nil
	})
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.traced = true
	k.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	seen, _ := k.inventory.snapshot()
	gone := make(map[string]*v1alpha1.NodeGone, len(keys))
	for _, key := range keys {
		if gone[key], err = k.goneOf(ctx, seen[key], present); err != nil {
			return err
		}
	}
	return k.inventory.change(ctx, func(inventory orphan.Inventory) error {
		for key, since := range gone {
			if s, still := inventory[key]; still {
				s.Gone = since
				inventory[key] = s
			}
		}
		inventory.Forget(traces, k.orphans.orphanSettings(), k.orphans.clock.Now())
		return nil
	})
}

// goneDue is when to look next at the machines without a Node: when the delay of one is over, and every minute before; zero where there
// is none.
func (k *reclaimer) goneDue(inventory orphan.Inventory) time.Duration {
	due := time.Duration(0)
	for _, seen := range inventory {
		if seen.Gone == nil {
			continue
		}
		left := seen.Gone.Since.Add(k.orphans.options.Settings.NodeGoneDelay).Sub(k.orphans.clock.Now())
		if left <= 0 {
			left = nodegone.Confirmed // its Lease is still there, or nothing of it is proof
		}
		if due == 0 || left < due {
			due = left
		}
	}
	return min(due, nodegone.Confirmed)
}

// goneOf looks for signs that a machine without a Node is alive, as for a pod's (rows NodeDeleted and NodeReplaced of internal/release).
func (k *reclaimer) goneOf(ctx context.Context, s orphan.Seen, present []orphan.Present) (*v1alpha1.NodeGone, error) {
	node := release.Absent[release.Node]()
	for i := range present {
		if present[i].Name == s.Name {
			node = release.Known(present[i].Node) // its name is another machine's, and so are Lease and pods of that name
		}
	}
	record := &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{NodeName: s.Name, NodeGone: s.Gone,
		Sandboxes: []v1alpha1.SandboxRecord{{Node: &s.Node}}}}
	gone, err := k.orphans.options.NodesGone.Of(ctx, record, node, []types.UID{s.Node.UID})
	if err != nil {
		return nil, fmt.Errorf("looking for a sign of the machine of node %s, which is gone: %w", s.Name, err)
	}
	return gone, nil
}

// nodeOfLease is the name of the node whose agent has this Lease.
func nodeOfLease(name string) (string, bool) {
	return strings.CutPrefix(name, v1alpha1.AgentLeasePrefix)
}
