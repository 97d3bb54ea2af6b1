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

// collect deletes an object that nothing needs any more. The caches say when a look at the API server is worth it.
func (r *reconciler) collect(ctx context.Context, v *view) (reconcile.Result, error) {
	isHeld := v.isNamed || slices.ContainsFunc(v.Live, func(n release.Node) bool { return n.NodeUID == v.UID })
	if gone := nodelife.Gone(&v.Spec) > 0; (isHeld && !gone) || (gone && r.options.Settings.HoldGoneNodes) {
		return reconcile.Result{}, nil // an event asks again
	}
	result := reconcile.Result{RequeueAfter: lookInterval}
	if isHeld || !r.isObserving() {
		return result, nil
	}
	live, over, err := r.isOver(ctx, v)
	if err != nil || live == nil {
		return result, err
	}
	if isNeeded, err := r.isNeeded(ctx, v, live, over); err != nil || isNeeded {
		return result, err
	}
	return result, r.delete(ctx, live)
}

// isObserving: no event about a Node or an object can have been lost since the observation began (R3), and what reported is written (R1).
func (r *reconciler) isObserving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.acquired.IsZero() && !r.lost && len(r.seen) == 0 && r.lists == r.options.Watches.lists.Load() && r.clock.Now().Sub(r.complete).Abs() <= maxGap
}

// isOver reads the objects live: the object if nothing is left to it, and since when; else nil.
func (r *reconciler) isOver(ctx context.Context, v *view) (*v1alpha1.GuardedNode, time.Time, error) {
	if over, ok := nodelife.OverSince(v.object, []v1alpha1.GuardedNode{*v.object}, r.acquired, r.options.Settings); !ok || r.clock.Now().Before(over) {
		return nil, time.Time{}, nil
	}
	if now := r.clock.Now(); r.objects == nil || now.Sub(r.read).Abs() >= reuse {
		objects, err := r.readObjects(ctx)
		if err != nil {
			return nil, time.Time{}, err
		}
		r.objects, r.read = objects, now
	}
	at := slices.IndexFunc(r.objects, func(o v1alpha1.GuardedNode) bool { return o.UID == v.object.UID })
	if at < 0 {
		return nil, time.Time{}, nil // another client deleted it: its event comes
	}
	live := &r.objects[at]
	over, ok := nodelife.OverSince(live, r.objects, r.acquired, r.options.Settings)
	if !ok || r.clock.Now().Before(over) {
		return nil, time.Time{}, nil
	}
	return live, over, nil
}

func (r *reconciler) readObjects(ctx context.Context) ([]v1alpha1.GuardedNode, error) {
	objects := []v1alpha1.GuardedNode{}
	for list, err := range pages.Of[v1alpha1.GuardedNodeList](ctx, r.live) {
		if err != nil {
			return nil, fmt.Errorf("listing GuardedNodes: %w", err)
		}
		objects = append(objects, list.Items...)
	}
	return objects, nil
}

// isNeeded reads live what may still need the object: a Node of its UID, a record that names it, and what shows that a machine of it is alive.
func (r *reconciler) isNeeded(ctx context.Context, v *view, live *v1alpha1.GuardedNode, over time.Time) (bool, error) {
	var node corev1.Node
	err := r.live.Get(ctx, types.NamespacedName{Name: live.Spec.NodeName}, &node)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Node %s: %w", live.Spec.NodeName, err)
	}
	if err == nil && node.UID == v.UID {
		return true, nil
	}
	if isAlive, err := r.isAlive(ctx, v, live, over); err != nil || isAlive {
		return isAlive, err
	}
	for records, err := range pages.Of[v1alpha1.IPAllocationList](ctx, r.live, client.MatchingFields{"spec.nodeName": live.Spec.NodeName}) {
		if err != nil {
			return false, fmt.Errorf("listing the records of node %s: %w", live.Spec.NodeName, err)
		}
		if slices.ContainsFunc(records.Items, func(record v1alpha1.IPAllocation) bool { return slices.Contains(nodelife.NamedBy(&record), v.UID) }) {
			return true, nil
		}
	}
	return false, nil
}

// isAlive looks for the kubelet and the machines that are gone, in what is read after the delay. What it finds, the next look writes.
func (r *reconciler) isAlive(ctx context.Context, v *view, live *v1alpha1.GuardedNode, over time.Time) (bool, error) {
	if nodelife.Gone(&live.Spec) == 0 {
		return false, nil
	}
	kubelet, err := r.kubelet(ctx, v, over)
	if err != nil {
		return false, err
	}
	for i := range live.Spec.Machines {
		machine := &live.Spec.Machines[i]
		if machine.Gone == nil {
			continue
		}
		name, err := r.options.Registered(ctx, machine.Identity(v.UID), over)
		if err != nil || name != "" {
			return true, err
		}
		if kubelet.Get().LivenessSince(nodelife.KubeletOf(machine.Gone)) != "" {
			delete(r.looked, v.UID)
			return true, nil
		}
	}
	return false, nil
}

// delete compares UID and resourceVersion: what was written since then needs another decision.
func (r *reconciler) delete(ctx context.Context, object *v1alpha1.GuardedNode) error {
	r.mu.Lock()
	r.deleted[object.UID] = true
	r.mu.Unlock()
	err := r.client.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
	if err == nil {
		uid := types.UID(object.Name)
		delete(r.looked, uid)
		delete(r.wrote, uid)
		log.FromContext(ctx).Info("A GuardedNode was deleted: its machines have successors or are gone, and no record names it", "node", object.Spec.NodeName, "nodeUID", uid)
		return nil
	}
	r.mu.Lock()
	delete(r.deleted, object.UID) // a deletion without a known response counts as another client's, which only delays releases
	r.mu.Unlock()
	r.objects = nil
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("deleting GuardedNode %s of node %s: %w", object.Name, object.Spec.NodeName, err)
}
