// SPDX-License-Identifier: Apache-2.0

package ipamaudit

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Facts are what was read. Pod references have the form "namespace/name".
type Facts struct {
	// Pods are the live ones: guarded, on a node, and neither terminal nor being deleted.
	Pods []Pod
	// Entries are those of all pools.
	Entries []Entry
	// Reservations are all that there are.
	Reservations []Reservation
	// Unreadable says that a whole pool could not be read, so that nobody can say of any address that no pool has it.
	Unreadable bool
	// Doubtful are the pods with an entry that could not be read, or whose reservation has a name that cannot be told.
	Doubtful sets.Set[string]
}

// Pod is a live pod.
type Pod struct {
	Ref   string
	UID   types.UID
	Shown []Shown
}

// Shown is one address in a pod's network-status.
type Shown struct {
	IP        netip.Addr
	Interface string
	// Managed says that the network's IPAM is the one whose pools were read, and that one of these covers the address.
	Managed bool
	// Reserved says that this network makes a reservation of each address.
	Reserved bool
}

// Entry is one address that a pool has recorded as taken.
type Entry struct {
	// Pool is "namespace/name".
	Pool      string
	IP        netip.Addr
	PodRef    string
	Interface string
	// Releasing says that a release of the entry has begun. Then it names no pod.
	Releasing bool
	// Reservations are the names, as in Reservation.Name, that the address's reservation may have, at least one: the first is
	// that of a network without a name, the others those of each network that the pool's name can mean.
	Reservations []string
}

// Reservation keeps an address from being handed out by overlapping ranges.
type Reservation struct {
	// Name is "namespace/name".
	Name      string
	PodRef    string
	Interface string
}
