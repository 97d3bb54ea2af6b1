// SPDX-License-Identifier: Apache-2.0

package ipamrepair

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
)

// Action is what is done about a finding. The zero value is invalid.
type Action uint8

// The actions.
const (
	// Report: nothing can be written safely.
	Report Action = iota + 1
	// Done: there is nothing left to repair.
	Done
	// Hold: what the write rests on is not proven.
	Hold
	// Create the reservation Name for PodRef and Interface.
	Create
	// Give the reservation Name to PodRef and Interface.
	Give
	// Mark the reservation Name, so that no pod takes it over.
	Mark
	// Restore the reservation Name, which is marked, to PodRef and Interface.
	Restore
	// Delete the reservation Name, which is marked.
	Delete
)

// Decision is what is done about a finding, and why.
type Decision struct {
	Action Action
	// Reason is that of a Hold.
	Reason v1alpha1.Reason
	// Name is the reservation's, and PodRef and Interface its new content.
	Name, PodRef, Interface string
	// Message is what is done or waited for, for people.
	Message string
}

// Writes reports whether anything may be written about a kind of findings, so that its facts are worth reading.
func Writes(kind v1alpha1.Reason) bool {
	switch kind {
	case v1alpha1.ReasonEntryMissing, v1alpha1.ReasonReservationMissing, v1alpha1.ReasonReservationForeign, v1alpha1.ReasonReservationOrphaned:
		return true
	default:
		return false
	}
}

// Decide returns what to do about a finding.
func Decide(f Facts) Decision {
	switch f.Finding.Kind {
	case v1alpha1.ReasonReservationOrphaned:
		return decideOrphaned(&f)
	case v1alpha1.ReasonEntryMissing, v1alpha1.ReasonReservationMissing, v1alpha1.ReasonReservationForeign:
		return decideUsed(&f)
	default:
		return Decision{Action: Report, Message: "nothing is written: " + whyReported(f.Finding.Kind)}
	}
}

func whyReported(kind v1alpha1.Reason) string {
	switch kind {
	case v1alpha1.ReasonAddressInTwoPools:
		return "both pods are live, and neither address can be freed"
	case v1alpha1.ReasonSliceMoved:
		return "the entry of a live pod stays, and that of a dead one is released as always"
	case v1alpha1.ReasonPodWithoutSlice:
		return "only the IPAM's node-slice controller gives slices"
	case v1alpha1.ReasonEntryUnaccounted:
		return "an entry is never removed by a repair"
	default:
		return "there is no repair for it"
	}
}

// decideOrphaned: a reservation that stands for no entry, and whose address its pod does not show.
func decideOrphaned(f *Facts) Decision {
	if why := f.unread(); why != "" {
		return hold(v1alpha1.ReasonObservationFailed, "%s", why)
	}
	if f.Reservation.IsAbsent() {
		return Decision{Action: Done, Message: "the reservation is deleted"}
	}
	r := f.Reservation.Get()
	if d, decided := f.reservedEntry(r); decided {
		return d
	}
	if users := f.Users.Get(); len(users) > 0 {
		return hold(v1alpha1.ReasonPodInUse, "reservation %s stays: pod %s (UID %s) shows its address", r.Name, users[0].Ref, users[0].UID)
	}
	if records := f.Records.Get(); len(records) > 0 {
		return hold(v1alpha1.ReasonRecordHolds, "reservation %s stays: IPAllocation %s (pod %s) has its address", r.Name, records[0].Name, records[0].PodRef)
	}
	if r.Marked {
		return f.decideMarked(r)
	}
	pod := "its pod is gone"
	if gone, why := f.gone(); !gone {
		if !f.hasOther() {
			return hold(v1alpha1.ReasonPodInUse, "reservation %s of %s stays: %s", r.Name, r.Owner, why)
		}
		pod = "the pod of that name (UID " + string(f.Owner.Get().UID) + ") has other addresses"
	}
	return Decision{Action: Mark, Name: r.Name, Message: fmt.Sprintf(
		"reservation %s of %s stands for nothing, and %s: it is marked, and removed unless an entry shows up for it", r.Name, r.Owner, pod)}
}

