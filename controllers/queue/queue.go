// SPDX-License-Identifier: Apache-2.0

// Package queue is what the queues of controllers need beside their watches: work from outside of them, and log lines that name it.
package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
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
