// SPDX-License-Identifier: Apache-2.0

package nodelife_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

var (
	now      = time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)
	rounded  = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC))
	first    = metav1.NewTime(now.Add(-24 * time.Hour).Truncate(time.Second))
	long     = metav1.NewTime(now.Add(-time.Hour).Truncate(time.Second))
	settings = release.Settings{NodeGoneDelay: 5 * time.Minute}
)

// machine is the machine of a letter in its first boot.
func machine(uid types.UID, letter string) v1alpha1.NodeIdentity {
	return v1alpha1.NodeIdentity{UID: uid, MachineID: letter, SystemUUID: letter + "-system", BootID: letter + "-boot"}
}

func rebooted(m v1alpha1.NodeIdentity) v1alpha1.NodeIdentity {
	m.BootID += "-2"
	return m
}

func node(name string, m v1alpha1.NodeIdentity) release.Node {
	return release.Node{Machine: release.MachineOf(m), Name: name, Registered: now.Add(-time.Minute)}
}

func registeredLongAgo(n release.Node) release.Node {
	n.Registered = now.Add(-time.Hour)
	return n
}

// entry is a machine in an object.
func entry(m v1alpha1.NodeIdentity, change ...func(*v1alpha1.GuardedMachine)) v1alpha1.GuardedMachine {
	e := v1alpha1.GuardedMachine{MachineID: m.MachineID, SystemUUID: m.SystemUUID, BootID: m.BootID, FirstSeenTime: first}
	for _, c := range change {
		c(&e)
	}
	return e
}

func gone(since metav1.Time) func(*v1alpha1.GuardedMachine) {
	return func(e *v1alpha1.GuardedMachine) { e.Gone = &v1alpha1.MachineGone{Since: since} }
}

func succeeded(uid types.UID) func(*v1alpha1.GuardedMachine) {
	return func(e *v1alpha1.GuardedMachine) { e.SuccessorUID = uid }
}

func seenNow(e *v1alpha1.GuardedMachine) { e.FirstSeenTime = rounded }

func spec(machines ...v1alpha1.GuardedMachine) v1alpha1.GuardedNodeSpec {
	return v1alpha1.GuardedNodeSpec{NodeName: "node", Machines: machines}
}

