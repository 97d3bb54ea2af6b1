// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	kjson "sigs.k8s.io/json"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// AdmittedPool is an IPPool as an admission request carries it.
type AdmittedPool struct {
	// Name is the pool as "namespace/name".
	Name string
	// Entries are the pool's entries by offset, as recorded.
	Entries map[string]AdmittedEntry

	network  netip.Prefix
	rangeErr error
}

// AdmittedEntry is one entry of an AdmittedPool, as recorded.
type AdmittedEntry struct {
	SandboxID, PodRef, Interface string
}

// DecodePool reads the raw IPPool of an admission request as the API server does, to which case matters. An unreadable range is no error: the pool still has entries.
func DecodePool(raw []byte) (*AdmittedPool, error) {
	object := &wb.IPPool{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
		return nil, fmt.Errorf("reading an IPPool: %w", err)
	}
	pool := &AdmittedPool{
		Name:    poolName(object.Namespace, object.Name),
		Entries: make(map[string]AdmittedEntry, len(object.Spec.Allocations)),
	}
	pool.network, pool.rangeErr = parseRange(object.Spec.Range)
	for offset, entry := range object.Spec.Allocations {
		pool.Entries[offset] = AdmittedEntry{SandboxID: entry.ContainerID, PodRef: entry.PodRef, Interface: entry.IfName}
	}
	return pool, nil
}

// Range is the pool's range; an error where it cannot be read, and with it no address of the pool.
func (p *AdmittedPool) Range() (netip.Prefix, error) { return p.network, p.rangeErr }

// Address is the address of an offset. False says that the offset stands for none, which whereabouts then does not read
// back either: its next write of the pool, an ADD of another pod's for one, loses the entry. Ask only where Range is fine.
func (p *AdmittedPool) Address(offset string) (netip.Addr, bool) {
	address, err := decodeAddress(p.network, p.rangeErr, offset)
	return address, err == nil
}

// ParsePodRef reads a recorded reference: a pod, or the record that a tombstone names. An error says that it is neither.
func ParsePodRef(ref string) (pod *ipam.PodRef, record string, err error) { return parsePodRef(ref) }

// Reservation is an OverlappingRangeIPReservation as an admission request carries it.
type Reservation struct {
	Namespace, Name, PodRef, Interface string
}

// DecodeReservation reads the raw OverlappingRangeIPReservation of an admission request.
func DecodeReservation(raw []byte) (Reservation, error) {
	object := &wb.OverlappingRangeIPReservation{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
		return Reservation{}, fmt.Errorf("reading an OverlappingRangeIPReservation: %w", err)
	}
	return Reservation{
		Namespace: object.Namespace, Name: object.Name, PodRef: object.Spec.PodRef, Interface: object.Spec.IfName,
	}, nil
}

// ReservationHolders reads, past every cache, the entries for which a reservation stands: same address, podref and
// interface, in a network that can be the reservation's. An error means unknown.
func (b *Backend) ReservationHolders(ctx context.Context, r Reservation) ([]ipam.Key, error) {
	snapshot, err := b.live(ctx, query{podRef: r.PodRef})
	if err != nil {
		return nil, err
	}
	if _, _, malformed := parsePodRef(r.PodRef); malformed == nil && len(snapshot.Problems) > 0 {
		return nil, fmt.Errorf("pool %s: %s", snapshot.Problems[0].Pool, snapshot.Problems[0].Message)
	}
	subject := reservation{name: r.Name, podRef: r.PodRef, iface: r.Interface}
	var holders []ipam.Key
	for _, entry := range snapshot.Entries {
		namespace, name, _ := strings.Cut(entry.Pool, "/")
		if namespace == r.Namespace && b.namingOf(namespace, name).owns(subject, entry.Key, false) {
			holders = append(holders, entry.Key)
		}
	}
	return holders, nil
}

// namingOf is how a pool names its reservations. A pool that the cache has not seen counts as made by hand: then any
// network will do, so that nothing is overlooked.
func (b *Backend) namingOf(namespace, name string) naming {
	text, known := b.index.rangeOf(poolName(namespace, name))
	if !known {
		return naming{}
	}
	return newNaming(name, text)
}
