// SPDX-License-Identifier: Apache-2.0

package ipamrepair

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	plain, blue = "ks/10.0.0.1", "ks/blue-10.0.0.1"
	web, db     = "ns/web", "ns/db"
)

var (
	address  = netip.MustParseAddr("10.0.0.1")
	machine  = release.Machine{NodeUID: "node-uid", MachineID: "m", SystemUUID: "s", BootID: "b"}
	stranger = release.Machine{NodeUID: "other-uid", MachineID: "x", SystemUUID: "y", BootID: "z"}
)

func uidOf(ref string) types.UID { return types.UID(strings.TrimPrefix(ref, "ns/") + "-uid") }

// orphaned is a reservation of web that stands for nothing, when web is gone. marked is the same, once it is marked.
func orphaned() Facts {
	return Facts{
		Finding:     ipamaudit.Finding{Kind: v1alpha1.ReasonReservationOrphaned, PodRef: web, Interface: "net1", Reservation: plain},
		Reservation: release.Known(Reservation{Name: plain, Owner: web, Interface: "net1"}),
		Entries:     release.Absent[[]ipamaudit.Entry](), Users: release.Absent[[]User](), Records: release.Absent[[]Record](),
		Owner: release.Absent[Owner](),
	}
}

func marked() Facts {
	f := orphaned()
	f.Reservation = release.Known(Reservation{Name: plain, Owner: web, Interface: "net1", Marked: true})
	return f
}

// missing is a live pod's entry that nothing reserves.
func missing() Facts {
	return Facts{
		Finding: ipamaudit.Finding{Kind: v1alpha1.ReasonReservationMissing, PodRef: web, UID: uidOf(web), IP: address, Interface: "net1", Pool: "ks/10.0.0.0-24"},
		Name:    release.Known(plain), Reservation: release.Absent[Reservation](), Alike: release.Absent[[]Reservation](),
		Entries: release.Known([]ipamaudit.Entry{entryOf(web)}), Users: release.Known([]User{userOf(web)}),
		Records: release.Known([]Record{recordOf(web)}), Owner: release.Absent[Owner](),
	}
}

// foreign is the same, where the reservation names db, which is gone.
func foreign() Facts {
	f := missing()
	f.Finding.Kind, f.Finding.Reservation, f.Finding.Other = v1alpha1.ReasonReservationForeign, plain, db
	f.Reservation = release.Known(Reservation{Name: plain, Owner: db, Interface: "net1"})
	return f
}

// unrecorded is a live pod whose address no pool has, with nothing that reserves it.
func unrecorded() Facts {
	f := missing()
	f.Finding.Kind, f.Finding.Pool = v1alpha1.ReasonEntryMissing, ""
	f.Entries, f.Records = release.Absent[[]ipamaudit.Entry](), release.Absent[[]Record]()
	return f
}

func entryOf(ref string, names ...string) ipamaudit.Entry {
	return ipamaudit.Entry{Pool: "ks/10.0.0.0-24", IP: address, PodRef: ref, Interface: "net1", Reservations: append([]string{plain}, names...)}
}
func userOf(ref string) User     { return User{Ref: ref, UID: uidOf(ref)} }
func recordOf(ref string) Record { return Record{Name: string(uidOf(ref)), PodRef: ref} }

func owner(change ...func(*Owner)) release.Fact[Owner] {
	o := Owner{UID: "owner-uid", Held: true, Reported: true, Machines: []release.Machine{machine}, Node: release.Known(release.Node{Machine: machine})}
	for _, c := range change {
		c(&o)
	}
	return release.Known(o)
}

