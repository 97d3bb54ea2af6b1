// SPDX-License-Identifier: Apache-2.0

package backoff

import (
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// NewQueue makes the queue of a controller, as controller.TypedOptions has it; nil is controller-runtime's own choice. For a simulation it is the same
// queue without metrics, behind a gathered one: what counts the unfinished work twice a second is most of what wakes up in virtual time.
func NewQueue[T comparable](simulated bool) func(string, workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
	if !simulated {
		return nil
	}
	return func(controller string, limiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
		return &gathered[T]{late: lateness(controller), PriorityQueue: priorityqueue.New("", func(o *priorityqueue.Opts[T]) { o.RateLimiter = limiter })}
	}
}

// lateness is a controller's own number of nanoseconds: timers of one instant fire in random order, and two controllers often wait for the same delay.
func lateness(controller string) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(controller))
	return time.Nanosecond + time.Duration(hash.Sum32()%1000)
}

// gathered is a queue that takes in what is added at one instant a little later. Without it an item that is added twice at one instant is reconciled
// once or twice, depending on when the runtime has the worker run.
type gathered[T comparable] struct {
	priorityqueue.PriorityQueue[T]

	late time.Duration

	mu    sync.Mutex
	added []func()
}

// AddWithOpts adds items.
func (q *gathered[T]) AddWithOpts(o priorityqueue.AddOpts, items ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.added = append(q.added, func() { q.PriorityQueue.AddWithOpts(o, items...) }); len(q.added) == 1 {
		time.AfterFunc(q.late, q.take)
	}
}

func (q *gathered[T]) take() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, add := range q.added {
		add()
	}
	q.added = nil
}

// Add adds an item.
func (q *gathered[T]) Add(item T) { q.AddWithOpts(priorityqueue.AddOpts{}, item) }

// AddAfter adds it later.
func (q *gathered[T]) AddAfter(item T, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, item)
}

// AddRateLimited adds it behind its back-off.
func (q *gathered[T]) AddRateLimited(item T) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, item)
}
