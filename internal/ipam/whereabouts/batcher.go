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
	queues map[string]*queue // by pool; only while it is being written
}

// queue are the callers that wait for a pool; the first of them writes next.
type queue struct{ waiting []*caller }

// caller is one release with its items.
type caller struct {
	items []*item
	// turn is closed when the caller is to write for itself and for all that wait, done when another one has.
	turn, done chan struct{}
}

var errBatchLost = errors.New("the write that had this release in its batch was broken off; observe it again")

// run has the items written by this call or by another one's. Every item has its outcome when it returns.
func (b *batcher) run(ctx context.Context, pool string, items []*item, write func([]*item)) {
	p := &caller{items: items, turn: make(chan struct{}), done: make(chan struct{})}
	b.join(pool, p)
	select {
	case <-p.turn:
		b.lead(pool, p, write)
	case <-p.done:
	case <-ctx.Done():
		b.leave(ctx, pool, p, write)
	}
}

func (b *batcher) join(pool string, p *caller) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues == nil {
		b.queues = map[string]*queue{}
	}
	l, busy := b.queues[pool]
	if !busy {
		l = &queue{}
		b.queues[pool] = l
		close(p.turn)
	}
	l.waiting = append(l.waiting, p)
}

// leave gives up a place in the queue. A caller that is in a batch, or is to lead one, cannot leave any more.
func (b *batcher) leave(ctx context.Context, pool string, p *caller, write func([]*item)) {
	b.mu.Lock()
	l := b.queues[pool]
	select {
	case <-p.turn:
		b.mu.Unlock()
		b.lead(pool, p, write)
		return
	default:
	}
	if l != nil {
		if at := slices.Index(l.waiting, p); at >= 0 {
			l.waiting = slices.Delete(l.waiting, at, at+1)
			b.mu.Unlock()
			fail(p.items, ctx.Err())
			return
		}
	}
	b.mu.Unlock()
	<-p.done
}

// lead writes once, for the caller and for those that fit in its batch, and then gives the turn away.
func (b *batcher) lead(pool string, p *caller, write func([]*item)) {
	others, items := b.gather(pool, p)
	written := false
	defer func() {
		for _, other := range others {
			if !written {
				fail(other.items, errBatchLost)
			}
			close(other.done)
		}
		b.pass(pool)
	}()
	write(items)
	written = true
}

// gather takes the caller and all that fit in its batch out of the queue. Two requests for one address are never in one batch: one
// would make the other's test fail.
func (b *batcher) gather(pool string, p *caller) (others []*caller, items []*item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.queues[pool]
	taken := map[netip.Addr]bool{}
	var left []*caller
	for _, next := range append([]*caller{p}, l.waiting...) {
		switch {
		case next == p && len(items) > 0: // its own place in the queue
		case next != p && (len(items)+len(next.items) > maxPerPatch || slices.ContainsFunc(next.items, func(i *item) bool { return taken[i.IP] })):
			left = append(left, next)
		default:
			items = append(items, next.items...)
			for _, i := range next.items {
				taken[i.IP] = true
			}
			if next != p {
				others = append(others, next)
			}
		}
	}
	l.waiting = left
	return others, items
}

func (b *batcher) pass(pool string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.queues[pool]; len(l.waiting) > 0 {
		close(l.waiting[0].turn)
	} else {
		delete(b.queues, pool)
	}
}
