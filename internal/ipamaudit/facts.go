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
	// Unreadable: a whole pool could not be read, so that it is unknown of every address whether a pool has it.
	Unreadable bool
	// Doubtful are the pods with an entry that could not be read, or with a reservation whose name is unknown.
	Doubtful sets.Set[string]
	// Slices are, by the name of the object that divides a range ("namespace/name"), the nodes that have a part of it. Nil
	// where that is unknown, or no range is divided.
	Slices map[string]sets.Set[string]
	// Accounts are what leads to each entry; nil where that is unknown.
	Accounts *Accounts
	// Starting are pods that have an ADD or a DEL of a divided network before them.
	Starting []Starting
	// ForRepair: findings may be written about: then only claims count that an IPAM can have caused (claims.go).
	ForRepair bool
}

// Pod is a live pod.
type Pod struct {
	Ref   string
	UID   types.UID
	Shown []Shown
	// Allowed is, by network as in Shown, how many addresses the pod can have: for each attachment that it requests, one of each range.
	Allowed map[string]int
	// Recorded are the addresses that the record of this UID has.
	Recorded []netip.Addr
	// Restarting: its kubelet reports that it has no sandbox. What it shows without an entry is of an earlier one.
	Restarting bool
}

// Starting is a pod on a node whose networks are divided among nodes: it needs a slice there to start, and to end.
type Starting struct {
	Ref  string
	UID  types.UID
	Node string
	// Divided are the names of the objects that list the slices of its networks. In which namespace they are is not known.
	Divided []string
}

// Shown is one address in a pod's network-status.
type Shown struct {
	IP        netip.Addr
	Interface string
	// Network is as the status names it.
	Network string
	// Managed: the network's IPAM is the one whose pools were read, and one of these covers the address.
	Managed bool
	// Outside: the network's ranges are known, and none has the address.
	Outside bool
	// Reserved: this network makes a reservation of each address.
	Reserved bool
}

// Entry is one address that a pool has recorded as taken.
type Entry struct {
	// Pool is "namespace/name".
	Pool      string
	IP        netip.Addr
	SandboxID string
	PodRef    string
	Interface string
	// Releasing: a release of the entry has begun. Then it names no pod.
	Releasing bool
	// Reservations are the names, as in Reservation.Name, that the address's reservation may have, at least one: the first is
	// that of a network without a name, the others those of each network that the pool's name can mean.
	Reservations []string
	// Slice is the slice of the entry's pool; the zero value for an entry of a range that is not divided.
	Slice Slice
}

// Slice is the part of a divided range for which an entry's pool was made.
type Slice struct {
	// Name identifies it: the object that lists it, and its range. Empty where the pool is no slice's.
	Name string
	// For is the node in the pool's name; Node has the slice now, empty if none has.
	For, Node string
}

// Moved reports whether another node than the pool's has the slice now, or none.
func (s Slice) Moved() bool { return s.Name != "" && s.For != s.Node }

// Reservation keeps an address from being handed out by overlapping ranges.
type Reservation struct {
	// Name is "namespace/name".
	Name      string
	PodRef    string
	Interface string
	// Addresses are those that the name can mean. They are needed for repairs only.
	Addresses []netip.Addr
}
