// SPDX-License-Identifier: Apache-2.0

package ipamaudit

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// index holds the facts by their keys.
type index struct {
	Facts
	byAddress    map[netip.Addr][]*Entry
	reservations map[string]*Reservation
	// standing are the reservations that stand for an entry.
	standing sets.Set[string]
	// live and reservedFor are pods and reservations by pod reference.
	live        map[string][]*Pod
	reservedFor map[string][]*Reservation
	// foreign are those that were found to stand where another pod's should.
	foreign sets.Set[string]
}

// Audit finds every contradiction, in a deterministic order.
func Audit(facts Facts) []Finding { return Examine(facts).Bounded() }

// Examine finds every contradiction in facts about some pods or all, in a deterministic order. Bare claims are not bounded yet.
func Examine(facts Facts) Result {
	b := open(facts)
	var findings []Finding
	for i := range b.Pods {
		for _, shown := range b.Pods[i].Shown {
			if shown.Managed {
				findings = append(findings, b.shown(&b.Pods[i], shown)...)
			}
		}
	}
	if b.ForRepair {
		findings = append(findings, b.claimed()...)
	}
	findings = append(findings, b.orphaned()...)
	findings = append(findings, b.moved()...)
	findings = append(findings, b.unsliced()...)
	findings = append(findings, b.unaccounted()...)
	slices.SortFunc(findings, compare)
	return Result{Findings: findings, unbacked: b.unbacked(), unentered: b.unentered()}
}

func compare(x, y Finding) int {
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), x.IP.Compare(y.IP), cmp.Compare(x.PodRef, y.PodRef), cmp.Compare(x.Reservation, y.Reservation),
		cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.SandboxID, y.SandboxID))
}

func open(facts Facts) *index {
	b := &index{
		Facts: facts, byAddress: map[netip.Addr][]*Entry{},
		reservations: map[string]*Reservation{}, standing: sets.New[string](), foreign: sets.New[string](),
		live: map[string][]*Pod{}, reservedFor: map[string][]*Reservation{},
	}
	for i := range facts.Pods {
		b.live[facts.Pods[i].Ref] = append(b.live[facts.Pods[i].Ref], &facts.Pods[i])
	}
	for i := range facts.Reservations {
		r := &facts.Reservations[i]
		b.reservations[r.Name] = r
		b.reservedFor[r.PodRef] = append(b.reservedFor[r.PodRef], r)
	}
	for i := range facts.Entries {
		e := &facts.Entries[i]
		b.byAddress[e.IP] = append(b.byAddress[e.IP], e)
		for _, name := range e.Reservations {
			if r := b.reservations[name]; r != nil && (e.Releasing || r.PodRef == e.PodRef) {
				b.standing.Insert(name)
			}
		}
	}
	return b
}

// shown looks at one address of a live pod.
func (b *index) shown(pod *Pod, shown Shown) []Finding {
	if b.Doubtful.Has(pod.Ref) {
		return nil
	}
	entry := b.entryOf(pod, shown)
	about := Finding{PodRef: pod.Ref, UID: pod.UID, IP: shown.IP, Interface: shown.Interface, Network: shown.Network}
	if entry == nil {
		if b.ForRepair || pod.Restarting {
			return nil // claimed, or of a sandbox that ended
		}
		return b.entryMissing(about)
	}
	about.Pool = entry.Pool
	if entry.Releasing {
		return nil
	}
	findings := b.twice(entry, shown.Reserved, about)
	if shown.Reserved {
		findings = append(findings, b.reservationOf(entry, about)...)
	}
	return findings
}

// entryOf is the entry of a pod's address; one whose release has begun may be any pod's.
func (b *index) entryOf(pod *Pod, shown Shown) *Entry {
	for _, e := range b.byAddress[shown.IP] {
		if e.Releasing || e.PodRef == pod.Ref && sameInterface(e.Interface, shown.Interface) {
			return e
		}
	}
	return nil
}

func (b *index) entryMissing(about Finding) []Finding {
	if b.Unreadable {
		return nil
	}
	about.Kind = v1alpha1.ReasonEntryMissing
	for _, e := range b.byAddress[about.IP] {
		about.Pool, about.Other = e.Pool, e.PodRef
	}
	return []Finding{about}
}

// reservationOf looks for the reservation of an entry. Under the name of a network without a name an entry of a network
// with one may meet another of the same name, which is no inconsistency.
func (b *index) reservationOf(entry *Entry, about Finding) []Finding {
	if b.isReserved(entry) {
		return nil
	}
	about.Kind = v1alpha1.ReasonReservationMissing
	for at, name := range entry.Reservations {
		if r := b.reservations[name]; r != nil && (at > 0 || len(entry.Reservations) == 1) {
			about.Kind, about.Reservation, about.Other = v1alpha1.ReasonReservationForeign, name, r.PodRef
		}
	}
	if about.Reservation != "" {
		b.foreign.Insert(about.Reservation)
	}
	return []Finding{about}
}

// isReserved reports whether a reservation of the entry's own pod and interface stands under one of the names that the entry's may have.
func (b *index) isReserved(entry *Entry) bool {
	return slices.ContainsFunc(entry.Reservations, func(name string) bool {
		r := b.reservations[name]
		return r != nil && r.PodRef == entry.PodRef && sameInterface(r.Interface, entry.Interface)
	})
}