// reservedEntry looks for an entry that the reservation stands for, or may.
func (f *Facts) reservedEntry(r Reservation) (Decision, bool) {
	own := f.entryFor(r.Name, func(e *ipamaudit.Entry) bool { return e.PodRef == r.Owner && !e.Releasing })
	switch {
	case own != nil && r.Marked:
		return Decision{Action: Restore, Name: r.Name, PodRef: own.PodRef, Interface: cmp.Or(own.Interface, r.Interface), Message: fmt.Sprintf(
			"reservation %s is given back to %s, for which pool %s has the address", r.Name, own.PodRef, own.Pool)}, true
	case own != nil:
		return Decision{Action: Done, Message: fmt.Sprintf("the reservation stands for the entry of %s in pool %s", own.PodRef, own.Pool)}, true
	}
	if other := f.entryFor(r.Name, func(*ipamaudit.Entry) bool { return true }); other != nil {
		return hold(v1alpha1.ReasonPoolHolds, "reservation %s of %s stays: pool %s has its address for %s", r.Name, r.Owner, other.Pool, other.PodRef), true
	}
	return Decision{}, false
}

// decideMarked: the mark has stood for the delay. A pod of the name that came since cannot have the address without an entry,
// unless its ADD is under way.
func (f *Facts) decideMarked(r Reservation) Decision {
	switch {
	case !f.Owner.IsRead():
		return hold(v1alpha1.ReasonObservationFailed, "reservation %s stays marked: pod %s could not be read: %s", r.Name, r.Owner, f.Owner.Why())
	case f.Owner.IsKnown() && !f.Owner.Get().Finished && !f.Owner.Get().Reported:
		return hold(v1alpha1.ReasonMayBeStarting, "reservation %s stays marked: pod %s (UID %s) is starting", r.Name, r.Owner, f.Owner.Get().UID)
	case f.Owner.IsKnown() && !f.Owner.Get().Finished && f.Owner.Get().Shows:
		return hold(v1alpha1.ReasonPodInUse, "reservation %s stays marked: the network-status of pod %s (UID %s) has its address", r.Name, r.Owner, f.Owner.Get().UID)
	}
	return Decision{Action: Delete, Name: r.Name, Message: fmt.Sprintf(
		"reservation %s, once of %s, was removed: it stood for no entry, and no pod showed its address", r.Name, r.Owner)}
}

// decideUsed: a live pod shows an address that is not reserved for it.
func decideUsed(f *Facts) Decision {
	about := &f.Finding
	if d, decided := f.decideUnread(); decided {
		return d
	}
	if !slices.ContainsFunc(f.Users.Get(), func(u User) bool { return u.UID == about.UID }) {
		return Decision{Action: Done, Message: "the pod does not show the address any more"}
	}
	entry := f.entryFor(f.Name.Get(), func(e *ipamaudit.Entry) bool { return e.PodRef == about.PodRef && !e.Releasing })
	if entry == nil && about.Kind != v1alpha1.ReasonEntryMissing {
		return Decision{Action: Done, Message: "the entry is not there any more"}
	}
	iface := about.Interface
	if entry != nil {
		iface = cmp.Or(entry.Interface, iface)
	}
	if f.Reservation.IsKnown() {
		return f.decideTaken(f.Reservation.Get(), iface)
	}
	if alike := f.Alike.Get(); len(alike) > 0 {
		return hold(v1alpha1.ReasonConflict, "reservation %s of %s has the same address and network under another name; remove the one that belongs to no pod", alike[0].Name, alike[0].Owner)
	}
	if d, isOther := f.otherEntry(); isOther {
		return d
	}
	return Decision{Action: Create, Name: f.Name.Get(), PodRef: about.PodRef, Interface: iface,
		Message: fmt.Sprintf("reservation %s was made for pod %s (UID %s), which uses %s", f.Name.Get(), about.PodRef, about.UID, about.IP)}
}

