// SPDX-License-Identifier: Apache-2.0

package ipamrepair

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Facts are what live reads show about one finding, after it was confirmed. A fact that was not read holds, like one that is
// Unknown. Absent and an empty list are the same.
type Facts struct {
	Finding ipamaudit.Finding
	// Name is the name under which the IPAM reserves the pod's address; Absent where its network makes no reservations. It is
	// read for findings about a live pod's address.
	Name release.Fact[string]
	// Reservation is the one of that name, or the one that the finding names.
	Reservation release.Fact[Reservation]
	// Alike are other reservations of the same address and network, whose names are spelled otherwise.
	Alike release.Fact[[]Reservation]
	// Entries are those of all pools that have one of the addresses that the finding is about.
	Entries release.Fact[[]ipamaudit.Entry]
	// Users are the pods, of any kind, that show one of these addresses and that no kubelet has finished.
	Users release.Fact[[]User]
	// Records are those that have one of these addresses.
	Records release.Fact[[]Record]
	// Owner is the pod that the reservation names, or named before it was marked.
	Owner release.Fact[Owner]
}

// Reservation is one as it was read. Owner is the pod reference in it, or the one from before it was marked.
type Reservation struct {
	Name, Owner, Interface string
	Marked                 bool
}

// User is a pod that shows an address.
type User struct {
	Ref string
	UID types.UID
}

// Record is an IPAllocation by name, and the pod it is of.
type Record struct {
	Name   string
	PodRef string
}

// Owner is a pod of the name that a reservation has. That it exists does not show whether the reservation is this pod's.
type Owner struct {
	UID types.UID
	// Held: the pod carries our finalizer.
	Held bool
	// Reported: the pod has a network-status, so that its ADDs are over.
	Reported bool
	// Shows: that may show an address of the reservation, whether it counts as a claim or not. Only the own pod's is of interest: it holds no other
	// pod's reservation.
	Shows bool
	// Recorded: its own record exists, by UID. What the record does not have, no pool was seen to hold for this pod.
	Recorded bool
	// Finished: its kubelet has finished it.
	Finished bool
	// Machines are those that records name for its sandboxes, and Node is the live Node to compare them with.
	Machines []release.Machine
	Node     release.Fact[release.Node]
}

// gone reports whether the pod of a reservation is proven gone, and why not, as text.
func (f *Facts) gone() (isGone bool, why string) {
	if !f.Owner.IsRead() {
		return false, "its pod could not be read: " + f.Owner.Why()
	}
	if f.Owner.IsAbsent() {
		return true, ""
	}
	owner := f.Owner.Get()
	switch {
	case !owner.Finished:
		return false, "its pod (UID " + string(owner.UID) + ") exists, and its kubelet has not finished it"
	case owner.Held && len(owner.Machines) == 0:
		return false, "its pod (UID " + string(owner.UID) + ") is finished, but no record names the machine that ran it"
	}
	for _, machine := range owner.Machines {
		if !owner.Node.IsKnown() || !release.Compare(machine, owner.Node.Get().Machine).IsShown() {
			return false, "its pod (UID " + string(owner.UID) + ") was finished by a kubelet that cannot be shown to be its own machine's"
		}
	}
	return true, ""
}

// hasOther reports whether the pod that has the name by now is shown to have other addresses than the reservation's: its ADDs are over, and neither
// its network-status nor its record (Records, which decideOrphaned has checked before) has the address.
func (f *Facts) hasOther() bool {
	return f.Owner.IsKnown() && f.Owner.Get().Reported && f.Owner.Get().Recorded && !f.Owner.Get().Shows
}

// unread names the first of what every removal needs that could not be read.
func (f *Facts) unread() string {
	for _, read := range []struct {
		what string
		ok   bool
		why  string
	}{
		{"the pools", f.Entries.IsRead(), f.Entries.Why()},
		{"the pods that show the address", f.Users.IsRead(), f.Users.Why()},
		{"the records", f.Records.IsRead(), f.Records.Why()},
		{"the reservation", f.Reservation.IsRead(), f.Reservation.Why()},
	} {
		if !read.ok {
			return read.what + " could not be read: " + read.why
		}
	}
	return ""
}

// entryFor is the first entry of this kind that the reservation could stand for.
func (f *Facts) entryFor(reservation string, is func(*ipamaudit.Entry) bool) *ipamaudit.Entry {
	entries := f.Entries.Get()
	for i := range entries {
		e := &entries[i]
		if (len(e.Reservations) == 0 || slices.Contains(e.Reservations, reservation)) && is(e) {
			return e
		}
	}
	return nil
}
