// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// OrphanReconciler records the entries of a sandbox that no pod UID can be shown to own. They are held: with the kubelet as
// the only evidence nobody can say where the sandbox is, so nobody can say that it is gone.
type OrphanReconciler struct {
	*core
	known *orphanSet
}

func setupOrphans(mgr manager.Manager, shared *core, routes *router) error {
	c, err := controller.NewTyped("orphan", mgr, controller.TypedOptions[sandboxID]{
		Reconciler:  &OrphanReconciler{core: shared, known: &orphanSet{members: map[sandboxID]int{}}},
		RateLimiter: retries[sandboxID](shared.options),
	})
	if err != nil {
		return fmt.Errorf("setting up the orphan controller: %w", err)
	}
	sources := []source.TypedSource[sandboxID]{
		source.TypedKind(mgr.GetCache(), &v1alpha1.IPAllocation{}, orphanEvents()),
		source.TypedFunc[sandboxID](func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[sandboxID]) error {
			routes.start(ctx, func() { routes.orphans = queue })
			return nil
		}),
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("setting up the orphan controller's watches: %w", err)
		}
	}
	return nil
}

// orphanEvents looks at every orphan's record when the process starts, because its entries may have gone while none ran, and when
// somebody deletes it.
func orphanEvents() handler.TypedFuncs[*v1alpha1.IPAllocation, sandboxID] {
	wake := func(record *v1alpha1.IPAllocation, q workqueue.TypedRateLimitingInterface[sandboxID]) {
		if id, orphan := strings.CutPrefix(record.Name, v1alpha1.OrphanPrefix); orphan {
			q.Add(sandboxID(id))
		}
	}
	return handler.TypedFuncs[*v1alpha1.IPAllocation, sandboxID]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.IPAllocation], q workqueue.TypedRateLimitingInterface[sandboxID]) {
			wake(e.Object, q)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.IPAllocation], q workqueue.TypedRateLimitingInterface[sandboxID]) {
			wake(e.Object, q)
		},
	}
}

// poolsCatchUp is how long pools that are not listed yet, or older than an orphan's record, are left to catch up.
const poolsCatchUp = time.Second

// Reconcile records a sandbox's entries as orphaned once nothing has tied them to a pod for ReleaseDelay, and takes the record
// back when somebody owns them after all or the pool is empty of them.
func (r *OrphanReconciler) Reconcile(ctx context.Context, id sandboxID) (reconcile.Result, error) {
	if !r.poolsListed() {
		return reconcile.Result{RequeueAfter: poolsCatchUp}, nil
	}
	found := r.unowned(ctx, string(id))
	var record v1alpha1.IPAllocation
	err := r.client.Get(ctx, types.NamespacedName{Name: v1alpha1.OrphanPrefix + string(id)}, &record)
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("reading the orphan record of sandbox %s: %w", id, err)
	}
	recorded := err == nil
	switch {
	case len(found.entries) > 0 && recorded:
		r.known.set(id, len(found.entries))
		return reconcile.Result{}, r.setState(ctx, &record, v1alpha1.StateOrphaned, v1alpha1.ReasonOwnerUnknown, orphanMessage)
	case len(found.entries) > 0:
		return r.adopt(ctx, id, found)
	}
	r.known.set(id, 0)
	switch {
	case !recorded:
		return reconcile.Result{}, nil
	case found.owned:
		return reconcile.Result{}, r.deleteRecord(ctx, &record)
	}
	return r.resolve(ctx, string(id), &record)
}

func (r *OrphanReconciler) poolsListed() bool {
	return !slices.ContainsFunc(r.backends, func(b ipam.Backend) bool { return !b.HasSynced() })
}

// adopt records entries that have been nobody's for long enough.
func (r *OrphanReconciler) adopt(ctx context.Context, id sandboxID, found unownedEntries) (reconcile.Result, error) {
	if left := found.since.Add(r.options.Settings.ReleaseDelay).Sub(r.clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if owned, err := r.ownedLive(ctx, found.entries); err != nil {
		return reconcile.Result{}, err
	} else if owned {
		return reconcile.Result{RequeueAfter: r.options.Settings.SandboxCreationMax}, nil
	}
	r.known.set(id, len(found.entries))
	return reconcile.Result{}, r.create(ctx, string(id), found.entries)
}

// resolve ends the record of entries that the cache does not show any more, if a live read does not show them either. Where
// another sandbox has an address of the record by now, its own is still to be proven gone.
func (r *OrphanReconciler) resolve(ctx context.Context, id string, record *v1alpha1.IPAllocation) (reconcile.Result, error) {
	v := &view{record: record}
	taken := false
	for _, backend := range r.backends {
		now, err := backend.Live(ctx, ipam.Query{SandboxIDs: []string{id}, Places: v.query(backend.Name()).Places})
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("looking whether the entries of sandbox %s are gone: %w", id, err)
		}
		if v.unreadable(now.Problems) != nil {
			return reconcile.Result{RequeueAfter: max(r.options.Settings.ReleaseDelay, poolsCatchUp)}, nil // unknown is not gone
		}
		for i := range now.Entries {
			if now.Entries[i].SandboxID == id {
				return reconcile.Result{RequeueAfter: poolsCatchUp}, nil
			}
			taken = true
		}
	}
	if taken {
		// Nothing tells when the other one has let the address go.
		return reconcile.Result{RequeueAfter: max(r.options.Settings.ReleaseDelay, poolsCatchUp)}, r.setState(ctx, record, v1alpha1.StateConflict, v1alpha1.ReasonConflict, takenOverMessage)
	}
	return reconcile.Result{}, r.deleteRecord(ctx, record)
}

