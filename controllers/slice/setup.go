// SPDX-License-Identifier: Apache-2.0

package slice

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

type requests = workqueue.TypedRateLimitingInterface[request]

// Setup registers a Reconciler for each of the backends that divides ranges among nodes. What failed is tried again with a back-off
// up to lastRetry. Simulated queues fit a simulation.
func Setup(mgr manager.Manager, backends []ipam.Backend, clk clock.PassiveClock, lastRetry time.Duration, simulated bool) error {
	for _, backend := range backends {
		slices, divides := backend.(ipam.Sliced)
		if !divides {
			continue
		}
		reconciler := &Reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), slices: slices, recorder: mgr.GetEventRecorder("holdfast"),
			clock: clk, reported: map[types.UID]string{}}
		err := queue.Control(mgr, "slice-"+backend.Name(), controller.TypedOptions[request]{Reconciler: shadow.WithoutRetry[request](reconciler),
			RateLimiter: backoff.RateLimiter[request](lastRetry), NewQueue: backoff.NewQueue[request](simulated)},
			source.TypedKind(mgr.GetCache(), &corev1.Node{}, nodeEvents()),
			reconciler.feed.Source(func(context.Context) { reconciler.feed.Add(request{}) }))
		if err != nil {
			return err
		}
		slices.Subscribe(reconciler.poolChanged)
	}
	return nil
}

// nodeEvents: only created and deleted Nodes move slices.
func nodeEvents() handler.TypedFuncs[*corev1.Node, request] {
	return queue.Changes(func(_ context.Context, before, after *corev1.Node, q requests) {
		if before == nil || after == nil {
			q.AddAfter(request{}, nodeDelay)
		}
	})
}

// poolChanged is called for each change of any pool.
func (r *Reconciler) poolChanged(ipam.Event) {
	if r.waiting.Load() {
		r.feed.AddAfter(poolDelay, request{})
	}
}
