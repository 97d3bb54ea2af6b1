// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// view is the state of one Node UID in the caches.
type view struct {
	nodelife.Observation
	// object is nil if there is none.
	object *v1alpha1.GuardedNode
	// taken is how many of the noted reports were used.
	taken int
	// isNamed: a record has the UID.
	isNamed bool
	// looked is when signs of the kubelet were read; zero if they were not.
	looked time.Time
	// queried is called once the object has the queries.
	queried func()
	// unread is what could not be read: signs of the kubelet, or whether a query is needed, which is kept then.
	unread error
}

// Reconcile updates the object of one Node UID, or makes a round.
func (r *reconciler) Reconcile(ctx context.Context, q request) (reconcile.Result, error) {
	if q.UID == "" {
		result, err := r.round(ctx)
		result.Priority = new(1) // a thousand objects of deleted Nodes before it would be a gap of the observation, again and again
		return result, err
	}
	v, err := r.observe(ctx, q.UID)
	if err != nil {
		return reconcile.Result{}, err
	}
	now, last := r.clock.Now(), r.wrote[q.UID]
	spec := r.next(ctx, v, now)
	spec.Queries = r.nextQueries(ctx, v, now)
	if !last.isMissing(v.object) && equality.Semantic.DeepEqual(spec.Machines, v.Spec.Machines) {
		r.looked(v) // a write of queries that fails is no gap
	}
	switch {
	case len(spec.Machines) == 0:
		return reconcile.Result{}, nil // no Node of the UID was ever seen, and no record has a machine of it
	case last.isMissing(v.object) && now.Sub(last.at).Abs() < maxLag:
		return reconcile.Result{RequeueAfter: gather}, nil
	case equality.Semantic.DeepEqual(spec, v.Spec):
		r.written(v)
		if v.unread != nil { // tried again soon: without signs for maxGap, the delay would begin again
			return reconcile.Result{}, v.unread
		}
		return r.collect(ctx, v)
	case now.Sub(last.at).Abs() < writeInterval:
		return reconcile.Result{RequeueAfter: writeInterval - now.Sub(last.at).Abs()}, nil
	}
	return r.save(ctx, v, spec, now)
}

// isMissing says whether the cache does not have the write yet.
func (w write) isMissing(object *v1alpha1.GuardedNode) bool {
	if w.version == "" || object == nil {
		return w.version != ""
	}
	order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, w.version)
	return err == nil && order < 0
}

// next is the object as it has to be. If a machine of it is gone, signs of its kubelet are read when that is due. After reads that failed
// for maxGap the delay begins again.
func (r *reconciler) next(ctx context.Context, v *view, now time.Time) v1alpha1.GuardedNodeSpec {
	spec, last := nodelife.Next(&v.Observation, now), r.looks[v.UID].last
	gone := nodelife.Gone(&spec)
	isDue := gone > nodelife.Gone(&v.Spec) || now.Sub(last).Abs() >= lookInterval
	if gone == 0 || !isDue || r.options.Settings.HoldGoneNodes {
		return spec
	}
	kubelet, err := r.kubelet(ctx, v)
	if err != nil {
		v.unread = fmt.Errorf("reading signs of the kubelet of the deleted Node %s: %w", spec.NodeName, err)
		return spec
	}
	if r.acquired.After(last) {
		last = r.acquired // no delay counts from before
	}
	v.looked, v.Kubelet, v.Unwatched = now.Round(0), kubelet, !last.IsZero() && now.Sub(last).Abs() > maxGap
	return nodelife.Next(&v.Observation, now)
}

// observe reads the caches. The noted reports are read first, so that a Node that is deleted meanwhile is not missed.
func (r *reconciler) observe(ctx context.Context, uid types.UID) (*view, error) {
	seen := r.options.Watches.notes.of(uid)
	v := &view{Observation: nodelife.Observation{UID: uid, NodeName: seen.name, Seen: seen.machines, Settings: r.options.Settings}, taken: len(seen.machines)}
	var object v1alpha1.GuardedNode
	err := r.client.Get(ctx, types.NamespacedName{Name: string(uid)}, &object)
	switch {
	case err == nil:
		v.object, v.Spec = &object, object.Spec
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading GuardedNode %s: %w", uid, err)
	}
	records, err := index.SharedRecords(ctx, r.client, index.RecordNodeUID, string(uid))
	if err != nil {
		return nil, fmt.Errorf("reading the records that name Node UID %s: %w", uid, err)
	}
	for i := range records {
		v.isNamed = true
		v.Named = append(v.Named, nodelife.MachinesOf(&records[i], uid)...)
		if v.NodeName == "" {
			v.NodeName = records[i].Spec.NodeName
		}
	}
	return v, r.observeNodes(ctx, v)
}

