// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Reservation is an object beside the pools that keeps an address from being handed out by overlapping ranges.
type Reservation struct {
	// Name is "namespace/name".
	Name string
	// PodRef and Interface are as recorded.
	PodRef, Interface string
}

// Auditable is a backend whose records can be compared with each other.
type Auditable interface {
	Backend
	// Reservations reads all reservations past every cache. An error means unknown.
	Reservations(ctx context.Context) ([]Reservation, error)
	// ReservationNames are the names that the reservation of an entry may have: first that of a network without a name. None
	// says that they cannot be told.
	ReservationNames(entry *Entry) []string
	// ReservationReference names a reservation as the object of an event.
	ReservationReference(name string) *corev1.ObjectReference
	// Reserves says whether a network of this configuration makes a reservation of each address.
	Reserves(config string) bool
	// Covers says whether an address lies in the range of a cached pool.
	Covers(ip netip.Addr) bool
}
