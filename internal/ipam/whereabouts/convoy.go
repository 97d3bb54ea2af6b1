// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
)

// convoys make one write of what concurrent releases have for one pool. While a pool is being written, those who come
// later wait and then go together; nobody waits for company. An API server needs 60 ms for any patch of a pool with a
// thousand entries, and 320 ms with four thousand, however little the patch changes.
type convoys struct {
	mu    sync.Mutex
	lanes map[string]*lane // by pool; only while it is being written
}

// lane is those who wait for a pool; the first of them is the next to write.
type lane struct{ waiting []*party }

// party is one caller with its items.
type party struct {
	items []*item
	// turn is closed when the party is to write for itself and for all who wait, done when another one has.
	turn, done chan struct{}
}

var errConvoyLost = errors.New("the release that it went with was broken off; observe it again")

// run has the items written by this call or by another one's. Every item has its outcome when it returns.
func (c *convoys) run(ctx context.Context, pool string, items []*item, write func([]*item)) {
	p := &party{items: items, turn: make(chan struct{}), done: make(chan struct{})}
	c.join(pool, p)
	select {
	case <-p.turn:
		c.lead(pool, p, write)
	case <-p.done:
	case <-ctx.Done():
		c.leave(ctx, pool, p, write)
	}
}

func (c *convoys) join(pool string, p *party) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lanes == nil {
		c.lanes = map[string]*lane{}
	}
	l, busy := c.lanes[pool]
	if !busy {
		l = &lane{}
		c.lanes[pool] = l
		close(p.turn)
	}
	l.waiting = append(l.waiting, p)
}

// leave gives up a place in the queue. Who has been taken along, or is to lead, cannot leave any more.
func (c *convoys) leave(ctx context.Context, pool string, p *party, write func([]*item)) {
	c.mu.Lock()
	l := c.lanes[pool]
	select {
	case <-p.turn:
		c.mu.Unlock()
		c.lead(pool, p, write)
		return
	default:
	}
	if l != nil {
		if at := slices.Index(l.waiting, p); at >= 0 {
			l.waiting = slices.Delete(l.waiting, at, at+1)
			c.mu.Unlock()
			fail(p.items, ctx.Err())
			return
		}
	}
	c.mu.Unlock()
	<-p.done
}

// lead writes once, for the party and for those who can go with it, and then gives the turn away.
func (c *convoys) lead(pool string, p *party, write func([]*item)) {
	others, items := c.gather(pool, p)
	written := false
	defer func() {
		for _, other := range others {
			if !written {
				fail(other.items, errConvoyLost)
			}
			close(other.done)
		}
		c.pass(pool)
	}()
	write(items)
	written = true
}

// gather takes the party and all who can go along out of the queue. Two requests for one address never go together: one
// would make the other's test fail.
func (c *convoys) gather(pool string, p *party) (others []*party, items []*item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[pool]
	taken := map[netip.Addr]bool{}
	var left []*party
	for _, next := range append([]*party{p}, l.waiting...) {
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

func (c *convoys) pass(pool string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lanes[pool]; len(l.waiting) > 0 {
		close(l.waiting[0].turn)
	} else {
		delete(c.lanes, pool)
	}
}