// twice looks for the same address of the same network in another pool, for another live pod. Without reservations two
// ranges of a network may share addresses by intent, but two pools of one slice may not.
func (b *index) twice(entry *Entry, reserved bool, about Finding) []Finding {
	for _, other := range b.byAddress[entry.IP] {
		if other.Pool == entry.Pool || other.Releasing || other.PodRef == entry.PodRef {
			continue
		}
		if sameSlice := entry.Slice.Name != "" && entry.Slice.Name == other.Slice.Name; (sameSlice || reserved && b.sameNetwork(entry, other)) && b.isShown(other, !sameSlice) {
			about.Kind, about.Other, about.OtherPool = v1alpha1.ReasonAddressInTwoPools, other.PodRef, other.Pool
			return []Finding{about}
		}
	}
	return nil
}

// sameNetwork reports whether the reservations of both entries may have one name. If each entry has its own, they have two: a name is
// that of one reservation.
func (b *index) sameNetwork(x, y *Entry) bool {
	if b.isReserved(x) && b.isReserved(y) {
		return false
	}
	if len(x.Reservations) == 1 && len(y.Reservations) == 1 {
		return x.Reservations[0] == y.Reservations[0]
	}
	return len(x.Reservations) > 1 && slices.ContainsFunc(x.Reservations[1:], func(name string) bool {
		return slices.Contains(y.Reservations[min(1, len(y.Reservations)):], name)
	})
}

// isShown reports whether a live pod shows the address of its entry, on a network that makes reservations where that matters.
func (b *index) isShown(entry *Entry, reserved bool) bool {
	return slices.ContainsFunc(b.live[entry.PodRef], func(p *Pod) bool {
		return slices.ContainsFunc(p.Shown, func(s Shown) bool {
			return (s.Reserved || !reserved) && s.IP == entry.IP && sameInterface(s.Interface, entry.Interface)
		})
	})
}

// orphaned are the reservations that stand for nothing. One that a live pod's missing entry left behind is left to that
// finding.
func (b *index) orphaned() []Finding {
	if b.Unreadable {
		return nil
	}
	var findings []Finding
	for i := range b.Reservations {
		r := &b.Reservations[i]
		showsWithout := func(p *Pod) bool {
			return slices.ContainsFunc(p.Shown, func(s Shown) bool { return b.lacksEntry(p, s) })
		}
		if b.standing.Has(r.Name) || b.foreign.Has(r.Name) || b.Doubtful.Has(r.PodRef) || slices.ContainsFunc(b.live[r.PodRef], showsWithout) {
			continue
		}
		findings = append(findings, Finding{Kind: v1alpha1.ReasonReservationOrphaned, PodRef: r.PodRef, Interface: r.Interface, Reservation: r.Name})
	}
	return findings
}

// moved are the entries in the pools of nodes that do not have the slice any more. That of an address that no live pod shows
// has no UID: its pod may be starting, terminating or absent.
func (b *index) moved() []Finding {
	var findings []Finding
	for i := range b.Entries {
		e := &b.Entries[i]
		if !e.Slice.Moved() || e.Releasing {
			continue
		}
		about := Finding{Kind: v1alpha1.ReasonSliceMoved, PodRef: e.PodRef, IP: e.IP, Interface: e.Interface, Pool: e.Pool,
			Slice: e.Slice.Name, Node: e.Slice.For, Owner: e.Slice.Node}
		for _, p := range b.live[e.PodRef] {
			shows := func(s Shown) bool { return s.IP == e.IP && sameInterface(s.Interface, e.Interface) }
			if at := slices.IndexFunc(p.Shown, shows); at >= 0 {
				about.UID, about.Network = p.UID, p.Shown[at].Network
			}
		}
		findings = append(findings, about)
	}
	return findings
}

// unsliced are the pods whose node has no slice of their network.
func (b *index) unsliced() []Finding {
	if b.Slices == nil {
		return nil
	}
	var findings []Finding
	for i := range b.Starting {
		pod := &b.Starting[i]
		for _, name := range pod.Divided {
			if !b.hasSlice(name, pod.Node) {
				findings = append(findings, Finding{Kind: v1alpha1.ReasonPodWithoutSlice, PodRef: pod.Ref, UID: pod.UID, Slice: name, Node: pod.Node})
			}
		}
	}
	return findings
}

// hasSlice: any namespace's object of that name will do, since it is unknown which one the node's IPAM reads.
func (b *index) hasSlice(name, node string) bool {
	for pool, nodes := range b.Slices {
		if _, own, _ := strings.Cut(pool, "/"); own == name && nodes.Has(node) {
			return true
		}
	}
	return false
}

// lacksEntry reports whether a pod shows an address of the IPAM that is in none of the pod's entries.
func (b *index) lacksEntry(pod *Pod, shown Shown) bool {
	return shown.Managed && !slices.ContainsFunc(b.byAddress[shown.IP], func(e *Entry) bool { return e.PodRef == pod.Ref })
}

// sameInterface: old versions of whereabouts recorded no interface.
func sameInterface(x, y string) bool { return x == "" || y == "" || x == y }
