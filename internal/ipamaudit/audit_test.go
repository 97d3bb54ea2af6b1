// SPDX-License-Identifier: Apache-2.0

package ipamaudit

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var one, two = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

// pod is a live pod that shows addresses on net1 of a managed network that makes reservations.
func pod(name string, shown ...netip.Addr) Pod {
	p := Pod{Ref: "ns/" + name, UID: types.UID(name + "-uid")}
	for _, ip := range shown {
		p.Shown = append(p.Shown, Shown{IP: ip, Interface: "net1", Managed: true, Reserved: true})
	}
	return p
}

// entry is one of the pool "ks/<prefix>10.0.0.0-24". Each "-" of the prefix may end the network's name.
func entry(prefix string, ip netip.Addr, pod string) Entry {
	e := Entry{Pool: "ks/" + prefix + "10.0.0.0-24", IP: ip, PodRef: "ns/" + pod, Interface: "net1", Reservations: []string{"ks/" + ip.String()}}
	for at, char := range prefix {
		if char == '-' {
			e.Reservations = append(e.Reservations, "ks/"+prefix[:at+1]+ip.String())
		}
	}
	return e
}

// unreserved is the pod on networks that make no reservations.
func unreserved(p Pod) Pod {
	for i := range p.Shown {
		p.Shown[i].Reserved = false
	}
	return p
}

// inSlice is the entry in the pool of a node, whose slice some node has now.
func inSlice(e Entry, node, owner string) Entry {
	e.Slice = Slice{Name: "ks/blue 10.0.0.0/24", For: node, Node: owner}
	return e
}

func reservation(name, pod string) Reservation {
	return Reservation{Name: "ks/" + name, PodRef: "ns/" + pod, Interface: "net1"}
}

// with changes a copy.
func with[T any](value T, change func(*T)) T {
	change(&value)
	return value
}

func finding(kind v1alpha1.Reason, pod string, change func(*Finding)) Finding {
	f := Finding{Kind: kind, PodRef: "ns/" + pod, UID: types.UID(pod + "-uid"), IP: one, Interface: "net1", Pool: "ks/10.0.0.0-24"}
	if change != nil {
		change(&f)
	}
	return f
}

