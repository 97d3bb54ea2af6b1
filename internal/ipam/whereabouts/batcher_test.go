// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// gatheringTimeout bounds what a busy machine needs to run a few goroutines.
const gatheringTimeout = time.Minute

func itemFor(last byte) *item {
	return &item{Request: ipam.Request{Key: ipam.Key{IP: netip.AddrFrom4([4]byte{10, 0, 0, last})}}}
}

// gate is a pool's writer that stops in each write until it is let on.
type gate struct {
	entered chan []*item
	letOn   chan func()
}

func newGate() *gate { return &gate{entered: make(chan []*item), letOn: make(chan func())} }

func (g *gate) write(items []*item) {
	g.entered <- items
	(<-g.letOn)()
	for _, i := range items {
		i.state = gone
	}
}

func (b *batcher) waitingFor(pool string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.queues[pool]; l != nil {
		return len(l.waiting)
	}
	return 0
}

func awaitWaiting(t *testing.T, c *batcher, want int) {
	t.Helper()
	for end := time.Now().Add(gatheringTimeout); c.waitingFor("pool") != want; {
		if time.Now().After(end) {
			t.Fatalf("%d wait, want %d", c.waitingFor("pool"), want)
		}
	}
}

func lasts(items []*item) []byte {
	var all []byte
	for _, i := range items {
		all = append(all, i.IP.As4()[3])
	}
	slices.Sort(all)
	return all
}

func TestABatchGathersTheReleasesThatComeWhileAPoolIsWritten(t *testing.T) {
	var c batcher
	g := newGate()
	var callers sync.WaitGroup
	call := func(lasts ...byte) []*item {
		var items []*item
		for _, last := range lasts {
			items = append(items, itemFor(last))
		}
		callers.Go(func() { c.run(t.Context(), "pool", items, g.write) })
		return items
	}
	all := [][]*item{call(1)}
	if got := lasts(<-g.entered); !slices.Equal(got, []byte{1}) {
		t.Fatalf("the first write has %v, want the first caller's alone, without waiting for company", got)
	}
	for n, addresses := range [][]byte{{2, 3}, {4}, {4, 5}, {6}} {
		all = append(all, call(addresses...))
		awaitWaiting(t, &c, n+1)
	}
	g.letOn <- func() {}
	if got := lasts(<-g.entered); !slices.Equal(got, []byte{2, 3, 4, 6}) {
		t.Errorf("the second write has %v, want all who waited but the second request for one address", got)
	}
	g.letOn <- func() {}
	if got := lasts(<-g.entered); !slices.Equal(got, []byte{4, 5}) {
		t.Errorf("the third write has %v, want what was left", got)
	}
	g.letOn <- func() {}
	callers.Wait()
	for _, items := range all {
		for _, i := range items {
			if i.state != gone || i.err != nil {
				t.Errorf("%s came back as %v, %v", i.IP, i.state, i.err)
			}
		}
	}
	if len(c.queues) != 0 {
		t.Errorf("%d queues are left of pools without writes", len(c.queues))
	}
}

func TestPoolsDoNotWaitForEachOther(t *testing.T) {
	var c batcher
	g := newGate()
	var callers sync.WaitGroup
	for _, pool := range []string{"one", "two"} {
		callers.Go(func() { c.run(t.Context(), pool, []*item{itemFor(1)}, g.write) })
		<-g.entered
	}
	g.letOn <- func() {}
	g.letOn <- func() {}
	callers.Wait()
}

func TestACallerWhoGivesUpLeavesTheQueueWithAnError(t *testing.T) {
	var c batcher
	g := newGate()
	var callers sync.WaitGroup
	callers.Go(func() { c.run(t.Context(), "pool", []*item{itemFor(1)}, g.write) })
	<-g.entered
	ctx, cancel := context.WithCancel(t.Context())
	impatient := itemFor(2)
	left := make(chan struct{})
	go func() { c.run(ctx, "pool", []*item{impatient}, g.write); close(left) }()
	awaitWaiting(t, &c, 1)
	cancel()
	<-left
	if !errors.Is(impatient.err, context.Canceled) || impatient.state != held {
		t.Errorf("it left as %v with %v, want held and the reason of its context", impatient.state, impatient.err)
	}
	g.letOn <- func() {}
	callers.Wait()
}

func TestABrokenWriteFailsItsWholeBatchAndBlocksNoOther(t *testing.T) {
	var c batcher
	g := newGate()
	var callers sync.WaitGroup
	callers.Go(func() { c.run(t.Context(), "pool", []*item{itemFor(1)}, g.write) })
	<-g.entered
	panicked := make(chan any, 2)
	batched := []*item{itemFor(2), itemFor(3)}
	for n, i := range batched {
		callers.Go(func() {
			defer func() { panicked <- recover() }()
			c.run(t.Context(), "pool", []*item{i}, g.write)
		})
		awaitWaiting(t, &c, n+1)
	}
	g.letOn <- func() {}
	<-g.entered
	g.letOn <- func() { panic("a mistake") }
	callers.Wait()
	if first, second := <-panicked, <-panicked; (first == nil) == (second == nil) {
		t.Errorf("panics: %v, %v; want one, of the caller who wrote", first, second)
	}
	if !errors.Is(batched[0].err, errBatchLost) && !errors.Is(batched[1].err, errBatchLost) {
		t.Errorf("the error of a release in the batch is %v or %v, want %v: an item without an error counts as released", batched[0].err, batched[1].err, errBatchLost)
	}
	callers.Go(func() { c.run(t.Context(), "pool", []*item{itemFor(4)}, g.write) })
	<-g.entered
	g.letOn <- func() {}
	callers.Wait()
}
