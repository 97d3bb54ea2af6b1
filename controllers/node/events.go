// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
)

// nodeEvents queue the Node UIDs that a Node may concern. Its report is noted by then. A heartbeat queues nothing.
func (r *reconciler) nodeEvents() handler.TypedFuncs[*corev1.Node, request] {
	return handler.TypedFuncs[*corev1.Node, request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.Node], q requests) {
			r.wakeAll(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Node], q requests) {
			if facts.Identity(e.ObjectOld) != facts.Identity(e.ObjectNew) {
				r.wakeAll(ctx, e.ObjectOld, q)
				r.wakeAll(ctx, e.ObjectNew, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Node], q requests) {
			r.options.Watches.notes.forget(e.Object.UID)
			r.wakeAll(ctx, e.Object, q)
		},
	}
}

// wakeAll queues every object that may be about the machine that a Node reports.
func (r *reconciler) wakeAll(ctx context.Context, node *corev1.Node, q requests) {
	wake(q, node.UID)
	for _, key := range nodelife.Keys(facts.Identity(node)) {
		var objects v1alpha1.GuardedNodeList
		if err := r.client.List(ctx, &objects, client.MatchingFields{index.Machine: key}, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "Reading GuardedNodes from the cache failed; the next round finds what changed", "node", node.Name)
		}
		for i := range objects.Items {
			wake(q, types.UID(objects.Items[i].Name))
		}
	}
}

// objectEvents notice removals by other clients: the removed object may have been the only one that named a machine (R10).
func (r *reconciler) objectEvents() handler.TypedFuncs[*v1alpha1.GuardedNode, request] {
	return queue.Changes(func(_ context.Context, before, after *v1alpha1.GuardedNode, q requests) {
		r.counts.Observe(before, after, r.clock.Now())
		switch {
		case before == nil:
			wake(q, types.UID(after.Name))
		case after == nil:
			r.mu.Lock()
			isOurs := r.deleted[before.UID]
			delete(r.deleted, before.UID)
			r.mu.Unlock()
			if !isOurs {
				r.lose(before, q)
			}
		default:
			if before.Generation != after.Generation { // reports of agents do not change the spec
				wake(q, types.UID(after.Name))
			}
			if nodelife.Drops(before, after) {
				r.lose(after, q)
			}
		}
	})
}

func (r *reconciler) lose(object *v1alpha1.GuardedNode, q requests) {
	r.interrupt("another client deleted a GuardedNode, or a machine of one")
	q.Add(request{})
	wake(q, types.UID(object.Name))
}

// recordEvents queue the Node UIDs in a record, whose objects it may need, and the objects with queries about its sandboxes.
func (r *reconciler) recordEvents() handler.TypedFuncs[*v1alpha1.IPAllocation, request] {
	return queue.Changes(func(ctx context.Context, before, after *v1alpha1.IPAllocation, q requests) {
		if had, has := nodelife.NamedBy(before), nodelife.NamedBy(after); !slices.Equal(had, has) {
			for _, uid := range slices.Concat(had, has) {
				wake(q, uid)
			}
		}
		switch {
		case after == nil:
			r.wakeQueried(ctx, before, q)
		case before != nil && !slices.Equal(index.SandboxIDs(before), index.SandboxIDs(after)):
			r.wakeQueried(ctx, after, q)
		}
	})
}

func wake(q requests, uid types.UID) { q.AddAfter(request{UID: uid}, gather) }
