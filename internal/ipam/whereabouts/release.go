// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// state is the progress of the release of one entry. Only a write or a live read advances it.
type state int

const (
	// held: the entry stands as it was recorded, as far as is known.
	held state = iota
	// marked: the entry carries the tombstone of the record.
	marked
	// cleared: marked, and no reservation is left.
	cleared
	// gone: the pool has no such entry.
	gone
	// rewritten: the entry names the successor of its sandbox. No release leads here.
	rewritten
)

// item is one request in progress. An item with an error is not processed further.
type item struct {
	ipam.Request
	offset string
	state  state
	err    error
	// adopted: the request names the tombstone itself, so the podref from before is not known.
	adopted bool
	// successor is the sandbox that the entry is to be given to; only of a rewriting.
	successor    string
	reservations []ipam.Reservation
}

func (i *item) path() string { return "/spec/allocations/" + i.offset }

// is reports whether an entry is the item's, under this podref.
func (i *item) is(found *wb.IPAllocation, podRef string) bool {
	return *found == wb.IPAllocation{ContainerID: i.SandboxID, PodRef: podRef, IfName: i.Interface}
}

func (i *item) changed(found *wb.IPAllocation, expected string) error {
	return fmt.Errorf("%w: %s in pool %s has sandbox %q, podref %q, interface %q; expected sandbox %q, podref %q, interface %q; observe it again",
		ipam.ErrChanged, i.IP, i.Pool, found.ContainerID, found.PodRef, found.IfName, i.SandboxID, expected, i.Interface)
}

// Release gives entries back: tombstone, reservation, removal. A pool is written with one patch for each step, however many
// entries are removed, also those of concurrent calls; equal requests are one.
func (b *Backend) Release(ctx context.Context, requests []ipam.Request) []ipam.Result {
	return results(requests, inPools(requests, newRelease, func(pool string, items []*item) {
		b.batcher.run(ctx, pool, items, func(all []*item) { b.releaseFrom(ctx, pool, all) })
	}))
}

func results(requests []ipam.Request, items []*item) []ipam.Result {
	results := make([]ipam.Result, len(requests))
	for n, request := range requests {
		results[n] = ipam.Result{Request: request, Err: items[n].err}
	}
	return results
}

// inPools writes one pool after the other, and gives the item of each request; equal requests are one.
func inPools[R comparable](requests []R, newItem func(R) *item, write func(pool string, items []*item)) []*item {
	items := make([]*item, len(requests))
	known := make(map[R]*item, len(requests))
	byPool := map[string][]*item{}
	var order []string
	for n, request := range requests {
		if items[n] = known[request]; items[n] != nil {
			continue
		}
		i := newItem(request)
		items[n], known[request] = i, i
		if i.err != nil {
			continue
		}
		if byPool[i.Pool] == nil {
			order = append(order, i.Pool)
		}
		byPool[i.Pool] = append(byPool[i.Pool], i)
	}
	for _, pool := range order {
		write(pool, byPool[pool])
	}
	return items
}

// newItem refuses requests that could not be compared with what is in a pool.
func newItem(request ipam.Request) *item {
	i := &item{Request: request}
	_, record, _ := ipam.ParseReference(request.PodRef)
	switch {
	case request.Backend != Name:
		i.err = fmt.Errorf("releasing %s: it belongs to the backend %q, not to %q", request.Key, request.Backend, Name)
	case request.Record == "" || strings.Contains(request.Record, "/"):
		i.err = fmt.Errorf("releasing %s: the name of its record is %q, expected that of an IPAllocation", request.Key, request.Record)
	case !request.IP.IsValid():
		i.err = fmt.Errorf("releasing %s: it names no address", request.Key)
	case record == request.Record:
		i.state, i.adopted = marked, true
	}
	return i
}

// newRelease refuses what another record releases, too. A tombstone of another record can only be replaced.
func newRelease(request ipam.Request) *item {
	i := newItem(request)
	if _, record, _ := ipam.ParseReference(request.PodRef); i.err == nil && record != "" && record != request.Record {
		i.err = fmt.Errorf("releasing %s for record %s: it is being released for record %s", request.Key, request.Record, record)
	}
	return i
}

// releaseFrom takes the items of one pool through the steps.
func (b *Backend) releaseFrom(ctx context.Context, pool string, items []*item) {
	p, items := b.locate(ctx, pool, items)
	if p == nil {
		return
	}
	p.perform(ctx, markStep, in(held, items))
	p.takeBackLeftovers(ctx, in(gone, items))
	p.clearReservations(ctx, in(marked, items), cleared)
	p.perform(ctx, removeStep, in(cleared, items))
}

// locate opens a pool and finds the places of the items. Where it cannot be written there is none, and each item has the error.
func (b *Backend) locate(ctx context.Context, pool string, items []*item) (*poolWriter, []*item) {
	p, err := b.openPool(ctx, pool)
	if err != nil {
		fail(items, err)
		return nil, nil
	}
	return p, p.locate(items)
}

// openPool learns the range of a pool, from the cache if it has one: every patch tests it.
func (b *Backend) openPool(ctx context.Context, pool string) (*poolWriter, error) {
	namespace, name, found := strings.Cut(pool, "/")
	if !found || !slices.Contains(b.options.Namespaces, namespace) {
		return nil, fmt.Errorf("releasing from pool %q: expected \"namespace/name\" in one of the namespaces %q", pool, b.options.Namespaces)
	}
	p := &poolWriter{reader: b.reader, writer: b.writer, key: client.ObjectKey{Namespace: namespace, Name: name}}
	if p.rangeText, found = b.index.rangeOf(pool); found {
		return p, nil
	}
	live, err := b.livePool(ctx, p.key)
	if err != nil {
		return nil, err
	}
	if p.missing = live == nil; !p.missing {
		p.rangeText = live.Spec.Range
	}
	return p, nil
}

// in gives the items that are in a state and have no error.
func in(s state, items []*item) []*item {
	var chosen []*item
	for _, i := range items {
		if i.err == nil && i.state == s {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

func fail(items []*item, err error) {
	for _, i := range items {
		i.err = err
	}
}