func TestNext(t *testing.T) {
	a, b := machine("u1", "a"), machine("u1", "b")
	unknown := v1alpha1.NodeIdentity{UID: "u1"}
	lease := metav1.NewMicroTime(now.Add(-time.Hour))
	kubelet := release.Known(nodelife.Kubelet{LeaseRenewed: &lease})
	hadLease := func(e *v1alpha1.GuardedMachine) { e.Gone.LeaseRenewTime = &lease }
	cases := map[string]struct {
		o    nodelife.Observation
		want v1alpha1.GuardedNodeSpec
	}{
		"a Node that was never seen gets an object": {nodelife.Observation{NodeName: "node", Live: []release.Node{node("node", a)}}, spec(entry(a, seenNow))},
		"a heartbeat changes nothing":               {nodelife.Observation{Spec: spec(entry(a)), Live: []release.Node{node("node", a)}}, spec(entry(a))},
		"a reboot is the same machine":              {nodelife.Observation{Spec: spec(entry(a)), Live: []release.Node{node("node", rebooted(a))}}, spec(entry(rebooted(a)))},
		"R1: another machine under the Node UID comes first, and the one that it replaced is gone": {
			nodelife.Observation{Spec: spec(entry(a)), Live: []release.Node{node("node", b)}}, spec(entry(b, seenNow), entry(a, gone(rounded)))},
		"R1: a machine that takes its Node object back comes first again": {
			nodelife.Observation{Spec: spec(entry(b), entry(a, gone(long))), Live: []release.Node{node("node", a)}}, spec(entry(a), entry(b, gone(rounded)))},
		"R1: a machine is in the object though its Node was deleted before the object was made": {
			nodelife.Observation{NodeName: "node", Seen: []v1alpha1.NodeIdentity{a}}, spec(entry(a, seenNow, gone(rounded)))},
		"R1: so is each of two that reported in a row": {
			nodelife.Observation{Spec: spec(entry(a)), Seen: []v1alpha1.NodeIdentity{b, a}}, spec(entry(a, gone(rounded)), entry(b, seenNow, gone(rounded)))},
		"R1: a machine that reported once more before it was replaced again is gone from then on": {
			nodelife.Observation{Spec: spec(entry(b), entry(a, gone(long))), Seen: []v1alpha1.NodeIdentity{a, b}, Live: []release.Node{node("node", b)}}, spec(entry(b), entry(a, gone(rounded)))},
		"a report without IDs, from before another manager saw the machine, is of that machine": {
			nodelife.Observation{Spec: spec(entry(a)), Seen: []v1alpha1.NodeIdentity{unknown}}, spec(entry(a, gone(rounded)))},
		"R8: a machine that another Node reports has a successor": {
			nodelife.Observation{Spec: spec(entry(a, gone(long))), Live: []release.Node{node("other", machine("u2", "a"))}}, spec(entry(a, succeeded("u2")))},
		"R8: a machine is gone once its successor is deleted": {
			nodelife.Observation{Spec: spec(entry(a, succeeded("u2")))}, spec(entry(a, gone(rounded)))},
		"R8: its own Node reports a machine, though a clone does too": {
			nodelife.Observation{Spec: spec(entry(a)), Live: []release.Node{node("other", machine("u0", "a")), node("node", a)}}, spec(entry(a))},
		"a machine that stays gone keeps its time": {nodelife.Observation{Spec: spec(entry(a, gone(long)))}, spec(entry(a, gone(long)))},
		"a Node that resembles the machine and is young may be a clone": {
			nodelife.Observation{Spec: spec(entry(a, gone(long))), Live: []release.Node{node("other", rebooted(machine("u2", "a")))}}, spec(entry(a, gone(long)))},
		"a Node that resembles it for the delay is its successor": {
			nodelife.Observation{Spec: spec(entry(a, gone(long))), Live: []release.Node{registeredLongAgo(node("other", rebooted(machine("u2", "a"))))}}, spec(entry(a, succeeded("u2")))},
		"R10: a machine that a record names under a UID without object gets one, gone from now on": {
			nodelife.Observation{NodeName: "node", Named: []v1alpha1.NodeIdentity{a}}, spec(entry(a, seenNow, gone(rounded)))},
		"R10: a machine that a record names and the object does not is added": {
			nodelife.Observation{Spec: spec(entry(b)), Named: []v1alpha1.NodeIdentity{a}, Live: []release.Node{node("node", b)}}, spec(entry(b), entry(a, seenNow, gone(rounded)))},
		"a record's earlier boot of the machine is no machine of its own": {
			nodelife.Observation{Spec: spec(entry(rebooted(a))), Named: []v1alpha1.NodeIdentity{a}, Live: []release.Node{node("node", rebooted(a))}}, spec(entry(rebooted(a)))},
		"a Node that names no machine has an unknown one":       {nodelife.Observation{NodeName: "node", Live: []release.Node{node("node", unknown)}}, spec(entry(unknown, seenNow))},
		"an unknown machine is the one that its Node names":     {nodelife.Observation{Spec: spec(entry(unknown)), Live: []release.Node{node("node", a)}}, spec(entry(a))},
		"an unknown machine is gone without a Node of the UID":  {nodelife.Observation{Spec: spec(entry(unknown)), Live: []release.Node{node("node", machine("u2", "b"))}}, spec(entry(unknown, gone(rounded)))},
		"what the kubelet showed when it went is kept":          {nodelife.Observation{Spec: spec(entry(a)), Kubelet: kubelet}, spec(entry(a, gone(rounded), hadLease))},
		"what it shows still shows no life    ":                 {nodelife.Observation{Spec: spec(entry(a, gone(long), hadLease)), Kubelet: kubelet}, spec(entry(a, gone(long), hadLease))},
		"a time without a look at it begins the delay again":    {nodelife.Observation{Spec: spec(entry(a, gone(long), hadLease)), Kubelet: kubelet, Unwatched: true}, spec(entry(a, gone(rounded), hadLease))},
		"a failed look changes nothing":                         {nodelife.Observation{Spec: spec(entry(a, gone(long))), Kubelet: release.Unknown[nodelife.Kubelet]("x"), Unwatched: true}, spec(entry(a, gone(long)))},
		"without anything that reports or is named there is no": {nodelife.Observation{NodeName: "node"}, v1alpha1.GuardedNodeSpec{NodeName: "node"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.o.UID, c.o.Settings = "u1", settings
			before := c.o.Spec.DeepCopy()
			if diff := cmp.Diff(c.want, nodelife.Next(&c.o, now)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(*before, c.o.Spec); diff != "" {
				t.Errorf("the observation was changed (-before +after)\n%s", diff)
			}
		})
	}
}

func TestAWriteOfTheKubeletBeginsTheDelayAgain(t *testing.T) {
	a := machine("u1", "a")
	before, after := metav1.NewMicroTime(now.Add(-time.Hour)), metav1.NewMicroTime(now.Add(-time.Minute))
	o := nodelife.Observation{UID: "u1", Spec: spec(entry(a, gone(long))), Settings: settings, Kubelet: release.Known(nodelife.Kubelet{LeaseRenewed: &after})}
	o.Spec.Machines[0].Gone.LeaseRenewTime = &before
	got := nodelife.Next(&o, now).Machines[0].Gone
	want := &v1alpha1.MachineGone{Since: rounded, LeaseRenewTime: &after, Liveness: "its kubelet has renewed the node's Lease at 2026-03-01T11:59:00Z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLivenessSince(t *testing.T) {
	lease := func(d time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: now.Add(d)} }
	second := func(s int) *metav1.Time { return &metav1.Time{Time: now.Add(time.Duration(s) * time.Second)} }
	cases := map[string]struct {
		before, seen nodelife.Kubelet
		alive        bool
	}{
		"what was there when the delay began shows nothing":    {nodelife.Kubelet{LeaseRenewed: lease(0), Wrote: second(0)}, nodelife.Kubelet{LeaseRenewed: lease(0), Wrote: second(0)}, false},
		"nothing before and nothing now":                       {},
		"a Lease that was deleted with its Node":               {before: nodelife.Kubelet{LeaseRenewed: lease(0)}},
		"a Lease that appears":                                 {seen: nodelife.Kubelet{LeaseRenewed: lease(-time.Hour)}, alive: true},
		"a Lease that was renewed a microsecond later":         {nodelife.Kubelet{LeaseRenewed: lease(0)}, nodelife.Kubelet{LeaseRenewed: lease(time.Microsecond)}, true},
		"a later write of a pod's status":                      {nodelife.Kubelet{Wrote: second(0)}, nodelife.Kubelet{Wrote: second(1)}, true},
		"a first write of a pod's status":                      {seen: nodelife.Kubelet{Wrote: second(-5)}, alive: true},
		"an earlier write: the pod of the last one is deleted": {nodelife.Kubelet{Wrote: second(0)}, nodelife.Kubelet{Wrote: second(-60)}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.seen.LivenessSince(c.before); (got != "") != c.alive {
				t.Errorf("LivenessSince = %q, alive wanted: %t", got, c.alive)
			}
		})
	}
}

