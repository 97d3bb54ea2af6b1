// SPDX-License-Identifier: Apache-2.0

package ipamrepair

import (
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// each calls f for every combination of facts that the rules tell apart, the unread ones included.
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
			}
		}
	}
}

// An independent statement of what a reservation may be taken from a pod for.
func TestI1I5NothingIsTakenAwayWithoutProof(t *testing.T) {
	taken, given := 0, 0
	each(func(f Facts) {
		d := Decide(f)
		if d.Action != Mark && d.Action != Delete && d.Action != Give {
			return
		}
		if d.Action == Give && f.Reservation.Get().Owner == web {
			return // its own, back from a mark
		}
		for _, read := range []bool{f.Entries.IsRead(), f.Users.IsRead(), f.Records.IsRead(), f.Owner.IsRead(), f.Reservation.IsKnown()} {
			if !read {
				t.Fatalf("action %d on facts that were not read: %+v", d.Action, f)
			}
		}
		alive := f.Owner.IsKnown() && (!f.Owner.Get().Finished || len(f.Owner.Get().Machines) == 0 || f.Owner.Get().Machines[0] != machine)
		if d.Action != Delete && alive {
			t.Fatalf("action %d while the pod of the reservation may run: %+v", d.Action, f)
		}
		if d.Action == Delete && !f.Reservation.Get().Marked {
			t.Fatalf("a reservation is removed that was never marked: %+v", f)
		}
		switch d.Action {
		case Give:
			given++
			if len(f.Users.Get()) != 1 || f.Users.Get()[0].UID != uidOf(web) {
				t.Fatalf("a reservation is given to a pod that is not the one that shows the address: %+v", f)
			}
			for _, e := range f.Entries.Get() {
				if e.PodRef != web {
					t.Fatalf("a reservation is given away while a pool has the address for another pod: %+v", f)
				}
			}
		default:
			taken++
			if len(f.Users.Get())+len(f.Entries.Get())+len(f.Records.Get()) > 0 {
				t.Fatalf("action %d on an address that somebody has: %+v", d.Action, f)
			}
			if f.Finding.Kind != v1alpha1.ReasonReservationOrphaned {
				t.Fatalf("action %d on a finding of kind %s", d.Action, f.Finding.Kind)
			}
		}
	})
	if taken == 0 || given == 0 {
		t.Fatalf("%d reservations were taken away and %d given: the facts never suffice", taken, given)
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
