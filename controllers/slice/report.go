// SPDX-License-Identifier: Apache-2.0

package slice

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// maxNamed is how many nodes a report names.
const maxNamed = 3

// reportNodes reports nodes that have no slice: whereabouts panics at each of their pods, and gives slices away only when a
// Node or a network changes, not when a slice becomes free. The Nodes come from the cache, since nothing but a report follows.
// A Node that is younger than nodeDelay is looked at when that is over.
func (r *Reconciler) reportNodes(ctx context.Context, pools []*ipam.SlicePool) (without int, due time.Duration, err error) {
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes); err != nil {
		return 0, 0, fmt.Errorf("listing the nodes that need slices: %w", err)
	}
	reported := map[types.UID]string{}
	for _, pool := range pools {
		owners := pool.Owners()
		var missing []string
		for i := range nodes.Items {
			node := &nodes.Items[i]
			if owners.Has(node.Name) || node.DeletionTimestamp != nil {
				continue
			}
			if left := node.CreationTimestamp.Add(nodeDelay).Sub(r.clock.Now()); left > 0 {
				due = max(due, left)
				continue
			}
			missing = append(missing, node.Name)
		}
		without += len(missing)
		if len(missing) > 0 {
			reported[pool.UID] = r.reportPool(pool, missing, owners.Has(""))
		}
	}
	r.reported = reported
	return without, due, nil
}

// reportPool writes an event if the report changed.
func (r *Reconciler) reportPool(pool *ipam.SlicePool, missing []string, free bool) string {
	names := sets.List(sets.New(missing...))
	key := fmt.Sprint(free, names)
	if r.reported[pool.UID] == key {
		return key
	}
	who := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	action, what := "AwaitSlice", fmt.Sprintf("all %d slices are taken: widen the range, make the slices smaller, or wait until deleted nodes have none left", len(pool.Slices))
	if free {
		action, what = "AwaitNodeChange", "slices are free, but whereabouts gives them away only when a Node is created or deleted, or the NetworkAttachmentDefinition changes"
	}
	first := ipam.Slice{Node: names[0]}
	r.recorder.Eventf(r.slices.SlicePoolReference(pool), first.NodeReference(), corev1.EventTypeWarning, string(v1alpha1.ReasonNodeWithoutSlice), action,
		"%s: no slice of %s, so no pod with this network starts there; %s", who, pool.Range, what)
	return key
}
