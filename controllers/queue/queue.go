// SPDX-License-Identifier: Apache-2.0

// Package queue sets controllers up, and is what their queues need: watches, work from outside of them, and log lines that name it.
package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Feed adds work to the queue of a controller. Until that runs (another replica leads) it drops what it is given.
type Feed[request comparable] struct {
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[request]]
}

// Source is what the controller watches: once it runs, the feed has its queue, and running is called.
func (f *Feed[request]) Source(running func(context.Context)) source.TypedSource[request] {
	return source.TypedFunc[request](func(ctx context.Context, q workqueue.TypedRateLimitingInterface[request]) error {
		f.queue.Store(&q)
		running(ctx)
		return nil
	})
}

// Add has the controller look at something now.
func (f *Feed[request]) Add(about ...request) { f.AddAfter(0, about...) }

// AddAfter has the controller look at something in a while.
func (f *Feed[request]) AddAfter(wait time.Duration, about ...request) {
	if q := f.queue.Load(); q != nil {
		for _, one := range about {
			(*q).AddAfter(one, wait) // now, if it is not to wait
		}
	}
}

// AddLast has the controller look at something after all else: a part of the replay of a start.
func (f *Feed[request]) AddLast(about ...request) {
	if q := f.queue.Load(); q != nil {
		add(*q, handler.LowPriority, about)
	}
}

// AddFirst adds what comes before the replay of a start. Every object is in that, with a low priority, and most of them wait for something.
func AddFirst[request comparable](q workqueue.TypedRateLimitingInterface[request], about ...request) {
	add(q, 0, about)
}

func add[request comparable](q workqueue.TypedRateLimitingInterface[request], priority int, about []request) {
	if prioritized, ok := q.(priorityqueue.PriorityQueue[request]); ok {
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, about...)
		return
	}
	for _, one := range about {
		q.Add(one)
	}
}

// LogOf is the logger of a controller with requests that are no namespaced names: each line has the request.
func LogOf[request comparable](mgr manager.Manager, controller, key string) func(*request) logr.Logger {
	base := mgr.GetLogger().WithValues("controller", controller)
	return func(about *request) logr.Logger {
		if about == nil {
			return base
		}
		return base.WithValues(key, *about)
	}
}

// Control registers a controller with the manager, and what it watches.
func Control[request comparable](mgr manager.Manager, name string, o controller.TypedOptions[request], sources ...source.TypedSource[request]) error {
	c, err := controller.NewTyped(name, mgr, o)
	for i := 0; err == nil && i < len(sources); i++ {
		err = c.Watch(sources[i])
	}
	if err != nil {
		return fmt.Errorf("setting up the controller %s: %w", name, err)
	}
	return nil
}

// Changes calls look for each event, with the object before and after it: before is nil for a new object, after for a deleted one.
func Changes[object any, request comparable](look func(ctx context.Context, before, after *object, q workqueue.TypedRateLimitingInterface[request])) handler.TypedFuncs[*object, request] {
	return handler.TypedFuncs[*object, request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*object], q workqueue.TypedRateLimitingInterface[request]) {
			look(ctx, nil, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*object], q workqueue.TypedRateLimitingInterface[request]) {
			look(ctx, e.ObjectOld, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*object], q workqueue.TypedRateLimitingInterface[request]) {
			look(ctx, e.Object, nil, q)
		},
	}
}
