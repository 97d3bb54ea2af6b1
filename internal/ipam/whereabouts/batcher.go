// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
)

// batcher makes one write of what concurrent releases have for one pool. While a pool is being written, later callers
// wait and are then written together; no caller waits for others to come. An API server needs 60 ms for any patch of a pool with a
// thousand entries, and 320 ms with four thousand, however little the patch changes.
type batcher struct {
	mu     sync.Mutex
	queues map[string]*queue // by pool; only while it has callers
}

// queue is a pool with its callers.
type queue struct {
	// turn is full while one of the callers writes, for itself and for all that wait.
	turn    chan struct{}
	callers int
	waiting []*caller
}

// caller is one release with its items.
type caller struct {
	items []*item
	// done is closed once they were written.
	done chan struct{}
}

var errBatchLost = errors.New("the write that had this release in its batch was broken off; observe it again")

// run has the items written by this call or by another one's. Every item has its outcome when it returns.
func (b *batcher) run(ctx context.Context, pool string, items []*item, write func([]*item)) {
	p := &caller{items: items, done: make(chan struct{})}
	q := b.join(pool, p)
	defer b.leave(pool, q)
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
		b.lead(q, p, write)
	case <-p.done:
	case <-ctx.Done():
		if b.withdraw(q, p) {
			fail(items, ctx.Err())
			return
		}
		<-p.done // it is in a batch that is being written
	}
}

func (b *batcher) join(pool string, p *caller) *queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues == nil {
		b.queues = map[string]*queue{}
	}
	q := b.queues[pool]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		b.queues[pool] = q
	}
	q.callers++
	q.waiting = append(q.waiting, p)
	return q
}

func (b *batcher) leave(pool string, q *queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.callers--; q.callers == 0 {
		delete(b.queues, pool)
	}
}

// withdraw takes a caller out of the queue, unless it is in a batch.
func (b *batcher) withdraw(q *queue, p *caller) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(q.waiting, p)
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	return at >= 0
}

// lead writes once, for the caller and for those that fit in its batch, unless another one has written for it.
func (b *batcher) lead(q *queue, p *caller, write func([]*item)) {
	if !b.withdraw(q, p) {
		return
	}
	others, items := b.gather(q, p)
	written := false
	defer func() {
		for _, other := range others {
			if !written {
				fail(other.items, errBatchLost)
			}
			close(other.done)
		}
	}()
	write(items)
	written = true
}

// gather takes all that fit in the caller's batch out of the queue. Two requests for one address are never in one batch: one
// would make the other's test fail.
func (b *batcher) gather(q *queue, p *caller) (others []*caller, items []*item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := map[netip.Addr]bool{}
	take := func(more []*item) {
		items = append(items, more...)
		for _, i := range more {
			taken[i.IP] = true
		}
	}
	take(p.items)
	var left []*caller
	for _, next := range q.waiting {
		if len(items)+len(next.items) > maxPerPatch || slices.ContainsFunc(next.items, func(i *item) bool { return taken[i.IP] }) {
			left = append(left, next)
			continue
		}
		take(next.items)
		others = append(others, next)
	}
	q.waiting = left
	return others, items
}