// observeNodes finds the Nodes that may report one of the machines.
func (r *reconciler) observeNodes(ctx context.Context, v *view) error {
	found := map[types.UID]bool{}
	add := func(field, key string) error {
		var nodes corev1.NodeList
		if err := r.client.List(ctx, &nodes, client.MatchingFields{field: key}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("reading Nodes from the cache: %w", err)
		}
		for i := range nodes.Items {
			if node := &nodes.Items[i]; !found[node.UID] {
				found[node.UID] = true
				v.Live = append(v.Live, facts.Node(node))
			}
		}
		return nil
	}
	err := add(index.NodeUID, string(v.UID))
	for _, key := range v.Keys() {
		if err == nil {
			err = add(index.Machine, key)
		}
	}
	return err
}

// kubelet reads the signs of the kubelet. If another Node has the name, they are of that Node's kubelet and do not count.
func (r *reconciler) kubelet(ctx context.Context, v *view) (release.Fact[nodelife.Kubelet], error) {
	name := v.Spec.NodeName
	if name == "" {
		name = v.NodeName
	}
	var node corev1.Node
	err := r.client.Get(ctx, types.NamespacedName{Name: name}, &node)
	if name == "" || err == nil {
		return release.Absent[nodelife.Kubelet](), nil
	}
	if !apierrors.IsNotFound(err) {
		return release.Fact[nodelife.Kubelet]{}, fmt.Errorf("reading Node %s from the cache: %w", name, err)
	}
	kubelet, err := r.options.Kubelet(ctx, name, time.Time{})
	return release.Known(kubelet), err
}

// save creates or updates the object. A conflict, as with a late cache, is retried.
func (r *reconciler) save(ctx context.Context, v *view, spec v1alpha1.GuardedNodeSpec, now time.Time) (reconcile.Result, error) {
	object := &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: string(v.UID)}, Spec: spec}
	var err error
	strict := client.FieldValidation(metav1.FieldValidationStrict) // with an older CustomResourceDefinition a query would lose a field
	if v.object == nil {
		err = r.client.Create(ctx, object, client.FieldOwner(finalizer.FieldManager), strict)
	} else {
		object = v.object.DeepCopy()
		object.Spec = spec
		err = r.client.Update(ctx, object, client.FieldOwner(finalizer.FieldManager), strict)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return reconcile.Result{RequeueAfter: writeInterval}, nil
	case err != nil:
		err = fmt.Errorf("writing GuardedNode %s of node %s: %w", v.UID, spec.NodeName, err)
		r.options.Queries.Failed(v.UID, err)
		return reconcile.Result{}, err
	}
	r.wrote[v.UID] = write{now, object.ResourceVersion}
	r.written(v)
	queries.Made(object)
	if before, after := nodelife.Gone(&v.Spec), nodelife.Gone(&spec); before != after {
		log.FromContext(ctx).Info("The number of machines that no Node reports has changed", "node", spec.NodeName, "nodeUID", v.UID, "gone", after)
	}
	return reconcile.Result{}, nil // its event queues it again
}

// written is called once the object has the state of the view. Until then the noted reports and requested queries are kept, and a read of signs that
// changes a machine does not count.
func (r *reconciler) written(v *view) {
	r.looked(v)
	r.options.Watches.notes.wrote(v.UID, v.taken)
	v.queried()
}

// looked records that signs were read, if they were.
func (r *reconciler) looked(v *view) {
	if v.looked.IsZero() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := look{r.looks[v.UID].since, v.looked}
	if v.Unwatched && v.Kubelet.IsKnown() { // without a kubelet of the name nothing could be missed
		l.since = v.looked
	}
	r.looks[v.UID] = l
}

// countWatched has the delay of an object's machines count from when the signs of their kubelet have been read without a gap; from now if they are not.
func (r *reconciler) countWatched(object *v1alpha1.GuardedNode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, now := r.looks[types.UID(object.Name)], r.clock.Now()
	if now.Sub(l.last).Abs() > maxGap && now.Sub(r.acquired).Abs() > maxGap {
		l.since = now
	}
	for i := range object.Spec.Machines {
		if gone := object.Spec.Machines[i].Gone; gone != nil && l.since.After(gone.Since.Time) {
			gone.Since = metav1.NewTime(l.since)
		}
	}
}
