// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// Tombstone keeps addresses from other pods while the own pod is deleted and its sandbox may live. It makes the first step of a release, for the
// reservation too, and no other: CNI DEL still finds the entry, by sandbox ID and interface, and the reservation by its name.
func (b *Backend) Tombstone(ctx context.Context, requests []ipam.Request) []ipam.Result {
	return results(requests, inPools(requests, newItem, func(pool string, items []*item) { b.tombstoneIn(ctx, pool, items) }))
}

// tombstoneIn writes one pool, outside of the batches: those make every step of a release.
func (b *Backend) tombstoneIn(ctx context.Context, pool string, items []*item) {
	p, items := b.locate(ctx, pool, items)
	if p == nil {
		return
	}
	if !p.missing {
		b.markReservations(ctx, p, items)
	}
	p.perform(ctx, markStep, in(held, items))
	removed := in(gone, items)
	for _, i := range removed {
		if i.Standing {
			i.err = fmt.Errorf("%w: %s in pool %s has no entry any more; observe it again", ipam.ErrChanged, i.IP, i.Pool)
		}
	}
	if !p.missing {
		p.perform(ctx, occupyStep, in(gone, removed))
	}
	for _, i := range in(gone, removed) {
		i.err = fmt.Errorf("%w: IPPool %s is deleted, so there is no place for the tombstone of %s", ipam.ErrChanged, pool, i.IP)
	}
}

// markReservations comes before the entries are marked, because entries that are marked are not tried again. whereabouts gives an address that is
// reserved under a pod's name to the next pod of that name, from any other pool that has the address (docs/decisions/0303).
func (b *Backend) markReservations(ctx context.Context, p *poolWriter, items []*item) {
	p.findReservations(ctx, slices.DeleteFunc(slices.Clone(items), func(i *item) bool { return i.adopted || i.err != nil }))
	for _, i := range items {
		for _, r := range i.reservations {
			if _, isMarked := ipam.ReservationOwner(r.PodRef); isMarked || i.err != nil {
				continue
			}
			if err := b.GiveReservation(ctx, r, ipam.ReservationTombstone(r.PodRef), r.Interface); err != nil {
				// Not ErrChanged: that would say that the entry is another's by now, and end here.
				i.err = fmt.Errorf("keeping reservation %s from the next pod of its name: %s", r.Name, err.Error())
			}
		}
	}
}
