// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"net/netip"
	"strings"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Attachment is one use of a network: what the name of a reservation follows from.
type Attachment struct {
	// Config is the spec.config of the network's definition, and Definition the definition's name.
	Config, Definition string
	// Node is the name of the pod's node.
	Node string
	IP   netip.Addr
	// Pool is the pool with the address's entry ("namespace/name"); empty where there is none.
	Pool string
}

// Repairable is a backend whose reservations can be put right. Each write is conditional: it fails with ErrChanged, and
// changes nothing, where what it found is not what was given to it.
type Repairable interface {
	Auditable
	// WatchReservations keeps every reservation in a cache from now on, and calls a function, without blocking, for each that appeared,
	// changed (with the one before and the one after) or was removed since the first list. Another call follows a failed one only.
	WatchReservations(ctx context.Context, changed func(Reservation)) error
	// ReservationsSynced reports whether the first list of that cache has been seen.
	ReservationsSynced() bool
	// CachedReservations are those of a pod reference or of an address, from that cache, without UID and resourceVersion.
	CachedReservations(podRefs []string, addresses []netip.Addr) []Reservation
	// ReservationAddresses are the addresses that a reservation of this name may stand for; none where its name shows none.
	ReservationAddresses(name string) []netip.Addr
	// SameReservation reports whether two names ("namespace/name") reserve one address of one network, however spelled.
	SameReservation(x, y string) bool

	// CreateReservation makes a reservation as the IPAM itself would.
	CreateReservation(ctx context.Context, r Reservation) error
	// GiveReservation makes a reservation that of another pod reference and interface, in one write.
	GiveReservation(ctx context.Context, r Reservation, podRef, iface string) error
	// DeleteReservation removes the very reservation that was read.
	DeleteReservation(ctx context.Context, r Reservation) error
}

// ReservationTombstone is the reference in a reservation that is about to be removed: "holdfast-releasing/<namespace>.<name>".
// No pod can have it, so an ADD that finds the reservation takes another address, also that of a pod of the same name. A
// reference that is none stays as it is, and so does a mark: a mark of a mark would hide the pod.
func ReservationTombstone(podRef string) string {
	namespace, name, ok := strings.Cut(podRef, "/")
	if _, isMarked := ReservationOwner(podRef); !ok || isMarked {
		return podRef
	}
	return v1alpha1.TombstonePrefix + "/" + namespace + "." + name
}

// ReservationOwner is the reference of the pod that a reservation is, or was, for; marked: its removal has begun.
// A namespace has no dot in its name, so that the first one ends it.
func ReservationOwner(podRef string) (owner string, marked bool) {
	text, isTombstone := strings.CutPrefix(podRef, v1alpha1.TombstonePrefix+"/")
	namespace, name, ok := strings.Cut(text, ".")
	if !isTombstone || !ok || namespace == "" || name == "" {
		return podRef, false
	}
	return namespace + "/" + name, true
}
