// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// queries is the AllNodesQuery as one watch shows it. It is the store of a reflector.
type queries struct {
	clock   clock.PassiveClock
	changed func()

	mu     sync.Mutex
	object *v1alpha1.AllNodesQuery
	seen   map[queryKey]time.Time
	synced bool
}

var _ cache.ReflectorStore = &queries{}

// queryKey is one query: one that was withdrawn and made again has another epoch.
type queryKey struct {
	object    types.UID
	sandboxID string
	epoch     int64
}

func newQueries(c clock.PassiveClock, changed func()) *queries {
	return &queries{clock: c, changed: changed}
}

// Add is the reflector's: an event of the watch.
func (q *queries) Add(object any) error { return q.Replace([]any{object}, "") }

// Update is the reflector's: an event of the watch.
func (q *queries) Update(object any) error { return q.Replace([]any{object}, "") }

// Delete is the reflector's: there is no query any more.
func (q *queries) Delete(any) error { return q.Replace(nil, "") }

// Replace is the reflector's: a list, which has one object or none.
func (q *queries) Replace(objects []any, _ string) error {
	var all *v1alpha1.AllNodesQuery
	for _, object := range objects {
		found, ok := object.(*v1alpha1.AllNodesQuery)
		if !ok {
			return fmt.Errorf("watching the AllNodesQuery: found %T", object)
		}
		all = found
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	seen := map[queryKey]time.Time{}
	if all != nil {
		for i := range all.Spec.Queries {
			key := keyOfQuery(all, &all.Spec.Queries[i])
			if seen[key] = q.seen[key]; seen[key].IsZero() {
				seen[key] = q.clock.Now()
			}
		}
	}
	q.object, q.seen, q.synced = all, seen, true
	q.changed()
	return nil
}

// Resync is the reflector's, and nothing here: there is no queue to fill again.
func (q *queries) Resync() error { return nil }

// queried is one query that stands.
type queried struct {
	v1alpha1.OrphanQuery
	// at is when this agent first saw it.
	at time.Time
}

// snapshot is what stands at one moment; object is nil where there is no object, and synced false while there has been no list.
func (q *queries) snapshot() (object *v1alpha1.AllNodesQuery, standing []queried, synced bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.object == nil {
		return nil, nil, q.synced
	}
	for i := range q.object.Spec.Queries {
		query := &q.object.Spec.Queries[i]
		standing = append(standing, queried{OrphanQuery: *query, at: q.seen[keyOfQuery(q.object, query)]})
	}
	return q.object, standing, q.synced
}

func keyOfQuery(object *v1alpha1.AllNodesQuery, query *v1alpha1.OrphanQuery) queryKey {
	return queryKey{object: object.UID, sandboxID: query.SandboxID, epoch: query.Epoch}
}