func object(uid string, machines ...v1alpha1.GuardedMachine) v1alpha1.GuardedNode {
	return v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: uid}, Spec: spec(machines...)}
}

func TestANodeAlwaysHasCapacityForAFurtherMachine(t *testing.T) {
	o := nodelife.Observation{UID: "u1", NodeName: "node", Settings: settings}
	for i := range nodelife.MaxMachines + 2 {
		o.Seen = append(o.Seen, machine("u1", fmt.Sprint(i)))
	}
	got := nodelife.Next(&o, now)
	if len(got.Machines) != nodelife.MaxMachines || got.Machines[0].MachineID != "15" {
		t.Errorf("%d machines, the first %q, want %d and the last that found room", len(got.Machines), got.Machines[0].MachineID, nodelife.MaxMachines)
	}
}

func TestTheMachinesOfARecord(t *testing.T) {
	a, b := machine("u1", "a"), machine("u1", "b")
	record := &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{AliveNodeUID: "u3", Kubelet: &v1alpha1.KubeletReport{Node: &v1alpha1.NodeIdentity{UID: "u2"}},
		Sandboxes: []v1alpha1.SandboxRecord{{Node: &a}, {}, {Node: &b}, {Node: &a}}}}
	if diff := cmp.Diff([]types.UID{"u1", "u2", "u3"}, nodelife.NamedBy(record)); diff != "" {
		t.Errorf("UIDs (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]v1alpha1.NodeIdentity{a, b}, nodelife.MachinesOf(record, "u1")); diff != "" {
		t.Errorf("machines (-want +got)\n%s", diff)
	}
}

func TestAnObjectThatLacksAMachineWasChangedByAnotherClient(t *testing.T) {
	a, b := machine("u1", "a"), machine("u1", "b")
	for name, c := range map[string]struct {
		before, after v1alpha1.GuardedNode
		drops         bool
	}{
		"a further machine":     {object("u1", entry(a)), object("u1", entry(b), entry(a, gone(long))), false},
		"a reboot":              {object("u1", entry(a)), object("u1", entry(rebooted(a))), false},
		"a machine that is not": {object("u1", entry(a), entry(b)), object("u1", entry(b)), true},
	} {
		if got := nodelife.Drops(&c.before, &c.after); got != c.drops {
			t.Errorf("%s: drops %t, want %t", name, got, c.drops)
		}
	}
}