func TestAudit(t *testing.T) {
	for name, test := range map[string]struct {
		facts Facts
		want  []Finding
	}{
		"an address with its entry and its reservation is as it should be": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Entries: []Entry{entry("", one, "web")}, Reservations: []Reservation{reservation("10.0.0.1", "web")}},
		},
		"the reservation of a network with a name has the name before its address": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Entries: []Entry{entry("blue-", one, "web")}, Reservations: []Reservation{reservation("blue-10.0.0.1", "web")}},
		},
		"an address that no pool has is one without a record, and its reservation is not called an orphan": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Reservations: []Reservation{reservation("10.0.0.1", "web")}},
			want:  []Finding{finding(v1alpha1.ReasonEntryMissing, "web", func(f *Finding) { f.Pool = "" })},
		},
		"an address without an entry is not in use while the pod has no sandbox": {
			facts: Facts{Pods: []Pod{with(pod("web", one), func(p *Pod) { p.Restarting = true })}},
		},
		"nor is one that a repair looks at": {
			facts: Facts{ForRepair: true, Pods: []Pod{with(pod("web", one), func(p *Pod) { p.Restarting, p.Recorded = true, []netip.Addr{one} })}},
		},
		"one that is on record for the pod is repaired while it runs": {
			facts: Facts{ForRepair: true, Pods: []Pod{with(pod("web", one), func(p *Pod) { p.Recorded = []netip.Addr{one} })}},
			want:  []Finding{finding(v1alpha1.ReasonEntryMissing, "web", func(f *Finding) { f.Pool = "" })},
		},
		"an address that a pool has for another pod is one without a record": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Entries: []Entry{entry("", one, "db")}, Reservations: []Reservation{reservation("10.0.0.1", "db")}},
			want:  []Finding{finding(v1alpha1.ReasonEntryMissing, "web", func(f *Finding) { f.Other = "ns/db" })},
		},
		"an address that a pool has for another interface of the pod is one without a record": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Entries: []Entry{with(entry("", one, "web"), func(e *Entry) { e.Interface = "net2" })},
				Reservations: []Reservation{reservation("10.0.0.1", "web")}},
			want: []Finding{finding(v1alpha1.ReasonEntryMissing, "web", func(f *Finding) { f.Other = "ns/web" })},
		},
		"an entry without an interface is any interface's": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Entries: []Entry{with(entry("", one, "web"), func(e *Entry) { e.Interface = "" })},
				Reservations: []Reservation{reservation("10.0.0.1", "web")}},
		},
		"an address of another IPAM has no entry": {
			facts: Facts{Pods: []Pod{with(pod("web", one), func(p *Pod) { p.Shown[0].Managed, p.Shown[0].Reserved = false, false })}},
		},
		"a pool that cannot be read lacks nothing": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Reservations: []Reservation{reservation("10.0.0.2", "db")}, Unreadable: true},
		},
		"a pod with an entry that cannot be read lacks nothing": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Reservations: []Reservation{reservation("10.0.0.2", "web")}, Doubtful: sets.New("ns/web")},
		},
		"an entry whose release has begun names no pod, and is one": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Entries: []Entry{with(entry("", one, "web"), func(e *Entry) { e.PodRef, e.Releasing = "holdfast-releasing/x", true })},
				Reservations: []Reservation{reservation("10.0.0.1", "web")}},
		},
		"an entry that nothing reserves lacks its reservation": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Entries: []Entry{entry("", one, "web")}},
			want:  []Finding{finding(v1alpha1.ReasonReservationMissing, "web", nil)},
		},
		"an entry of a pod that does not show the address may be starting": {
			facts: Facts{Pods: []Pod{pod("web")}, Entries: []Entry{entry("", one, "web")}},
		},
		"an entry of a network that makes no reservations lacks none": {
			facts: Facts{Pods: []Pod{with(pod("web", one), func(p *Pod) { p.Shown[0].Reserved = false })}, Entries: []Entry{entry("", one, "web")}},
		},
		"a reservation of another pod is not the entry's": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Entries: []Entry{entry("", one, "web")}, Reservations: []Reservation{reservation("10.0.0.1", "db")}},
			want:  []Finding{finding(v1alpha1.ReasonReservationForeign, "web", func(f *Finding) { f.Reservation, f.Other = "ks/10.0.0.1", "ns/db" })},
		},
		"a reservation of another interface of the pod is not the entry's": {
			facts: Facts{Pods: []Pod{pod("web", one)}, Entries: []Entry{entry("", one, "web")},
				Reservations: []Reservation{with(reservation("10.0.0.1", "web"), func(r *Reservation) { r.Interface = "net2" })}},
			want: []Finding{finding(v1alpha1.ReasonReservationForeign, "web", func(f *Finding) { f.Reservation, f.Other = "ks/10.0.0.1", "ns/web" })},
		},
		"a reservation of the network without a name is no other's": {
			facts: Facts{Pods: []Pod{pod("web", one), pod("db", one)}, Entries: []Entry{entry("blue-", one, "web"), entry("", one, "db")},
				Reservations: []Reservation{reservation("10.0.0.1", "db")}},
			want: []Finding{finding(v1alpha1.ReasonReservationMissing, "web", func(f *Finding) { f.Pool = "ks/blue-10.0.0.0-24" })},
		},
		"a reservation without an entry is an orphan, whether or not its pod lives": {
			facts: Facts{Pods: []Pod{pod("web")}, Reservations: []Reservation{reservation("10.0.0.1", "gone"), reservation("10.0.0.2", "web")}},
			want: []Finding{
				{Kind: v1alpha1.ReasonReservationOrphaned, PodRef: "ns/gone", Interface: "net1", Reservation: "ks/10.0.0.1"},
				{Kind: v1alpha1.ReasonReservationOrphaned, PodRef: "ns/web", Interface: "net1", Reservation: "ks/10.0.0.2"},
			},
		},
		"the reservation of an entry whose pod does not live is none": {
			facts: Facts{Entries: []Entry{entry("", two, "gone")}, Reservations: []Reservation{reservation("10.0.0.2", "gone")}},
		},
		"the reservation of an entry whose release has begun is none": {
			facts: Facts{Entries: []Entry{with(entry("", two, "gone"), func(e *Entry) { e.PodRef, e.Releasing = "holdfast-releasing/x", true })},
				Reservations: []Reservation{reservation("10.0.0.2", "gone")}},
		},
		"two live pods with one address of one network, each from its own pool": {
			facts: Facts{Pods: []Pod{pod("web", one), pod("db", one)},
				Entries:      []Entry{entry("", one, "web"), with(entry("", one, "db"), func(e *Entry) { e.Pool = "ks/10.0.0.0-25" })},
				Reservations: []Reservation{reservation("10.0.0.1", "web")}},
			want: []Finding{
				finding(v1alpha1.ReasonAddressInTwoPools, "db", func(f *Finding) { f.Pool, f.Other, f.OtherPool = "ks/10.0.0.0-25", "ns/web", "ks/10.0.0.0-24" }),
				finding(v1alpha1.ReasonAddressInTwoPools, "web", func(f *Finding) { f.Other, f.OtherPool = "ns/db", "ks/10.0.0.0-25" }),
				finding(v1alpha1.ReasonReservationForeign, "db", func(f *Finding) { f.Pool, f.Reservation, f.Other = "ks/10.0.0.0-25", "ks/10.0.0.1", "ns/web" }),
			},
		},
		"two pods with one address of two networks": {
			facts: Facts{Pods: []Pod{pod("web", one), pod("db", one)}, Entries: []Entry{entry("blue-", one, "web"), entry("red-", one, "db")},
				Reservations: []Reservation{reservation("blue-10.0.0.1", "web"), reservation("red-10.0.0.1", "db")}},
		},
		"two pods with one address of two networks, of which the names begin alike": {
			facts: Facts{Pods: []Pod{pod("web", one), pod("db", one)}, Entries: []Entry{entry("vlan-100-", one, "web"), entry("vlan-200-", one, "db")},
				Reservations: []Reservation{reservation("vlan-100-10.0.0.1", "web"), reservation("vlan-200-10.0.0.1", "db")}},
		},
		"two live pods with one address, in pools of two nodes of one network": {
			facts: Facts{Pods: []Pod{pod("web", one), pod("db", one)}, Entries: []Entry{entry("vlan-100-", one, "web"), entry("vlan-200-", one, "db")},
				Reservations: []Reservation{reservation("vlan-10.0.0.1", "web")}},
			want: []Finding{
				finding(v1alpha1.ReasonAddressInTwoPools, "db", func(f *Finding) {
					f.Pool, f.Other, f.OtherPool = "ks/vlan-200-10.0.0.0-24", "ns/web", "ks/vlan-100-10.0.0.0-24"
				}),
				finding(v1alpha1.ReasonAddressInTwoPools, "web", func(f *Finding) {
					f.Pool, f.Other, f.OtherPool = "ks/vlan-100-10.0.0.0-24", "ns/db", "ks/vlan-200-10.0.0.0-24"
				}),
				finding(v1alpha1.ReasonReservationForeign, "db", func(f *Finding) {
					f.Pool, f.Reservation, f.Other = "ks/vlan-200-10.0.0.0-24", "ks/vlan-10.0.0.1", "ns/web"
				}),
			},
		},
		"two pools of one slice have one address, reserved or not": {
			facts: Facts{Pods: []Pod{unreserved(pod("web", one)), unreserved(pod("db", one))}, Entries: []Entry{
				inSlice(entry("node-a-", one, "web"), "node-a", "node-b"), inSlice(entry("node-b-", one, "db"), "node-b", "node-b")}},
			want: []Finding{
				finding(v1alpha1.ReasonAddressInTwoPools, "db", func(f *Finding) {
					f.Pool, f.Other, f.OtherPool = "ks/node-b-10.0.0.0-24", "ns/web", "ks/node-a-10.0.0.0-24"
				}),
				finding(v1alpha1.ReasonAddressInTwoPools, "web", func(f *Finding) {
					f.Pool, f.Other, f.OtherPool = "ks/node-a-10.0.0.0-24", "ns/db", "ks/node-b-10.0.0.0-24"
				}),
				finding(v1alpha1.ReasonSliceMoved, "web", func(f *Finding) {
					f.Pool, f.Slice, f.Node, f.Owner = "ks/node-a-10.0.0.0-24", "ks/blue 10.0.0.0/24", "node-a", "node-b"
				}),
			},
		},
		"two pools of two ranges without reservations may share an address": {
			facts: Facts{Pods: []Pod{unreserved(pod("web", one)), unreserved(pod("db", one))},
				Entries: []Entry{entry("", one, "web"), with(entry("", one, "db"), func(e *Entry) { e.Pool = "ks/10.0.0.0-25" })}},
		},
		"an entry of a slice that no node has any more, of a pod that does not exist": {
			facts: Facts{Entries: []Entry{inSlice(entry("node-a-", one, "gone"), "node-a", "")}},
			want: []Finding{{Kind: v1alpha1.ReasonSliceMoved, PodRef: "ns/gone", IP: one, Interface: "net1", Pool: "ks/node-a-10.0.0.0-24",
				Slice: "ks/blue 10.0.0.0/24", Node: "node-a"}},
		},
		"an entry of a slice that its node has, and one whose release has begun": {
			facts: Facts{Entries: []Entry{inSlice(entry("node-a-", one, "gone"), "node-a", "node-a"),
				with(inSlice(entry("node-a-", two, "x"), "node-a", "node-b"), func(e *Entry) { e.Releasing = true })}},
		},
		"a pod on a node that has no slice of its network, and one on a node that has": {
			facts: Facts{Slices: map[string]sets.Set[string]{"ks/blue": sets.New("node-a"), "ks/red": sets.New("node-b")},
				Starting: []Starting{{Ref: "ns/web", UID: "web-uid", Node: "node-b", Divided: []string{"blue", "red"}}, {Ref: "ns/db", Node: "node-a", Divided: []string{"blue"}}}},
			want: []Finding{{Kind: v1alpha1.ReasonPodWithoutSlice, PodRef: "ns/web", UID: "web-uid", Slice: "blue", Node: "node-b"}},
		},
		"a network that should be divided and is not": {
			facts: Facts{Slices: map[string]sets.Set[string]{}, Starting: []Starting{{Ref: "ns/web", UID: "web-uid", Node: "node-b", Divided: []string{"blue"}}}},
			want:  []Finding{{Kind: v1alpha1.ReasonPodWithoutSlice, PodRef: "ns/web", UID: "web-uid", Slice: "blue", Node: "node-b"}},
		},
		"unknown slices": {
			facts: Facts{Starting: []Starting{{Ref: "ns/web", UID: "web-uid", Node: "node-b", Divided: []string{"blue"}}}},
		},
		"an entry in a second pool of a pod that does not show it is a race that is being lost": {
			facts: Facts{Pods: []Pod{pod("web", one), pod("db")},
				Entries:      []Entry{entry("", one, "web"), with(entry("", one, "db"), func(e *Entry) { e.Pool = "ks/10.0.0.0-25" })},
				Reservations: []Reservation{reservation("10.0.0.1", "web")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Audit(test.facts)
			if diff := cmp.Diff(test.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// What is found does not depend on the order in which facts were read.
func TestTheOrderOfFactsDoesNotMatter(t *testing.T) {
	facts := Facts{
		Pods:    []Pod{pod("web", one, two), pod("db", one), pod("mq", two)},
		Entries: []Entry{entry("", one, "web"), with(entry("", one, "db"), func(e *Entry) { e.Pool = "ks/10.0.0.0-25" }), entry("blue-", two, "mq")},
		Reservations: []Reservation{
			reservation("10.0.0.1", "gone"), reservation("blue-10.0.0.2", "web"), reservation("10.0.0.9", "gone"),
		},
	}
	want := Audit(facts)
	if len(want) < 6 {
		t.Fatalf("the facts contradict themselves in few ways only: %v", want)
	}
	for range 100 {
		rand.Shuffle(len(facts.Pods), func(i, j int) { facts.Pods[i], facts.Pods[j] = facts.Pods[j], facts.Pods[i] })
		rand.Shuffle(len(facts.Entries), func(i, j int) { facts.Entries[i], facts.Entries[j] = facts.Entries[j], facts.Entries[i] })
		rand.Shuffle(len(facts.Reservations), func(i, j int) {
			facts.Reservations[i], facts.Reservations[j] = facts.Reservations[j], facts.Reservations[i]
		})
		if diff := cmp.Diff(want, Audit(facts), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Fatalf("findings (-want +got):\n%s", diff)
		}
	}
}

func TestMessagesNameWhatWasFoundAndWhatToDo(t *testing.T) {
	for _, kind := range Kinds {
		f := finding(kind, "web", func(f *Finding) {
			f.Other, f.OtherPool, f.Reservation = "ns/db", "ks/10.0.0.0-25", "ks/10.0.0.1"
			f.Slice, f.Node, f.Owner = "ks/blue", "node-a", "node-b"
		})
		want := []string{"ns/web", "expected"}
		switch kind {
		case v1alpha1.ReasonReservationOrphaned:
			want = append(want, f.Reservation, "delete it")
		case v1alpha1.ReasonPodWithoutSlice:
			want = append(want, "web-uid", f.Slice, f.Node, "See the IPAM's")
		case v1alpha1.ReasonSliceMoved:
			want = append(want, "web-uid", "10.0.0.1", f.Pool, f.Slice, f.Node, f.Owner, "eplace")
		case v1alpha1.ReasonEntryUnaccounted:
			want = append(want, "10.0.0.1", f.Pool, "kubectl holdfast who")
		default:
			want = append(want, "web-uid", "10.0.0.1", f.Pool, "eplace")
		}
		for _, text := range want {
			if message := f.Message(); !strings.Contains(message, text) || len(message) > 1000 {
				t.Errorf("the message of %s has no %q, or is too long for an event: %s", kind, text, message)
			}
		}
	}
}
