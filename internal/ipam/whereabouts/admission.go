// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"bytes"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/apijson"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

var _ ipam.Reviewable = (*Backend)(nil)

// rawPool is what admission needs of an IPPool, with entries that are not decoded yet.
type rawPool struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Range       string          `json:"range"`
		Allocations apijson.Members `json:"allocations"`
	} `json:"spec"`
}

// DecodePool reads a raw IPPool as the API server does, to which case matters.
func (b *Backend) DecodePool(raw []byte) (*ipam.AdmittedPool, error) {
	pool, err := readPool(raw)
	if err != nil {
		return nil, err
	}
	return pool.admitted()
}

// DecodePools reads the raw IPPools of an update. Entries that both have, byte for byte, are left out, unless the pool gets another range.
func (b *Backend) DecodePools(before, after []byte) (was, is *ipam.AdmittedPool, err error) {
	oldPool, err := readPool(before)
	if err != nil {
		return nil, nil, err
	}
	newPool, err := readPool(after)
	if err != nil {
		return nil, nil, err
	}
	if oldPool.Spec.Range == newPool.Spec.Range {
		for offset, entry := range oldPool.Spec.Allocations.Values {
			if now, stays := newPool.Spec.Allocations.Values[offset]; stays && bytes.Equal(now, entry) {
				delete(oldPool.Spec.Allocations.Values, offset)
				delete(newPool.Spec.Allocations.Values, offset)
			}
		}
	}
	if was, err = oldPool.admitted(); err == nil {
		is, err = newPool.admitted()
	}
	return was, is, err
}

func readPool(raw []byte) (*rawPool, error) {
	pool := &rawPool{}
	pool.Spec.Allocations.Raw = raw
	if err := apijson.Unmarshal(raw, pool); err != nil {
		return nil, fmt.Errorf("reading an IPPool: %w", err)
	}
	return pool, nil
}

// admitted decodes the entries.
func (p *rawPool) admitted() (*ipam.AdmittedPool, error) {
	pool := &ipam.AdmittedPool{
		Name:    poolName(p.Metadata.Namespace, p.Metadata.Name),
		Entries: make(map[string]ipam.AdmittedEntry, len(p.Spec.Allocations.Values)),
	}
	pool.Range, pool.RangeErr = parseRange(p.Spec.Range)
	for offset, raw := range p.Spec.Allocations.Values {
		var entry wb.IPAllocation
		if err := apijson.Unmarshal(raw, &entry); err != nil {
			return nil, fmt.Errorf("reading entry %q of an IPPool: %w", offset, err)
		}
		address, _ := decodeAddress(pool.Range, pool.RangeErr, offset) // invalid where there is none
		pool.Entries[offset] = ipam.AdmittedEntry{SandboxID: entry.ContainerID, PodRef: entry.PodRef, Interface: entry.IfName, IP: address}
	}
	return pool, nil
}

// DecodeReservation reads a raw OverlappingRangeIPReservation.
func (b *Backend) DecodeReservation(raw []byte) (ipam.Reservation, error) {
	object := &wb.OverlappingRangeIPReservation{}
	if err := apijson.Unmarshal(raw, object); err != nil {
		return ipam.Reservation{}, fmt.Errorf("reading an OverlappingRangeIPReservation: %w", err)
	}
	return reservationOf(object), nil
}

// ReservationHolders reads, past every cache, the entries for which a reservation stands: same address, podref and
// interface, in a network that can be the reservation's. The podref of a tombstone is any pod's. An error means unknown.
func (b *Backend) ReservationHolders(ctx context.Context, r ipam.Reservation, podEnds bool) ([]ipam.Key, error) {
	list := b.listPools // one of its own: a review has less than a second, and would wait for two where it shares
	if podEnds {
		list = func(ctx context.Context) ([]metav1.ObjectMeta, error) { return b.poolsAround(ctx, r) }
	}
	snapshot, err := b.live(ctx, query{podRef: r.PodRef, releasing: b.ReservationAddresses(r.Name)}, list)
	if err != nil {
		return nil, err
	}
	if _, _, malformed := ipam.ParseReference(r.PodRef); malformed == nil && len(snapshot.Problems) > 0 {
		return nil, fmt.Errorf("pool %s: %s", snapshot.Problems[0].Pool, snapshot.Problems[0].Message)
	}
	var holders []ipam.Key
	for _, entry := range snapshot.Entries {
		if keyOf(entry.Pool).Namespace == keyOf(r.Name).Namespace && b.namingOf(entry.Pool).owns(r, entry.Key, entry.Releasing != "") {
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