// decideUnread: what every write about a live pod's address needs to know.
func (f *Facts) decideUnread() (Decision, bool) {
	if why := f.unread(); why != "" {
		return hold(v1alpha1.ReasonObservationFailed, "%s", why), true
	}
	if !f.Name.IsRead() || !f.Alike.IsRead() {
		return hold(v1alpha1.ReasonObservationFailed, "the name of the address's reservation is unknown: %s", cmp.Or(f.Name.Why(), f.Alike.Why())), true
	}
	if f.Name.IsAbsent() {
		return Decision{Action: Report, Message: "nothing is written: the network makes no reservations"}, true
	}
	return Decision{}, false
}

// otherEntry: an address that no pool has for the pod, but one has for another, may be the other's to reserve.
func (f *Facts) otherEntry() (Decision, bool) {
	if f.Finding.Kind != v1alpha1.ReasonEntryMissing {
		return Decision{}, false
	}
	other := f.entryFor(f.Name.Get(), func(e *ipamaudit.Entry) bool { return e.PodRef != f.Finding.PodRef })
	if other == nil {
		return Decision{}, false
	}
	return hold(v1alpha1.ReasonConflict, "pool %s has the address for %s: replace one of both pods", other.Pool, other.PodRef), true
}

// decideTaken: the address has a reservation, which should name the pod that shows it.
func (f *Facts) decideTaken(r Reservation, iface string) Decision {
	about := &f.Finding
	own := r.Owner == about.PodRef
	give := Decision{Action: Give, Name: r.Name, PodRef: about.PodRef, Interface: iface, Message: fmt.Sprintf(
		"reservation %s of %s, which is gone, was given to pod %s (UID %s), which uses %s", r.Name, r.Owner, about.PodRef, about.UID, about.IP)}
	switch {
	case own && r.Marked:
		return give
	case own && (r.Interface == iface || r.Interface == "" || iface == ""):
		return f.decideOwn(r)
	}
	if d, held := f.heldByAnother(r); held {
		return d
	}
	return give
}

// decideOwn: the reservation is the pod's own.
func (f *Facts) decideOwn(r Reservation) Decision {
	if f.Finding.Kind == v1alpha1.ReasonEntryMissing {
		return Decision{Action: Report, Message: fmt.Sprintf(
			"nothing is written: reservation %s keeps the address from overlapping ranges, and no entry can be made without the sandbox's ID", r.Name)}
	}
	return Decision{Action: Done, Message: fmt.Sprintf("reservation %s names the pod", r.Name)}
}

// heldByAnother explains why a reservation cannot be taken from the pod that it names.
func (f *Facts) heldByAnother(r Reservation) (Decision, bool) {
	about := &f.Finding
	for _, user := range f.Users.Get() {
		if user.UID != about.UID {
			return hold(v1alpha1.ReasonConflict, "reservation %s of %s stays: pod %s (UID %s) shows the same address", r.Name, r.Owner, user.Ref, user.UID), true
		}
	}
	if e := f.entryFor(r.Name, func(e *ipamaudit.Entry) bool { return e.PodRef != about.PodRef }); e != nil {
		return hold(v1alpha1.ReasonPoolHolds, "reservation %s of %s stays: pool %s has the address for %s too", r.Name, r.Owner, e.Pool, e.PodRef), true
	}
	for _, record := range f.Records.Get() {
		if record.Name != string(about.UID) {
			return hold(v1alpha1.ReasonRecordHolds, "reservation %s of %s stays: IPAllocation %s (pod %s) has the address too", r.Name, r.Owner, record.Name, record.PodRef), true
		}
	}
	if gone, why := f.gone(); !gone {
		return hold(v1alpha1.ReasonConflict, "reservation %s of %s stays: %s", r.Name, r.Owner, why), true
	}
	return Decision{}, false
}

func hold(reason v1alpha1.Reason, format string, args ...any) Decision {
	return Decision{Action: Hold, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
