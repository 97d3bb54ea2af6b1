// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// nextQueries are the queries that the object has to have.
func (r *reconciler) nextQueries(ctx context.Context, v *view, now time.Time) []v1alpha1.SandboxQuery {
	generation := int64(1)
	if v.object != nil {
		generation = v.object.Generation + 1
	}
	next, done := r.options.Queries.Next(v.UID, v.Spec.Queries, generation, now, func(q *v1alpha1.SandboxQuery) bool {
		needed, err := r.isNeededQuery(ctx, q)
		if err != nil {
			v.unread = errors.Join(v.unread, err)
		}
		return needed || err != nil
	})
	v.queried = done
	return next
}

// isNeededQuery says whether a record has the sandbox. A query with the response DoNotRelease holds an address, so it is withdrawn only if the record,
// read live, shows that it is not needed.
func (r *reconciler) isNeededQuery(ctx context.Context, q *v1alpha1.SandboxQuery) (bool, error) {
	if r.options.Evidence != release.EvidenceAgent {
		return false, nil
	}
	for _, reader := range []client.Reader{r.client, r.live} {
		var record v1alpha1.IPAllocation
		err := reader.Get(ctx, types.NamespacedName{Name: q.Record}, &record)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading the record %s, which a query is about: %w", q.Record, err)
		}
		isKnown := q.SandboxID == v1alpha1.AnySandbox || slices.ContainsFunc(record.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == q.SandboxID })
		if !apierrors.IsNotFound(err) && isKnown {
			return true, nil
		}
	}
	return false, nil
}

// wakeQueried queues the objects that have queries about a record.
func (r *reconciler) wakeQueried(ctx context.Context, record *v1alpha1.IPAllocation, q requests) {
	var objects v1alpha1.GuardedNodeList
	if err := r.client.List(ctx, &objects, client.MatchingFields{index.QueriedRecord: record.Name}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Reading GuardedNodes from the cache failed; queries that no record needs stay until their object changes", "record", record.Name)
	}
	for i := range objects.Items {
		wake(q, types.UID(objects.Items[i].Name))
	}
}
