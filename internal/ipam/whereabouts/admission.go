// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"

	kjson "sigs.k8s.io/json"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

var _ ipam.Reviewable = (*Backend)(nil)

// DecodePool reads a raw IPPool as the API server does, to which case matters.
func (b *Backend) DecodePool(raw []byte) (*ipam.AdmittedPool, error) {
	object := &wb.IPPool{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
		return nil, fmt.Errorf("reading an IPPool: %w", err)
	}
	pool := &ipam.AdmittedPool{
		Name:    poolName(object.Namespace, object.Name),
		Entries: make(map[string]ipam.AdmittedEntry, len(object.Spec.Allocations)),
	}
	pool.Range, pool.RangeErr = parseRange(object.Spec.Range)
	for offset, entry := range object.Spec.Allocations {
		address, _ := decodeAddress(pool.Range, pool.RangeErr, offset) // invalid where there is none
		pool.Entries[offset] = ipam.AdmittedEntry{SandboxID: entry.ContainerID, PodRef: entry.PodRef, Interface: entry.IfName, IP: address}
	}
	return pool, nil
}

// DecodeReservation reads a raw OverlappingRangeIPReservation.
func (b *Backend) DecodeReservation(raw []byte) (ipam.Reservation, error) {
	object := &wb.OverlappingRangeIPReservation{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
		return ipam.Reservation{}, fmt.Errorf("reading an OverlappingRangeIPReservation: %w", err)
	}
	return reservationOf(object), nil
}

// ReservationHolders reads, past every cache, the entries for which a reservation stands: same address, podref and
// interface, in a network that can be the reservation's. An error means unknown.
func (b *Backend) ReservationHolders(ctx context.Context, r ipam.Reservation) ([]ipam.Key, error) {
	snapshot, err := b.live(ctx, query{podRef: r.PodRef})
	if err != nil {
		return nil, err
	}
	if _, _, malformed := ipam.ParseReference(r.PodRef); malformed == nil && len(snapshot.Problems) > 0 {
		return nil, fmt.Errorf("pool %s: %s", snapshot.Problems[0].Pool, snapshot.Problems[0].Message)
	}
	var holders []ipam.Key
	for _, entry := range snapshot.Entries {
		if keyOf(entry.Pool).Namespace == keyOf(r.Name).Namespace && b.namingOf(entry.Pool).owns(r, entry.Key, false) {
			holders = append(holders, entry.Key)
		}
	}
	return holders, nil
}

// namingOf is how a pool names its reservations. A pool that the cache has not seen counts as made by hand: then any
// network will do, so that nothing is overlooked.
func (b *Backend) namingOf(pool string) naming {
	text, known := b.index.rangeOf(pool)
	if !known {
		return naming{}
	}
	return newNaming(keyOf(pool).Name, text)
}
