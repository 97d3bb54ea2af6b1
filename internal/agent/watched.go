// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// watched is one object, as its watch shows it, and when the agent first saw each of its queries. It is the store of a reflector.
type watched[T client.Object] struct {
	name    string
	clock   clock.PassiveClock
	changed func()
	keys    func(T) []queryKey

	mu     sync.Mutex
	object T
	exists bool
	seen   map[queryKey]time.Time
	synced bool
}

var _ cache.ReflectorStore = &watched[*v1alpha1.GuardedNode]{}

// queryKey identifies a query: made again it has another epoch, and in an object that was created again another UID.
type queryKey struct {
	object            types.UID
	record, sandboxID string
	bootID            string
	epoch             int64
}

// watchedNode is the store for the GuardedNode of a Node UID.
func watchedNode(uid types.UID, c clock.PassiveClock, changed func()) *watched[*v1alpha1.GuardedNode] {
	return &watched[*v1alpha1.GuardedNode]{name: string(uid), clock: c, changed: changed, keys: func(object *v1alpha1.GuardedNode) []queryKey {
		keys := make([]queryKey, 0, len(object.Spec.Queries))
		for i := range object.Spec.Queries {
			keys = append(keys, keyOf(object, &object.Spec.Queries[i]))
		}
		return keys
	}}
}

// watchedAll is the store for the AllNodesQuery.
func watchedAll(c clock.PassiveClock, changed func()) *watched[*v1alpha1.AllNodesQuery] {
	return &watched[*v1alpha1.AllNodesQuery]{name: v1alpha1.AllNodesQueryName, clock: c, changed: changed, keys: func(object *v1alpha1.AllNodesQuery) []queryKey {
		keys := make([]queryKey, 0, len(object.Spec.Queries))
		for i := range object.Spec.Queries {
			keys = append(keys, keyOfAll(object, &object.Spec.Queries[i]))
		}
		return keys
	}}
}

func keyOf(object *v1alpha1.GuardedNode, q *v1alpha1.SandboxQuery) queryKey {
	return queryKey{object: object.UID, record: q.Record, sandboxID: q.SandboxID, bootID: q.BootID, epoch: q.Epoch}
}

func keyOfAll(object *v1alpha1.AllNodesQuery, q *v1alpha1.OrphanQuery) queryKey {
	return queryKey{object: object.UID, sandboxID: q.SandboxID, epoch: q.Epoch}
}

// Add takes an event of the watch.
func (w *watched[T]) Add(object any) error { return w.Replace([]any{object}, "") }

// Update takes an event of the watch.
func (w *watched[T]) Update(object any) error { return w.Replace([]any{object}, "") }

// Delete takes the deletion of the object.
func (w *watched[T]) Delete(any) error { return w.Replace(nil, "") }

// Replace takes a list, which has one object or none.
func (w *watched[T]) Replace(objects []any, _ string) error {
	var found T
	for _, object := range objects {
		typed, ok := object.(T)
		if !ok {
			return fmt.Errorf("watching %s: found %T", w.name, object)
		}
		found = typed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[queryKey]time.Time{}
	if len(objects) > 0 {
		for _, key := range w.keys(found) {
			if seen[key] = w.seen[key]; seen[key].IsZero() {
				seen[key] = w.clock.Now()
			}
		}
	}
	w.object, w.exists, w.seen, w.synced = found, len(objects) > 0, seen, true
	w.changed()
	return nil
}

// Resync does nothing: there is no queue to fill again.
func (w *watched[T]) Resync() error { return nil }

// snapshot gives the object, if it exists, and when the agent first saw each of its queries; synced is false before the first list. Callers must
// not change what it returns.
func (w *watched[T]) snapshot() (object T, exists bool, seen map[queryKey]time.Time, synced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.object, w.exists, w.seen, w.synced
}