// ownedLive: that the cache has no pod of the name says nothing. A live pod that is exempt from the guard, or that shows the
// address, has no need of a record.
func (r *OrphanReconciler) ownedLive(ctx context.Context, entries []ipam.Entry) (bool, error) {
	for i := range entries {
		if entries[i].Owner == nil {
			continue
		}
		var pod corev1.Pod
		err := r.live.Get(ctx, types.NamespacedName(*entries[i].Owner), &pod)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("reading pod %s, which may own an entry: %w", entries[i].Owner, err)
		}
		exempt, err := r.exempt(ctx, &pod)
		if err != nil || exempt || ownership.ShownBy(shown(&pod), ownership.Entry{IP: entries[i].IP, Interface: entries[i].Interface}) {
			return true, err
		}
	}
	return false, nil
}

// unownedEntries are the entries of one sandbox as the caches show them.
type unownedEntries struct {
	// entries are those that no record and no pod can be shown to own.
	entries []ipam.Entry
	// since is when the youngest of them was first seen.
	since time.Time
	// owned: somebody owns the sandbox, or has begun to give its entries back.
	owned bool
}

func (r *OrphanReconciler) unowned(ctx context.Context, id string) unownedEntries {
	if len(r.recordNames(ctx, indexRecordSandbox, id)) > 0 {
		return unownedEntries{owned: true}
	}
	var found unownedEntries
	for _, backend := range r.backends {
		for _, entry := range backend.Find(ipam.Query{SandboxIDs: []string{id}}).Entries {
			if entry.Releasing != "" || r.podOwns(ctx, &entry) {
				found.owned = true
				continue
			}
			found.entries = append(found.entries, entry)
			if entry.SeenSince.After(found.since) {
				found.since = entry.SeenSince
			}
		}
	}
	return found
}

func (r *OrphanReconciler) podOwns(ctx context.Context, entry *ipam.Entry) bool {
	var pod corev1.Pod
	if entry.Owner == nil || r.client.Get(ctx, types.NamespacedName(*entry.Owner), &pod) != nil {
		return false
	}
	owner := ownership.Of(ownership.Entry{IP: entry.IP, Interface: entry.Interface, SandboxID: entry.SandboxID,
		AddObserved: entry.AddObserved, SeenSince: entry.SeenSince}, []ownership.Candidate{r.candidate(pod.UID, &pod, nil)})
	return owner.UID == pod.UID
}

func (r *OrphanReconciler) create(ctx context.Context, id string, entries []ipam.Entry) error {
	now := metav1.NewTime(r.clock.Now())
	record := &v1alpha1.IPAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OrphanPrefix + id},
		Spec:       v1alpha1.IPAllocationSpec{Sandboxes: []v1alpha1.SandboxRecord{{ID: id, ObservedTime: now, Attribution: v1alpha1.AttributionNone}}},
	}
	for i := range entries {
		entry := &entries[i]
		if entry.Owner != nil {
			record.Spec.PodNamespace, record.Spec.PodName = entry.Owner.Namespace, entry.Owner.Name
		}
		record.Spec.Addresses = append(record.Spec.Addresses, v1alpha1.AddressRecord{Backend: entry.Backend, Pool: entry.Pool,
			IP: entry.IP.String(), Interface: entry.Interface, PodRef: entry.PodRef, SandboxID: id, ObservedTime: now,
			PoolResourceVersion: entry.PoolResourceVersion})
	}
	if err := r.client.Create(ctx, record, client.FieldOwner(finalizer.FieldManager)); err != nil {
		return client.IgnoreAlreadyExists(err)
	}
	return r.setState(ctx, record, v1alpha1.StateOrphaned, v1alpha1.ReasonOwnerUnknown, orphanMessage)
}

// setState says once why the addresses are held.
func (r *OrphanReconciler) setState(ctx context.Context, record *v1alpha1.IPAllocation, state v1alpha1.AllocationState,
	reason v1alpha1.Reason, message string) error {
	if record.Status.State == state {
		return nil
	}
	updated := record.DeepCopy()
	updated.Status.State = state
	meta.SetStatusCondition(&updated.Status.Conditions, metav1.Condition{Type: v1alpha1.ReleasedCondition, Status: metav1.ConditionFalse,
		Reason: string(reason), Message: message, LastTransitionTime: metav1.NewTime(r.clock.Now())})
	if err := r.client.Status().Update(ctx, updated, client.FieldOwner(finalizer.FieldManager)); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.recorder.Eventf(updated, nil, corev1.EventTypeWarning, string(reason), "Hold", "%s", message)
	return nil
}

const takenOverMessage = "an address of this sandbox, whose owner nobody can tell, stands in its pool for another sandbox by now: neither is released " +
	"until this one is proven gone; delete this record once you know that it is"

const orphanMessage = "no pod UID can be shown to own these addresses, so nobody can tell whether their sandbox is gone: they are held"

// orphanSet is the gauge of orphaned entries.
type orphanSet struct {
	mu      sync.Mutex
	members map[sandboxID]int
}

func (o *orphanSet) set(id sandboxID, entries int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	metrics.Orphans.Add(float64(entries - o.members[id]))
	if entries == 0 {
		delete(o.members, id)
		return
	}
	o.members[id] = entries
}
