// SPDX-License-Identifier: Apache-2.0

package ipamrepair

import (
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// each calls f for every combination of facts that the rules distinguish, the unread ones included.
func each(f func(Facts)) {
	one := func(ref string) ipamaudit.Entry { return entryOf(ref) }
	for _, kind := range ipamaudit.Kinds {
		for _, reservation := range []release.Fact[Reservation]{
			{}, release.Unknown[Reservation]("test"), release.Absent[Reservation](),
			release.Known(Reservation{Name: plain, Owner: web, Interface: "net1"}), release.Known(Reservation{Name: plain, Owner: db, Interface: "net1"}),
			release.Known(Reservation{Name: plain, Owner: web, Marked: true}), release.Known(Reservation{Name: plain, Owner: db, Marked: true}),
		} {
			for _, entries := range []release.Fact[[]ipamaudit.Entry]{
				{}, release.Unknown[[]ipamaudit.Entry]("test"), release.Absent[[]ipamaudit.Entry](), release.Known([]ipamaudit.Entry{one(web)}),
				release.Known([]ipamaudit.Entry{one(db)}), release.Known([]ipamaudit.Entry{one(web), one(db)}),
			} {
				for _, users := range []release.Fact[[]User]{
					{}, release.Unknown[[]User]("test"), release.Absent[[]User](), release.Known([]User{userOf(web)}),
					release.Known([]User{userOf(db)}), release.Known([]User{userOf(web), userOf(db)}),
				} {
					for _, records := range []release.Fact[[]Record]{
						{}, release.Unknown[[]Record]("test"), release.Absent[[]Record](), release.Known([]Record{recordOf(web)}), release.Known([]Record{recordOf(db)}),
					} {
						eachOwner(func(owner release.Fact[Owner]) {
							for _, name := range []release.Fact[string]{{}, release.Unknown[string]("test"), release.Absent[string](), release.Known(plain)} {
								f(Facts{
									Finding: ipamaudit.Finding{Kind: kind, PodRef: web, UID: uidOf(web), IP: address, Interface: "net1", Reservation: plain},
									Name:    name, Reservation: reservation, Alike: release.Absent[[]Reservation](), Entries: entries, Users: users, Records: records, Owner: owner,
								})
							}
						})
					}
				}
			}
		}
	}
}

func eachOwner(f func(release.Fact[Owner])) {
	f(release.Fact[Owner]{})
	f(release.Unknown[Owner]("test"))
	f(release.Absent[Owner]())
	for _, isFinished := range []bool{false, true} {
		for _, reported := range []bool{false, true} {
			for _, machines := range [][]release.Machine{nil, {machine}, {stranger}} {
				f(owner(func(o *Owner) { o.Finished, o.Reported, o.Machines = isFinished, reported, machines }))
				f(owner(recorded, func(o *Owner) { o.Finished, o.Reported, o.Machines = isFinished, reported, machines }))
				f(owner(recorded, func(o *Owner) { o.Finished, o.Reported, o.Shows, o.Machines = isFinished, reported, reported, machines }))
			}
		}
	}
}

// An independent statement of what a reservation may be taken from a pod for.
func TestI1I5NothingIsTakenAwayWithoutProof(t *testing.T) {
	taken, given := 0, 0
	each(func(f Facts) {
		d := Decide(f)
		own := f.Reservation.Get().Owner == web // a pod takes its own reservation back from a mark in every case
		switch {
		case d.Action == Give && !own:
			given++
			checkProven(t, f)
			checkGiven(t, f)
		case d.Action == Mark || d.Action == Delete:
			taken++
			checkProven(t, f)
			checkTaken(t, f, d)
		}
	})
	if taken == 0 || given == 0 {
		t.Fatalf("%d reservations were taken away and %d given: the facts never suffice", taken, given)
	}
}

func checkProven(t *testing.T, f Facts) {
	t.Helper()
	for _, read := range []bool{f.Entries.IsRead(), f.Users.IsRead(), f.Records.IsRead(), f.Owner.IsRead(), f.Reservation.IsKnown()} {
		if !read {
			t.Fatalf("a reservation is taken from a pod on facts that were not read: %+v", f)
		}
	}
}

// mayRun: the pod of the reservation is there, and not finished on its own machine.
func mayRun(f Facts) bool {
	o := f.Owner.Get()
	return f.Owner.IsKnown() && (!o.Finished || len(o.Machines) == 0 || o.Machines[0] != machine)
}

// hasOthers: the pod of the reservation's name is shown to have other addresses, by its network-status and its record.
func hasOthers(f Facts) bool {
	return f.Owner.Get().Reported && f.Owner.Get().Recorded && !f.Owner.Get().Shows
}

func checkGiven(t *testing.T, f Facts) {
	t.Helper()
	if mayRun(f) {
		t.Fatalf("a reservation is given away while its pod may run: %+v", f)
	}
	if len(f.Users.Get()) != 1 || f.Users.Get()[0].UID != uidOf(web) {
		t.Fatalf("a reservation is given to a pod that is not the one that shows the address: %+v", f)
	}
	for _, e := range f.Entries.Get() {
		if e.PodRef != web {
			t.Fatalf("a reservation is given away while a pool has the address for another pod: %+v", f)
		}
	}
}

func checkTaken(t *testing.T, f Facts, d Decision) {
	t.Helper()
	switch {
	case d.Action == Mark && mayRun(f) && !hasOthers(f):
		t.Fatalf("a reservation is marked while its pod may run: %+v", f)
	case d.Action == Delete && f.Owner.Get().Shows && !f.Owner.Get().Finished:
		t.Fatalf("a reservation is removed while its own pod shows the address: %+v", f)
	case d.Action == Delete && !f.Reservation.Get().Marked:
		t.Fatalf("a reservation is removed that was never marked: %+v", f)
	case len(f.Users.Get())+len(f.Entries.Get())+len(f.Records.Get()) > 0:
		t.Fatalf("action %d on an address that is in use: %+v", d.Action, f)
	case f.Finding.Kind != v1alpha1.ReasonReservationOrphaned:
		t.Fatalf("action %d on a finding of kind %s", d.Action, f.Finding.Kind)
	}
}

// A reservation is only made for a pod that shows the address, and never over another.
func TestAReservationIsMadeForWhoShowsTheAddress(t *testing.T) {
	made := 0
	each(func(f Facts) {
		d := Decide(f)
		if d.Action != Create {
			return
		}
		made++
		if !f.Reservation.IsAbsent() || !f.Name.IsKnown() || d.Name != f.Name.Get() || d.PodRef != web {
			t.Fatalf("%q is made for %q: %+v", d.Name, d.PodRef, f)
		}
		shows := false
		for _, u := range f.Users.Get() {
			shows = shows || u.UID == uidOf(web)
		}
		if !shows {
			t.Fatalf("a reservation is made for a pod that does not show the address: %+v", f)
		}
	})
	if made == 0 {
		t.Fatal("no reservation is ever made")
	}
}
