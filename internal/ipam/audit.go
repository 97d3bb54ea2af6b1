// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reservation is an object beside the pools that keeps an address from being handed out by overlapping ranges.
type Reservation struct {
	// Name is "namespace/name".
	Name string
	// PodRef and Interface are as recorded.
	PodRef, Interface string
	// UID and ResourceVersion are those of the object as it was read.
	UID             types.UID
	ResourceVersion string
}

// Auditable is a backend whose records can be compared with each other.
type Auditable interface {
	Backend
	// Reservations reads all reservations past every cache. An error means unknown.
	Reservations(ctx context.Context) ([]Reservation, error)
	// ReservationNames are the names that the reservation of an entry may have: first that of a network without a name. None
	// says that they are unknown.
	ReservationNames(entry *Entry) []string
	// ReservationName is the name ("namespace/name") under which the IPAM reserves the address of an attachment; empty where its
	// network makes no reservations. An error means that the name is uncertain.
	ReservationName(at Attachment) (string, error)
	// ReservationReference names a reservation as the object of an event.
	ReservationReference(name string) *corev1.ObjectReference
	// Reserves reports whether a network of this configuration makes a reservation of each address.
	Reserves(config string) bool
	// Ranges are the ranges that a network of this configuration gives addresses of, each one to an attachment; none where that
	// is unknown.
	Ranges(config string) []netip.Prefix
	// Covers reports whether an address lies in the range of a cached pool.
	Covers(ip netip.Addr) bool
	// SlicePool is the name of the object that divides the range of a network of this configuration among nodes; empty where
	// none does, or where that is unknown.
	SlicePool(config, definition string) string
	// SlicePools reads, live, how ranges are divided among nodes. An error means unknown.
	SlicePools(ctx context.Context) ([]*SlicePool, error)
	// NodeOf is the node for which a pool ("namespace/name") of a slice was made, by its name; known: whether a node has
	// a name. Empty where the pool is not one of the slice.
	NodeOf(pool string, divided *SlicePool, slice Slice, known func(node string) bool) string
}
