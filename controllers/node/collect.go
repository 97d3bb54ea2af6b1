// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// collect deletes an object that is no longer needed. The caches decide when it is read live.
func (r *reconciler) collect(ctx context.Context, v *view) (reconcile.Result, error) {
	isHeld := v.isNamed || len(v.Spec.Queries) > 0 || slices.ContainsFunc(v.Live, func(n release.Node) bool { return n.NodeUID == v.UID })
	gone := v.gone()
	if (isHeld && len(gone) == 0) || (len(gone) > 0 && r.options.Settings.HoldGoneNodes) {
		return reconcile.Result{}, nil // an event queues it again
	}
	result := reconcile.Result{RequeueAfter: lookInterval}
	if isHeld || !r.isObserving() || nodelife.IsFull(v.object) {
		return result, nil
	}
	if left, err := r.delayLeft(ctx, gone); err != nil {
		return result, err
	} else if left > 0 {
		return reconcile.Result{RequeueAfter: min(left, lookInterval)}, nil
	}
	return result, r.deleteUnneeded(ctx, v)
}

// deleteUnneeded deletes an object unless a live read shows that it is needed.
func (r *reconciler) deleteUnneeded(ctx context.Context, v *view) error {
	if isNeeded, err := r.isNeeded(ctx, v); err != nil || isNeeded {
		return err
	}
	return r.delete(ctx, v.object)
}

// delayLeft is the rest of the delay of the object's gone machines.
func (r *reconciler) delayLeft(ctx context.Context, gone []v1alpha1.NodeIdentity) (time.Duration, error) {
	if len(gone) == 0 {
		return 0, nil
	}
	now := r.clock.Now()
	lifecycle, err := r.lifecycle.Gone(ctx, "", gone)
	return lifecycle.Since.Add(r.options.Settings.NodeGoneDelay).Sub(now), err
}

// gone are the machines of the object that are gone.
func (v *view) gone() []v1alpha1.NodeIdentity {
	var gone []v1alpha1.NodeIdentity
	for i := range v.Spec.Machines {
		if m := &v.Spec.Machines[i]; m.Gone != nil {
			gone = append(gone, m.Identity(v.UID))
		}
	}
	return gone
}

// isObserving says whether no event about a Node or an object can have been lost since the observation began (R3), and all reports are written (R1).
func (r *reconciler) isObserving() bool {
	return !r.observing().IsZero() && len(r.options.Watches.notes.uids()) == 0
}

// isNeeded reads live whether the object is needed: by a Node of its UID, a record that names it, or a query to all nodes about a sandbox it claims.
func (r *reconciler) isNeeded(ctx context.Context, v *view) (bool, error) {
	var node corev1.Node
	err := r.live.Get(ctx, types.NamespacedName{Name: v.Spec.NodeName}, &node)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Node %s: %w", v.Spec.NodeName, err)
	}
	if err == nil && node.UID == v.UID {
		return true, nil
	}
	for records, err := range pages.Of[v1alpha1.IPAllocationList](ctx, r.live, client.MatchingFields{"spec.nodeName": v.Spec.NodeName}) {
		if err != nil {
			return false, fmt.Errorf("listing the records of node %s: %w", v.Spec.NodeName, err)
		}
		if slices.ContainsFunc(records.Items, func(record v1alpha1.IPAllocation) bool { return slices.Contains(nodelife.NamedBy(&record), v.UID) }) {
			return true, nil
		}
	}
	return r.isClaimant(ctx, v)
}

// isClaimant says whether the object claims a sandbox with a standing query.
func (r *reconciler) isClaimant(ctx context.Context, v *view) (bool, error) {
	response := v.object.Status.AllNodes
	if response == nil || len(response.Claims) == 0 {
		return false, nil
	}
	var all v1alpha1.AllNodesQuery
	err := r.live.Get(ctx, types.NamespacedName{Name: v1alpha1.AllNodesQueryName}, &all)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the queries to all nodes: %w", err)
	}
	return slices.ContainsFunc(all.Spec.Queries, func(q v1alpha1.OrphanQuery) bool {
		return slices.ContainsFunc(response.Claims, func(c v1alpha1.SandboxClaim) bool { return c.SandboxID == q.SandboxID })
	}), nil
}

// delete compares UID and resourceVersion: after a write since the cached object it has to be decided again.
func (r *reconciler) delete(ctx context.Context, object *v1alpha1.GuardedNode) error {
	r.mu.Lock()
	r.deleted[object.UID] = true
	r.mu.Unlock()
	err := r.client.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
	if err == nil {
		uid := types.UID(object.Name)
		r.mu.Lock()
		delete(r.looks, uid)
		r.mu.Unlock()
		delete(r.wrote, uid)
		log.FromContext(ctx).Info("A GuardedNode was deleted: its machines have successors or are gone, and no record names it", "node", object.Spec.NodeName, "nodeUID", uid)
		return nil
	}
	r.mu.Lock()
	delete(r.deleted, object.UID) // a deletion with an unknown result counts as another client's, which only delays releases
	r.mu.Unlock()
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("deleting GuardedNode %s of node %s: %w", object.Name, object.Spec.NodeName, err)
}
