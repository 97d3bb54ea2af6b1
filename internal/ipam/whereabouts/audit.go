// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

var _ ipam.Auditable = (*Backend)(nil)

// Reservations lists all reservations, live.
func (b *Backend) Reservations(ctx context.Context) ([]ipam.Reservation, error) {
	var all []ipam.Reservation
	for _, namespace := range b.options.Namespaces {
		err := eachReservation(ctx, b.reader, namespace, func(object *wb.OverlappingRangeIPReservation) {
			all = append(all, reservationOf(object))
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func reservationOf(object *wb.OverlappingRangeIPReservation) ipam.Reservation {
	return ipam.Reservation{
		Name: poolName(object.Namespace, object.Name), PodRef: object.Spec.PodRef, Interface: object.Spec.IfName,
		UID: object.UID, ResourceVersion: object.ResourceVersion,
	}
}

// ReservationNames are the names that the reservation of an entry may have.
func (b *Backend) ReservationNames(entry *ipam.Entry) []string {
	n := b.namingOf(entry.Pool)
	if !n.known {
		return nil
	}
	names := n.candidates(entry.IP)
	for i := range names {
		names[i] = poolName(keyOf(entry.Pool).Namespace, names[i])
	}
	return names
}

// ReservationReference names an OverlappingRangeIPReservation as the object of an event.
func (b *Backend) ReservationReference(name string) *corev1.ObjectReference {
	return referenceTo("OverlappingRangeIPReservation", keyOf(name))
}

// Covers reports whether an address lies in the range of a cached pool.
func (b *Backend) Covers(ip netip.Addr) bool { return b.index.covers(ip) }

func (x *index) covers(ip netip.Addr) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, pool := range x.pools {
		if pool.rangeErr == nil && pool.network.Contains(ip) {
			return true
		}
	}
	return false
}
