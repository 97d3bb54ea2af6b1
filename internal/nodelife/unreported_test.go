// SPDX-License-Identifier: Apache-2.0

package nodelife_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

func TestUnreported(t *testing.T) {
	a, b := machine("u1", "a"), machine("u2", "b")
	resembling := func(registered time.Time) release.Node {
		n := node("n2", machine("u2", "a"))
		n.BootID, n.Registered = "another boot", registered
		return n
	}
	var full []v1alpha1.GuardedMachine
	for i := range nodelife.MaxMachines {
		full = append(full, entry(machine("u1", fmt.Sprint(i))))
	}
	absent := func(m v1alpha1.NodeIdentity, since time.Time) nodelife.Unreported {
		return nodelife.Unreported{NodeName: "node", Machine: m, Absence: nodelife.Absence{Since: since}}
	}
	cases := map[string]struct {
		l    nodelife.Lifecycle
		want []nodelife.Unreported
	}{
		"its Node reports it":                         {l: nodelife.Lifecycle{Objects: []v1alpha1.GuardedNode{object("u1", entry(a))}, Nodes: []release.Node{node("n1", a)}}},
		"its Node reports it in a later boot":         {l: nodelife.Lifecycle{Objects: []v1alpha1.GuardedNode{object("u1", entry(a))}, Nodes: []release.Node{node("n1", rebooted(a))}}},
		"another Node reports it":                     {l: nodelife.Lifecycle{Objects: []v1alpha1.GuardedNode{object("u1", entry(a))}, Nodes: []release.Node{node("n2", machine("u2", "a"))}}},
		"a Node that may be a clone has just come":    {nodelife.Lifecycle{Objects: []v1alpha1.GuardedNode{object("u1", entry(a, gone(long)))}, Nodes: []release.Node{resembling(now)}}, []nodelife.Unreported{{NodeName: "node", Machine: a, Absence: nodelife.Absence{Since: now, Liveness: "its machine is registered as node n2"}}}},
		"a Node that resembles it stays the only one": {l: nodelife.Lifecycle{Objects: []v1alpha1.GuardedNode{object("u1", entry(a, gone(long)))}, Nodes: []release.Node{resembling(now.Add(-time.Hour))}}},
		"none does":                             {nodelife.Lifecycle{Objects: []v1alpha1.GuardedNode{object("u1", entry(a, gone(long)))}}, []nodelife.Unreported{absent(a, long.Time)}},
		"none does, and the object lags":        {nodelife.Lifecycle{Objects: []v1alpha1.GuardedNode{object("u1", entry(a))}}, []nodelife.Unreported{absent(a, now)}},
		"it was replaced under its Node":        {nodelife.Lifecycle{Objects: []v1alpha1.GuardedNode{object("u1", entry(machine("u1", "c")), entry(a, gone(long)))}, Nodes: []release.Node{node("n1", machine("u1", "c"))}}, []nodelife.Unreported{absent(a, long.Time)}},
		"it reported, and no object has it yet": {nodelife.Lifecycle{Unwritten: []v1alpha1.NodeIdentity{b}}, []nodelife.Unreported{{NodeName: "u2", Machine: b, Absence: nodelife.Absence{Since: now}}}},
		"it reports, and no object has it yet":  {l: nodelife.Lifecycle{Unwritten: []v1alpha1.NodeIdentity{b}, Nodes: []release.Node{node("n2", b)}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.l.Settings, c.l.Acquired = settings, long.Add(-time.Hour)
			if diff := cmp.Diff(c.want, c.l.Unreported(now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a full object may lack a machine", func(t *testing.T) {
		l := nodelife.Lifecycle{Objects: []v1alpha1.GuardedNode{object("u1", full...)}, Settings: settings, Acquired: long.Time}
		for _, m := range full {
			l.Nodes = append(l.Nodes, node("n", m.Identity("u1")))
		}
		if diff := cmp.Diff([]nodelife.Unreported{absent(v1alpha1.NodeIdentity{UID: "u1"}, now)}, l.Unreported(now)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A delay that caches show to be over is confirmed by a live read after it (R2).
func TestR2UnreportedMachinesAreConfirmedByALiveRead(t *testing.T) {
	a := machine("u1", "a")
	isOver := func(l nodelife.Lifecycle) bool {
		l.Settings, l.Acquired, l.Objects = settings, long.Time, []v1alpha1.GuardedNode{object("u1", entry(a, gone(long)))}
		return !now.Before(l.Unreported(now)[0].Since.Add(settings.NodeGoneDelay))
	}
	kubelets := map[string]nodelife.Kubelet{"node": {}}
	for name, c := range map[string]struct {
		l    nodelife.Lifecycle
		want bool
	}{
		"by caches":                       {nodelife.Lifecycle{}, true},
		"live, after the delay":           {nodelife.Lifecycle{Read: now, Kubelets: kubelets}, true},
		"live, before the delay was over": {nodelife.Lifecycle{Read: long.Time, Kubelets: kubelets}, false},
		"live, without its kubelet":       {nodelife.Lifecycle{Read: now}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isOver(c.l); got != c.want {
				t.Errorf("the delay is over: %t, want %t", got, c.want)
			}
		})
	}
}

func TestMachineIn(t *testing.T) {
	a, b := machine("u1", "a"), machine("u1", "b")
	one, two := object("u1", entry(a)), object("u1", entry(a), entry(b))
	for name, c := range map[string]struct {
		object v1alpha1.GuardedNode
		boot   string
		want   v1alpha1.NodeIdentity
	}{
		"the boot":                     {two, "b-boot", b},
		"another boot of the only one": {one, "later", a},
		"another boot of one of two":   {object: two, boot: "later"},
		"no boot":                      {one, "", a},
		"no machine":                   {object: object("u1"), boot: "a-boot"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, found := nodelife.MachineIn(&c.object, c.boot); got != c.want || found != (c.want.UID != "") {
				t.Errorf("MachineIn = %+v, %t; want %+v", got, found, c.want)
			}
		})
	}
}
