// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

type sliceQueue = workqueue.TypedRateLimitingInterface[sliceRequest]

// setupSlices registers a SliceReconciler for each backend that divides ranges among nodes.
func setupSlices(mgr manager.Manager, shared *core, _ *router) error {
	for _, backend := range shared.backends {
		slices, divides := backend.(ipam.Sliced)
		if !divides {
			continue
		}
		reconciler := &SliceReconciler{core: shared, slices: slices, told: map[types.UID]string{}}
		c, err := controller.NewTyped("slice-"+backend.Name(), mgr, controller.TypedOptions[sliceRequest]{Reconciler: shadow.Settled[sliceRequest](reconciler),
			RateLimiter: retries[sliceRequest](shared.options)})
		if err != nil {
			return fmt.Errorf("setting up the controller of node slices: %w", err)
		}
		sources := []source.TypedSource[sliceRequest]{
			source.TypedKind(mgr.GetCache(), &corev1.Node{}, sliceNodeEvents()),
			source.TypedFunc[sliceRequest](func(_ context.Context, queue sliceQueue) error {
				reconciler.queue.Store(&queue)
				queue.Add(sliceRequest{})
				return nil
			}),
		}
		for _, s := range sources {
			if err := c.Watch(s); err != nil {
				return fmt.Errorf("setting up the watches of node slices: %w", err)
			}
		}
		slices.Subscribe(reconciler.poolChanged)
	}
	return nil
}

// sliceNodeEvents: only Nodes that come and go move slices.
func sliceNodeEvents() handler.TypedFuncs[*corev1.Node, sliceRequest] {
	return handler.TypedFuncs[*corev1.Node, sliceRequest]{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[*corev1.Node], q sliceQueue) {
			q.AddAfter(sliceRequest{}, slicesSettle)
		},
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[*corev1.Node], q sliceQueue) {
			q.AddAfter(sliceRequest{}, slicesSettle)
		},
	}
}

// poolChanged is called for each change of any pool.
func (r *SliceReconciler) poolChanged(ipam.Event) {
	if queue := r.queue.Load(); queue != nil && r.waiting.Load() {
		(*queue).AddAfter(sliceRequest{}, slicesPoolChange)
	}
}
