// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// Tombstone keeps addresses from other pods while the own pod is deleted and its sandbox may live. It makes the first step of a release and no
// other: CNI DEL still finds the entry, by sandbox ID and interface.
func (b *Backend) Tombstone(ctx context.Context, requests []ipam.Request) []ipam.Result {
	return results(requests, inPools(requests, newItem, func(pool string, items []*item) { b.tombstoneIn(ctx, pool, items) }))
}

// tombstoneIn writes one pool, outside of the batches: those make every step of a release.
func (b *Backend) tombstoneIn(ctx context.Context, pool string, items []*item) {
	p, items := b.locate(ctx, pool, items)
	if p == nil {
		return
	}
	p.perform(ctx, markStep, in(held, items))
	removed := in(gone, items)
	if !p.missing {
		p.perform(ctx, occupyStep, removed)
	}
	for _, i := range in(gone, removed) {
		i.err = fmt.Errorf("%w: IPPool %s is deleted, so there is no place for the tombstone of %s", ipam.ErrChanged, pool, i.IP)
	}
}