func finished(o *Owner) { o.Finished = true }
func recorded(o *Owner) { o.Recorded = true }

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		facts  func() Facts
		change func(*Facts)
		want   Action
		reason v1alpha1.Reason
	}{
		"a reservation for nothing whose pod is gone is marked first": {orphaned, nil, Mark, ""},
		"one that is gone by now":                                     {orphaned, func(f *Facts) { f.Reservation = release.Absent[Reservation]() }, Done, ""},
		"a pod of its name lives, which no record is of":              {orphaned, func(f *Facts) { f.Owner = owner() }, Hold, v1alpha1.ReasonPodInUse},
		"I2: a pod of its name lives, and its network-status and record have other addresses": {
			orphaned, func(f *Facts) { f.Owner = owner(recorded) }, Mark, ""},
		"a pod of its name is recorded, and starting": {
			orphaned, func(f *Facts) { f.Owner = owner(recorded, func(o *Owner) { o.Reported = false }) }, Hold, v1alpha1.ReasonPodInUse},
		"a pod of its name is recorded, and shows the address": {
			orphaned, func(f *Facts) { f.Owner, f.Users = owner(recorded), release.Known([]User{userOf(web)}) }, Hold, v1alpha1.ReasonPodInUse},
		"a pod of its name is recorded with the address, and shows others": {
			orphaned, func(f *Facts) { f.Owner, f.Records = owner(recorded), release.Known([]Record{recordOf(web)}) }, Hold, v1alpha1.ReasonRecordHolds},
		"its pod is finished, on the machine that is recorded": {
			orphaned, func(f *Facts) { f.Owner = owner(finished) }, Mark, ""},
		"its pod is finished, and no record says where it was": {
			orphaned, func(f *Facts) { f.Owner = owner(finished, func(o *Owner) { o.Machines = nil }) }, Hold, v1alpha1.ReasonPodInUse},
		"its pod is finished, and was never held": {
			orphaned, func(f *Facts) { f.Owner = owner(finished, func(o *Owner) { o.Held, o.Machines = false, nil }) }, Mark, ""},
		"its pod was finished by another machine's kubelet": {
			orphaned, func(f *Facts) {
				f.Owner = owner(finished, func(o *Owner) { o.Node = release.Known(release.Node{Machine: stranger}) })
			}, Hold, v1alpha1.ReasonPodInUse},
		"its pod is finished, and one of its sandboxes was on another machine": {
			orphaned, func(f *Facts) {
				f.Owner = owner(finished, func(o *Owner) { o.Machines = append(o.Machines, stranger) })
			}, Hold, v1alpha1.ReasonPodInUse},
		"its pod is finished, and its node is gone": {
			orphaned, func(f *Facts) {
				f.Owner = owner(finished, func(o *Owner) { o.Node = release.Absent[release.Node]() })
			}, Hold, v1alpha1.ReasonPodInUse},
		"a live pod of any name shows the address": {
			orphaned, func(f *Facts) { f.Users = release.Known([]User{userOf(db)}) }, Hold, v1alpha1.ReasonPodInUse},
		"a record has the address": {
			orphaned, func(f *Facts) { f.Records = release.Known([]Record{recordOf(web)}) }, Hold, v1alpha1.ReasonRecordHolds},
		"an entry of the pod is there by now": {
			orphaned, func(f *Facts) { f.Entries = release.Known([]ipamaudit.Entry{entryOf(web)}) }, Done, ""},
		"an entry of another pod that it may stand for": {
			orphaned, func(f *Facts) { f.Entries = release.Known([]ipamaudit.Entry{entryOf(db)}) }, Hold, v1alpha1.ReasonPoolHolds},
		"an entry that is being released": {
			orphaned, func(f *Facts) {
				e := entryOf("holdfast-releasing/web-uid")
				e.Releasing = true
				f.Entries = release.Known([]ipamaudit.Entry{e})
			}, Hold, v1alpha1.ReasonPoolHolds},
		"an entry whose reservation's name cannot be told": {
			orphaned, func(f *Facts) {
				e := entryOf(db)
				e.Reservations = nil
				f.Entries = release.Known([]ipamaudit.Entry{e})
			}, Hold, v1alpha1.ReasonPoolHolds},
		"an entry of the address in another network": {
			orphaned, func(f *Facts) {
				f.Finding.Reservation = blue
				f.Reservation = release.Known(Reservation{Name: blue, Owner: web})
				f.Entries = release.Known([]ipamaudit.Entry{entryOf(db)})
			}, Mark, ""},

		"a mark that has stood": {marked, nil, Delete, ""},
		"a mark, and the pod has an entry by now": {
			marked, func(f *Facts) { f.Entries = release.Known([]ipamaudit.Entry{entryOf(web)}) }, Restore, ""},
		"a mark, and another pod has an entry by now": {
			marked, func(f *Facts) { f.Entries = release.Known([]ipamaudit.Entry{entryOf(db)}) }, Hold, v1alpha1.ReasonPoolHolds},
		"a mark, and a pod shows the address": {
			marked, func(f *Facts) { f.Users = release.Known([]User{userOf(web)}) }, Hold, v1alpha1.ReasonPodInUse},
		"a mark, and a record has the address": {
			marked, func(f *Facts) { f.Records = release.Known([]Record{recordOf(db)}) }, Hold, v1alpha1.ReasonRecordHolds},
		"a mark, and a pod of the name runs with another address": {
			marked, func(f *Facts) { f.Owner = owner() }, Delete, ""},
		"a mark, and a pod of the name is starting": {
			marked, func(f *Facts) { f.Owner = owner(func(o *Owner) { o.Reported = false }) }, Hold, v1alpha1.ReasonMayBeStarting},
		"a mark, and nobody can tell of a pod of the name": {
			marked, func(f *Facts) { f.Owner = release.Unknown[Owner]("timeout") }, Hold, v1alpha1.ReasonObservationFailed},

		"an entry that nothing reserves":                    {missing, nil, Create, ""},
		"an entry of a network that makes no reservations":  {missing, func(f *Facts) { f.Name = release.Absent[string]() }, Report, ""},
		"an entry of a network that cannot be told":         {missing, func(f *Facts) { f.Name = release.Unknown[string]("flat file") }, Hold, v1alpha1.ReasonObservationFailed},
		"an entry that went":                                {missing, func(f *Facts) { f.Entries = release.Absent[[]ipamaudit.Entry]() }, Done, ""},
		"an entry whose pod went, or shows other addresses": {missing, func(f *Facts) { f.Users = release.Known([]User{userOf(db)}) }, Done, ""},
		"an entry that is reserved by now": {
			missing, func(f *Facts) { f.Reservation = release.Known(Reservation{Name: plain, Owner: web, Interface: "net1"}) }, Done, ""},
		"an entry that is reserved by now by an old version, without an interface": {
			missing, func(f *Facts) { f.Reservation = release.Known(Reservation{Name: plain, Owner: web}) }, Done, ""},
		"an entry that is reserved under another spelling": {
			missing, func(f *Facts) { f.Alike = release.Known([]Reservation{{Name: "ks/fd00--0-1", Owner: db}}) }, Hold, v1alpha1.ReasonConflict},
		"an entry, and a second one in another pool: the address must be kept from a third": {
			missing, func(f *Facts) {
				f.Entries = release.Known([]ipamaudit.Entry{entryOf(web), entryOf(db)})
				f.Users = release.Known([]User{userOf(web), userOf(db)})
			}, Create, ""},
		"an entry that only a marked reservation of its own pod is for": {
			missing, func(f *Facts) { f.Reservation = release.Known(Reservation{Name: plain, Owner: web, Marked: true}) }, Give, ""},

		"a reservation of a pod that is gone": {foreign, nil, Give, ""},
		"a reservation of a pod that is gone, marked already": {
			foreign, func(f *Facts) { f.Reservation = release.Known(Reservation{Name: plain, Owner: db, Marked: true}) }, Give, ""},
		"a reservation of a pod that lives": {foreign, func(f *Facts) { f.Owner = owner() }, Hold, v1alpha1.ReasonConflict},
		"a reservation of a pod of which nobody can tell": {
			foreign, func(f *Facts) { f.Owner = release.Unknown[Owner]("timeout") }, Hold, v1alpha1.ReasonConflict},
		"a reservation of a pod that shows the address too": {
			foreign, func(f *Facts) { f.Users = release.Known([]User{userOf(web), userOf(db)}) }, Hold, v1alpha1.ReasonConflict},
		"a reservation of a pod whose entry is still to be released": {
			foreign, func(f *Facts) { f.Entries = release.Known([]ipamaudit.Entry{entryOf(web), entryOf(db)}) }, Hold, v1alpha1.ReasonPoolHolds},
		"a reservation of a pod whose record has the address": {
			foreign, func(f *Facts) { f.Records = release.Known([]Record{recordOf(web), recordOf(db)}) }, Hold, v1alpha1.ReasonRecordHolds},
		"a reservation of another interface of the same pod, which lives": {
			foreign, func(f *Facts) {
				f.Reservation, f.Owner = release.Known(Reservation{Name: plain, Owner: web, Interface: "net2"}), owner()
			}, Hold, v1alpha1.ReasonConflict},

		"an address that no pool has, and that nothing reserves": {unrecorded, nil, Create, ""},
		"an address that no pool has, and that is reserved": {
			unrecorded, func(f *Facts) { f.Reservation = release.Known(Reservation{Name: plain, Owner: web, Interface: "net1"}) }, Report, ""},
		"an address that a pool has for another pod": {
			unrecorded, func(f *Facts) { f.Entries = release.Known([]ipamaudit.Entry{entryOf(db)}) }, Hold, v1alpha1.ReasonConflict},
		"an address that no pool has, reserved for a pod that is gone": {
			unrecorded, func(f *Facts) { f.Reservation = release.Known(Reservation{Name: plain, Owner: db, Interface: "net1"}) }, Give, ""},

		"one address in two pools": {func() Facts { return Facts{Finding: ipamaudit.Finding{Kind: v1alpha1.ReasonAddressInTwoPools}} }, nil, Report, ""},
		"a slice that moved":       {func() Facts { return Facts{Finding: ipamaudit.Finding{Kind: v1alpha1.ReasonSliceMoved}} }, nil, Report, ""},
		"a pod without a slice":    {func() Facts { return Facts{Finding: ipamaudit.Finding{Kind: v1alpha1.ReasonPodWithoutSlice}} }, nil, Report, ""},
		"a kind that nobody knows": {func() Facts { return Facts{} }, nil, Report, ""},
	} {
		t.Run(name, func(t *testing.T) {
			facts := tc.facts()
			if tc.change != nil {
				tc.change(&facts)
			}
			if got := Decide(facts); got.Action != tc.want || got.Reason != tc.reason || got.Message == "" {
				t.Errorf("got action %d, reason %q, want %d, %q: %s", got.Action, got.Reason, tc.want, tc.reason, got.Message)
			}
		})
	}
}

func TestWhatIsWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		facts               Facts
		name, podRef, iface string
	}{
		"created: for the pod, with the interface of its entry": {missing(), plain, web, "net1"},
		"given: the same":                     {foreign(), plain, web, "net1"},
		"marked: only the name":               {orphaned(), plain, "", ""},
		"restored: for the pod of the entry":  {restored(), plain, web, "net1"},
		"created for an address without any ": {unrecorded(), plain, web, "net1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(tc.facts); got.Name != tc.name || got.PodRef != tc.podRef || got.Interface != tc.iface {
				t.Errorf("got %q for %q, interface %q; want %q, %q, %q", got.Name, got.PodRef, got.Interface, tc.name, tc.podRef, tc.iface)
			}
		})
	}
}

func restored() Facts {
	f := marked()
	f.Entries = release.Known([]ipamaudit.Entry{entryOf(web)})
	return f
}
