// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/kept"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// sandboxID keys the orphan controller's queue.
type sandboxID string

// router turns a backend's changes into work: for the pod UIDs that they concern, for pods without the finalizer, and for
// sandboxes without an owner. Until the queues run (another replica leads) it drops changes: starting them reads everything.
type router struct {
	*core
	mu      sync.Mutex
	pods    workqueue.TypedRateLimitingInterface[types.UID]
	late    workqueue.TypedRateLimitingInterface[reconcile.Request]
	orphans workqueue.TypedRateLimitingInterface[sandboxID]
}

func newRouter(shared *core) *router {
	r := &router{core: shared}
	for _, backend := range shared.backends {
		backend.Subscribe(r.route)
	}
	return r
}

// route is called for each change that a backend sees. It only reads caches.
func (r *router) route(event ipam.Event) {
	for _, ref := range event.PodRefs {
		r.routePod(ref)
	}
	for _, id := range event.SandboxIDs {
		r.routeSandbox(id)
	}
	for _, record := range event.Records {
		if id, isOrphan := strings.CutPrefix(record, v1alpha1.OrphanPrefix); isOrphan {
			r.routeSandbox(id)
			continue
		}
		r.addPod(types.UID(record))
	}
	for i := range event.Problems {
		r.report(&event.Problems[i])
	}
}

// report tells whoever looks at the pool what cannot be read in it. Only the leader does.
func (r *router) report(problem *ipam.Problem) {
	r.mu.Lock()
	leading := r.pods != nil
	r.mu.Unlock()
	for _, backend := range r.backends {
		if leading && backend.Name() == problem.Backend {
			r.recorder.Eventf(backend.PoolReference(problem.Pool), nil, corev1.EventTypeWarning, string(v1alpha1.ReasonMalformedPool), "Report",
				"offset %q, podref %q: %s", problem.Offset, problem.PodRef, problem.Message)
		}
	}
}

func (r *router) routePod(ref ipam.PodRef) {
	ctx := context.Background()
	var pod corev1.Pod
	err := r.client.Get(ctx, types.NamespacedName(ref), &pod)
	if err == nil {
		r.addPod(pod.UID)
	}
	if err != nil || lacksFinalizer(&pod) {
		r.addLate(ref)
	}
	for _, uid := range r.recordNames(ctx, index.RecordPod, ref.String()) {
		r.addPod(uid)
	}
}

func (r *router) routeSandbox(id string) {
	for _, uid := range r.recordNames(context.Background(), index.RecordSandbox, id) {
		r.addPod(uid)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.orphans != nil {
		r.orphans.Add(sandboxID(id))
	}
}

func (r *router) addPod(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods != nil && uid != "" {
		r.pods.Add(uid)
	}
}

func (r *router) addLate(ref ipam.PodRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.late != nil {
		r.late.Add(reconcile.Request{NamespacedName: types.NamespacedName(ref)})
	}
}

// lacksFinalizer: the pod could have the finalizer and does not, whoever made it or changed it.
func lacksFinalizer(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer)
}

// watchFinalizer follows the finalizer of a pod of the cache. Without the label a pod leaves the cache: before is then its last version
// and now is nil.
func (r *router) watchFinalizer(before, now *corev1.Pod) {
	known := now
	switch {
	case now == nil:
		known = before
	case !lacksFinalizer(now):
		return
	case before != nil && controllerutil.ContainsFinalizer(before, v1alpha1.Finalizer):
		r.witness.LostFinalizer(now.UID, kept.RemovedBy(before, now))
	}
	r.addLate(ipam.PodRef{Namespace: known.Namespace, Name: known.Name})
}

// replay routes everything that the backends hold: what was there before the queues ran.
func (r *router) replay() {
	var pods corev1.PodList
	if err := r.client.List(context.Background(), &pods); err == nil {
		for i := range pods.Items {
			r.addPod(pods.Items[i].UID) // whoever waited for the pools to be listed
		}
	}
	for _, backend := range r.backends {
		snapshot := backend.All()
		event := ipam.Event{Problems: snapshot.Problems}
		for i := range snapshot.Entries {
			entry := &snapshot.Entries[i]
			event.SandboxIDs = append(event.SandboxIDs, entry.SandboxID)
			if entry.Owner != nil {
				event.PodRefs = append(event.PodRefs, *entry.Owner)
			}
			if entry.Releasing != "" {
				event.Records = append(event.Records, entry.Releasing)
			}
		}
		r.route(event)
	}
}

// recordNames lists, from the cache, the pod UIDs whose records an index finds. Records of orphans are nobody's.
func (c *core) recordNames(ctx context.Context, field, key string) []types.UID {
	records, err := index.Records(ctx, c.client, field, key)
	if err != nil {
		return nil
	}
	names := make([]types.UID, 0, len(records))
	for i := range records {
		if !strings.HasPrefix(records[i].Name, v1alpha1.OrphanPrefix) {
			names = append(names, types.UID(records[i].Name))
		}
	}
	return names
}
