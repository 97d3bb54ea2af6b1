// SPDX-License-Identifier: Apache-2.0

// Package slice takes slices of a divided range from nodes that are deleted, once the pools of the slices hold no entry, and
// reports nodes that have no slice. The entries themselves are released like all others.
package slice

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

const (
	// nodeDelay is how long the IPAM has to look at a created or deleted Node before its slices are looked at.
	nodeDelay = 5 * time.Second
	// poolDelay gathers changes of pools, of which there may be many, into one look.
	poolDelay = 2 * time.Second
	// checkInterval is how often slices are looked at while some of them wait, or nodes have none.
	checkInterval = time.Minute
)

// request is the one key: all slices are looked at together.
type request struct{}

// Reconciler takes a slice from a deleted node once the node's pool of it is empty, which the webhook had kept the
// IPAM from doing; and reports nodes that have no slice. The entries themselves are released like all others.
type Reconciler struct {
	// client reads the cache, live the API server.
	client, live client.Reader
	slices       ipam.Sliced
	recorder     events.EventRecorder
	clock        clock.PassiveClock
	// waiting: slices of deleted nodes wait for their entries, so a change of a pool may end the wait.
	waiting atomic.Bool
	feed    queue.Feed[request]
	// reported is the last report on each SlicePool.
	reported map[types.UID]string
}

// Reconcile looks at every slice.
func (r *Reconciler) Reconcile(ctx context.Context, _ request) (reconcile.Result, error) {
	r.waiting.Store(true) // what changes from here on is looked at again
	pools, err := r.slices.SlicePools(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	held, changed := 0, false
	var failures []error
	for _, pool := range pools {
		inPool, err := r.clear(ctx, pool)
		held += inPool
		if errors.Is(err, ipam.ErrSliceChanged) {
			changed, err = true, nil
		}
		failures = append(failures, err)
	}
	without, due, err := r.reportNodes(ctx, pools)
	failures = append(failures, err)
	r.waiting.Store(held > 0)
	metrics.HeldSlices.Set(float64(held))
	metrics.NodesWithoutSlice.Set(float64(without))
	if err := errors.Join(failures...); err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case changed:
		due = poolDelay
	case due == 0 && held+without > 0:
		due = checkInterval
	}
	return reconcile.Result{RequeueAfter: due}, nil
}

// clear takes from deleted nodes what they do not use any more, and counts the slices that they keep. One slice that
// cannot be judged is kept and hides none of the others.
func (r *Reconciler) clear(ctx context.Context, pool *ipam.SlicePool) (held int, err error) {
	var failures []error
	for i, slice := range pool.Slices {
		if slice.Node == "" || r.isCached(ctx, slice.Node) {
			continue
		}
		kept, err := r.clearSlice(ctx, pool, i)
		if kept {
			held++
		}
		failures = append(failures, shadow.Ignore(err))
		if errors.Is(err, ipam.ErrSliceChanged) {
			break
		}
	}
	return held, errors.Join(failures...)
}

// isCached: a Node that the cache has may be gone, and then its deletion wakes us.
func (r *Reconciler) isCached(ctx context.Context, node string) bool {
	return r.client.Get(ctx, types.NamespacedName{Name: node}, &corev1.Node{}) == nil
}

// clearSlice reports whether a deleted node keeps its slice. The Node is read last: a machine that registers under the name
// has the slice, and its first ADD comes long after.
func (r *Reconciler) clearSlice(ctx context.Context, pool *ipam.SlicePool, index int) (kept bool, err error) {
	slice := pool.Slices[index]
	use, err := r.slices.SliceUse(ctx, pool, slice)
	if err != nil {
		return true, fmt.Errorf("slice %s of NodeSlicePool %s stays with node %s: %w", slice.Range, pool, slice.Node, err)
	}
	var node corev1.Node
	switch err := r.live.Get(ctx, types.NamespacedName{Name: slice.Node}, &node); {
	case err == nil:
		return false, nil
	case !apierrors.IsNotFound(err):
		return true, fmt.Errorf("slice %s of NodeSlicePool %s stays with node %s, which could not be read: %w", slice.Range, pool, slice.Node, err)
	case use.Any():
		log.FromContext(ctx).V(1).Info("A node that is gone keeps its slice", "nodeSlicePool", pool.String(), "node", slice.Node,
			"slice", slice.Range, "pool", use.Pool, "entries", use.Entries)
		return true, nil
	}
	if err := r.slices.ClearSlice(ctx, pool, index); err != nil {
		return true, err
	}
	metrics.ClearedSlices.Inc()
	r.recorder.Eventf(r.slices.SlicePoolReference(pool), slice.NodeReference(), corev1.EventTypeNormal, string(v1alpha1.ReasonSliceCleared), "ClearSlice",
		"slice %s is free: node %s is deleted, and no entry of it remains", slice.Range, slice.Node)
	return false, nil
}
