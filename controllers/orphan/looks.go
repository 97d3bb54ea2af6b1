// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// podEvents queues the entries of a pod's name when the pod is deleted or shows other addresses: entries that an earlier pass left to the pod
// may have no owner any more (invariant I10).
func (r *Reconciler) podEvents() handler.TypedFuncs[*corev1.Pod, sandboxID] {
	return queue.Changes(func(_ context.Context, before, after *corev1.Pod, q requests) {
		if before == nil || after != nil && !facts.ShowsOthers(before, after) {
			return
		}
		for _, backend := range r.options.Backends {
			for _, entry := range backend.Find(ipam.Query{Pod: ipam.PodRef{Namespace: before.Namespace, Name: before.Name}}).Entries {
				q.Add(sandboxID(entry.SandboxID))
			}
		}
	})
}

// sandboxesLeft are the sandboxes that a pod's record no longer has; before is nil for a new record, after for a deleted one. Their entries, if any, have no owner
// now.
func sandboxesLeft(before, after *v1alpha1.IPAllocation) []sandboxID {
	if before.IsOrphan() {
		return nil
	}
	kept := index.SandboxIDs(after)
	var left []sandboxID
	for _, id := range index.SandboxIDs(before) {
		if !slices.Contains(kept, id) {
			left = append(left, sandboxID(id))
		}
	}
	return left
}

// scheduledLooks are the orphans without a record that the controller will reconcile again without an event, and when.
type scheduledLooks struct {
	mu  sync.Mutex
	due map[sandboxID]time.Time
}

func newScheduledLooks() *scheduledLooks { return &scheduledLooks{due: map[sandboxID]time.Time{}} }

// note records the result of a reconcile. A failed one is retried with back-off.
func (l *scheduledLooks) note(id sandboxID, result reconcile.Result, err error, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && result.RequeueAfter == 0 {
		delete(l.due, id)
		return
	}
	l.due[id] = now.Add(result.RequeueAfter)
}

// ids are the sandboxes with a scheduled reconcile.
func (l *scheduledLooks) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]string, 0, len(l.due))
	for id := range l.due {
		ids = append(ids, string(id))
	}
	return ids
}
