// SPDX-License-Identifier: Apache-2.0

package queries

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// Events queue the records whose queries or responses in a GuardedNode changed, and all with queries in it when its agent begins or stops to
// respond. request gives the request for a record; false for a record of another controller.
func Events[T comparable](request func(record string) (T, bool)) handler.TypedFuncs[*v1alpha1.GuardedNode, T] {
	return queue.Changes(func(_ context.Context, before, after *v1alpha1.GuardedNode, q workqueue.TypedRateLimitingInterface[T]) {
		if before == nil {
			for i := range after.Status.Responses {
				if r, is := request(after.Status.Responses[i].Record); is {
					queue.AddFirst(q, r)
				}
			}
		}
		for _, record := range changed(cmp.Or(before, &v1alpha1.GuardedNode{}), cmp.Or(after, &v1alpha1.GuardedNode{})) {
			if r, is := request(record); is {
				q.Add(r)
			}
		}
	})
}

// changed are the records to queue, in order.
func changed(before, after *v1alpha1.GuardedNode) []string {
	records := sets.New[string]()
	queries, responses := sets.New(before.Spec.Queries...), sets.New(before.Status.Responses...)
	for _, q := range queries.SymmetricDifference(sets.New(after.Spec.Queries...)).UnsortedList() {
		records.Insert(q.Record)
	}
	for _, r := range responses.SymmetricDifference(sets.New(after.Status.Responses...)).UnsortedList() {
		records.Insert(r.Record)
	}
	if isResponding(before) != isResponding(after) {
		for i := range after.Spec.Queries {
			records.Insert(after.Spec.Queries[i].Record)
		}
	}
	return sets.List(records)
}

// isResponding is the reason of the condition Responding; empty without it.
func isResponding(object *v1alpha1.GuardedNode) string {
	if c := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.RespondingCondition); c != nil {
		return c.Reason
	}
	return ""
}

// Counts are the metrics of queries and responses, from the events of GuardedNodes.
type Counts struct {
	mu   sync.Mutex
	open map[types.UID]int
	sum  int
}

// Observe counts what is new in an object. before is nil if it was not seen, after if it was deleted.
func (c *Counts) Observe(before, after *v1alpha1.GuardedNode, now time.Time) {
	if after == nil {
		c.set(types.UID(before.Name), 0)
		return
	}
	open := 0
	for i := range after.Spec.Queries {
		q := &after.Spec.Queries[i]
		verdict := verdictOn(q, after)
		if verdict == nil {
			open++
		}
		if before == nil {
			continue
		}
		if earlier := verdictOn(q, before); verdict != nil && (earlier == nil || earlier.Verdict != verdict.Verdict) {
			metrics.Responses.WithLabelValues(string(verdict.Verdict), verdict.Reason).Inc()
			if verdict.Verdict == v1alpha1.VerdictReadyForRelease {
				metrics.HandshakeDuration.Observe(max(now.Sub(q.Time.Time), 0).Seconds())
			}
		}
	}
	c.set(types.UID(after.Name), open)
}

// verdictOn is the response in an object to this query; nil without one.
func verdictOn(q *v1alpha1.SandboxQuery, object *v1alpha1.GuardedNode) *v1alpha1.SandboxResponse {
	for i := range object.Status.Responses {
		if r := &object.Status.Responses[i]; r.Record == q.Record && r.SandboxID == q.SandboxID && r.Epoch == q.Epoch && r.BootID == q.BootID {
			return r
		}
	}
	return nil
}

func (c *Counts) set(node types.UID, open int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[types.UID]int{}
	}
	c.sum += open - c.open[node]
	c.open[node] = open
	if open == 0 {
		delete(c.open, node)
	}
	metrics.OpenQueries.Set(float64(c.sum))
}

// Made counts the queries that a write made.
func Made(object *v1alpha1.GuardedNode) {
	for i := range object.Spec.Queries {
		if q := &object.Spec.Queries[i]; q.Epoch == object.Generation {
			metrics.Queries.WithLabelValues(about(q)).Inc()
		}
	}
}

func about(q *v1alpha1.SandboxQuery) string {
	switch {
	case q.SandboxID == v1alpha1.AnySandbox:
		return metrics.AboutAny
	case q.OutOfService:
		return metrics.AboutOutOfService
	}
	return metrics.AboutSandbox
}
