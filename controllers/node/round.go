// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
)

// round begins the observation again if an event may have been missed, and queues unwritten objects. It is complete if there are none.
func (r *reconciler) round(ctx context.Context) (reconcile.Result, error) {
	began := r.clock.Now().Round(0) // wall time, as delays are: a step of the clock, or a suspension, has to show as a gap
	if err := r.reach(ctx, began); err != nil {
		return reconcile.Result{}, err
	}
	if why := r.interruption(began); why != "" {
		if err := r.writeLease(ctx, func(l *coordinationv1.LeaseSpec) {
			l.AcquireTime, l.RenewTime = &metav1.MicroTime{Time: began}, nil
		}); err != nil {
			return reconcile.Result{}, err
		}
		log.FromContext(ctx).Info("The observation of Nodes begins: until the delay is over, no machine counts as gone", "because", why)
		r.begin(began)
	}
	unwritten, gone, err := r.unwritten(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(unwritten) > 0 {
		for _, uid := range unwritten {
			r.queue.Add(request{UID: uid})
		}
		return reconcile.Result{RequeueAfter: retryInterval}, nil
	}
	r.completed(began)
	if (gone || r.isDisputed()) && began.Sub(r.renewed).Abs() >= lookInterval {
		if err := r.renewLease(ctx, gone, began); err != nil {
			return reconcile.Result{}, err
		}
		r.renewed = began
	}
	return reconcile.Result{RequeueAfter: lookInterval}, nil
}

// reach reads the API server live. An agent cannot respond while it is away.
func (r *reconciler) reach(ctx context.Context, now time.Time) error {
	var lease coordinationv1.Lease
	key := types.NamespacedName{Namespace: r.options.Namespace, Name: v1alpha1.NodeObservationLease}
	if err := r.live.Get(ctx, key, &lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Lease %s: %w", key, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if read := r.clock.Now().Round(0); read.Sub(r.reached).Abs() > maxGap {
		r.reachedSince = read
	}
	r.reached = now
	return nil
}

// interruption says why a Node may have been created and deleted unseen since the observation began; empty if none can (R3, R10). A reason stands until
// the Lease has the new observation.
func (r *reconciler) interruption(now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	why, lists := r.lost, r.options.Watches.lists.Load()
	r.lost = ""
	switch {
	case why != "":
	case r.acquired.IsZero():
		why = "this manager has not observed Nodes before"
	case lists != r.lists:
		why = "a watch had to begin with a list"
	case now.Sub(r.complete).Abs() > maxGap:
		why = "the last complete round is too long ago"
	}
	if why != "" {
		r.acquired, r.lists = time.Time{}, lists
	}
	return why
}

func (r *reconciler) begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acquired, r.complete, r.renewed, r.isWhole = now, now, time.Time{}, false
}

func (r *reconciler) completed(began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complete, r.isWhole = began, true
}

// isComplete says whether every Node UID of a Node or record, from when the observation began, has its object.
func (r *reconciler) isComplete() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isWhole
}

// observing is since when no event about a Node or an object can have been lost (R3); zero if one may be.
func (r *reconciler) observing() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost != "" || r.lists != r.options.Watches.lists.Load() || r.clock.Now().Sub(r.complete).Abs() > maxGap {
		return time.Time{}
	}
	return r.acquired
}

// unwritten are the Node UIDs whose object is out of date; gone says whether a machine of any object is gone.
func (r *reconciler) unwritten(ctx context.Context) (uids []types.UID, gone bool, err error) {
	all, gone, err := r.nodeUIDs(ctx)
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		v, err := r.observe(ctx, uid)
		if err != nil {
			return nil, false, err
		}
		if spec := nodelife.Next(&v.Observation, r.clock.Now()); !equality.Semantic.DeepEqual(spec, v.Spec) && len(spec.Machines) > 0 {
			uids = append(uids, uid)
		}
	}
	return uids, gone, err
}

// nodeUIDs are all Node UIDs of Nodes, objects, notes and records.
func (r *reconciler) nodeUIDs(ctx context.Context) (all map[types.UID]bool, gone bool, err error) {
	var nodes corev1.NodeList
	var objects v1alpha1.GuardedNodeList
	var records v1alpha1.IPAllocationList
	for _, list := range []client.ObjectList{&nodes, &objects, &records} {
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, false, fmt.Errorf("listing Nodes, GuardedNodes and records of the cache: %w", err)
		}
	}
	all = map[types.UID]bool{}
	for i := range nodes.Items {
		all[nodes.Items[i].UID] = true
	}
	for i := range objects.Items {
		all[types.UID(objects.Items[i].Name)] = true
		gone = gone || nodelife.Gone(&objects.Items[i].Spec) > 0
	}
	for _, uid := range r.options.Watches.notes.uids() {
		all[uid] = true
	}
	for i := range records.Items {
		for _, uid := range nodelife.NamedBy(&records.Items[i]) {
			all[uid] = true
		}
	}
	return all, gone, nil
}

// renewLease renews the Lease while a machine is gone. If it has the observation of another leader that no longer renews it, this manager's observation
// begins again.
func (r *reconciler) renewLease(ctx context.Context, gone bool, now time.Time) error {
	acquired := r.observing()
	return r.writeLease(ctx, func(l *coordinationv1.LeaseSpec) {
		switch last := cmp.Or(l.RenewTime, l.AcquireTime); {
		case isOf(acquired, l) && gone:
			l.RenewTime = &metav1.MicroTime{Time: now}
		case isOf(acquired, l):
		case last == nil || now.Sub(last.Time).Abs() > maxGap:
			r.interrupt("the Lease had the observation of another manager, which has ended")
		}
	})
}

// dispute records whether the Lease has the observation of another manager.
func (r *reconciler) dispute(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disputed = is
}

func (r *reconciler) isDisputed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.disputed
}

// isOf says whether the Lease has the observation that began at a time.
func isOf(acquired time.Time, lease *coordinationv1.LeaseSpec) bool {
	return lease.AcquireTime != nil && lease.AcquireTime.Time.Equal(acquired.Truncate(time.Microsecond))
}

// interrupt makes the next round begin the observation again, for a reason. Until then no machine counts as gone.
func (r *reconciler) interrupt(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = why
}

// writeLease changes or creates the Lease. Without a change nothing is written.
func (r *reconciler) writeLease(ctx context.Context, change func(*coordinationv1.LeaseSpec)) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.options.Namespace, Name: v1alpha1.NodeObservationLease}}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	before := lease.DeepCopy()
	change(&lease.Spec)
	switch {
	case err == nil && equality.Semantic.DeepEqual(before, lease):
	case err == nil:
		err = r.client.Update(ctx, lease, client.FieldOwner(finalizer.FieldManager))
	case apierrors.IsNotFound(err):
		err = r.client.Create(ctx, lease, client.FieldOwner(finalizer.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("writing Lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	return nil
}
