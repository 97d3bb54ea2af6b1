// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

func machine(uid, hardware, boot string) v1alpha1.NodeIdentity {
	return v1alpha1.NodeIdentity{UID: types.UID(uid), MachineID: hardware, SystemUUID: hardware, BootID: boot}
}

func inventoryOf(all ...Seen) Inventory {
	r := Inventory{}
	for _, s := range all {
		r[KeyOf(s.Node)] = s
	}
	return r
}

func there(name string, node v1alpha1.NodeIdentity) Present {
	return Present{Name: name, Node: release.Node{Machine: release.MachineOf(node), Ready: true}}
}

func since(p Present, registered time.Time) Present {
	p.Registered = registered
	return p
}

func TestFold(t *testing.T) {
	gone := &v1alpha1.NodeGone{Since: metav1.NewTime(now.Add(-time.Minute))}
	one := machine("uid-1", "m1", "boot-1")
	cases := map[string]struct {
		inventory Inventory
		live      []Present
		want      Inventory
		without   int
	}{
		"a Node that is new":       {inventory: Inventory{}, live: []Present{there("a", one)}, want: inventoryOf(Seen{Name: "a", Node: one})},
		"a Node that is known":     {inventory: inventoryOf(Seen{Name: "a", Node: one}), live: []Present{there("a", one)}, want: inventoryOf(Seen{Name: "a", Node: one})},
		"a Node that is not there": {inventory: inventoryOf(Seen{Name: "a", Node: one}), want: inventoryOf(Seen{Name: "a", Node: one}), without: 1},
		"a Node that is back":      {inventory: inventoryOf(Seen{Name: "a", Node: one, Gone: gone}), live: []Present{there("a", one)}, want: inventoryOf(Seen{Name: "a", Node: one})},
		"a machine that booted again": {inventory: inventoryOf(Seen{Name: "a", Node: one}), live: []Present{there("a", machine("uid-1", "m1", "boot-2"))},
			want: inventoryOf(Seen{Name: "a", Node: machine("uid-1", "m1", "boot-2")})},
		"a machine that registered again": {inventory: inventoryOf(Seen{Name: "a", Node: one, Gone: gone}), live: []Present{there("a", machine("uid-2", "m1", "boot-1"))},
			want: inventoryOf(Seen{Name: "a", Node: machine("uid-2", "m1", "boot-1")})},
		"a machine that registered again under another name": {inventory: inventoryOf(Seen{Name: "a", Node: one}), live: []Present{there("b", machine("uid-2", "m1", "boot-1"))},
			want: inventoryOf(Seen{Name: "b", Node: machine("uid-2", "m1", "boot-1")})},
		"a machine that booted and registered again, and whose Node was deleted for nodeGoneDelay": {inventory: inventoryOf(Seen{Name: "a", Node: one}),
			live: []Present{since(there("a", machine("uid-2", "m1", "boot-2")), now.Add(-5*time.Minute))},
			want: inventoryOf(Seen{Name: "a", Node: machine("uid-2", "m1", "boot-2")})},
		"before that it may be a clone": {inventory: inventoryOf(Seen{Name: "a", Node: one}),
			live: []Present{since(there("a", machine("uid-2", "m1", "boot-2")), now.Add(-time.Minute))},
			want: inventoryOf(Seen{Name: "a", Node: one}, Seen{Name: "a", Node: machine("uid-2", "m1", "boot-2")}), without: 1},
		"and as long as two Nodes have its IDs": {inventory: inventoryOf(Seen{Name: "a", Node: one}),
			live: []Present{since(there("a", machine("uid-2", "m1", "boot-2")), now.Add(-time.Hour)), since(there("b", machine("uid-3", "m1", "boot-3")), now.Add(-time.Hour))},
			want: inventoryOf(Seen{Name: "a", Node: one}, Seen{Name: "a", Node: machine("uid-2", "m1", "boot-2")}, Seen{Name: "b", Node: machine("uid-3", "m1", "boot-3")}), without: 1},
		"another machine under the name": {inventory: inventoryOf(Seen{Name: "a", Node: one}), live: []Present{there("a", machine("uid-2", "m2", "boot-2"))},
			want: inventoryOf(Seen{Name: "a", Node: one}, Seen{Name: "a", Node: machine("uid-2", "m2", "boot-2")}), without: 1},
		"another machine under the very Node UID": {inventory: inventoryOf(Seen{Name: "a", Node: one}), live: []Present{there("a", machine("uid-1", "m2", "boot-2"))},
			want: inventoryOf(Seen{Name: "a", Node: one}, Seen{Name: "a", Node: machine("uid-1", "m2", "boot-2")}), without: 1},
		"a clone that has its boot ID": {inventory: inventoryOf(Seen{Name: "a", Node: one}), live: []Present{there("b", machine("uid-2", "m2", "boot-1"))},
			want: inventoryOf(Seen{Name: "a", Node: one}, Seen{Name: "b", Node: machine("uid-2", "m2", "boot-1")}), without: 1},
		"a clone under its name that has its boot ID": {inventory: inventoryOf(Seen{Name: "a", Node: one}), live: []Present{there("a", machine("uid-2", "m2", "boot-1"))},
			want: inventoryOf(Seen{Name: "a", Node: one}, Seen{Name: "a", Node: machine("uid-2", "m2", "boot-1")}), without: 1},
		"a Node that had not said what machine it is": {inventory: inventoryOf(Seen{Name: "a", Node: v1alpha1.NodeIdentity{UID: "uid-1"}}), live: []Present{there("a", one)},
			want: inventoryOf(Seen{Name: "a", Node: one})},
		"such a Node that went before it did": {inventory: inventoryOf(Seen{Name: "a", Node: v1alpha1.NodeIdentity{UID: "uid-1"}}), live: []Present{there("a", machine("uid-2", "m2", "boot-2"))},
			want: inventoryOf(Seen{Name: "a", Node: v1alpha1.NodeIdentity{UID: "uid-1"}}, Seen{Name: "a", Node: machine("uid-2", "m2", "boot-2")}), without: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			without, _ := tc.inventory.Fold(tc.live, settings(), now)
			if diff := cmp.Diff(tc.want, tc.inventory); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if len(without) != tc.without {
				t.Errorf("without a Node: %v, expected %d", without, tc.without)
			}
			if all := tc.inventory.Nodes(tc.live, nil); len(all) != len(tc.live)+tc.without {
				t.Errorf("%d nodes count, expected %d", len(all), len(tc.live)+tc.without)
			}
			if _, changed := tc.inventory.Fold(tc.live, settings(), now); changed {
				t.Error("the same look again changes the inventory")
			}
		})
	}
}

func TestTracesBringBackWhatNobodyExplains(t *testing.T) {
	trace := Trace{Name: "b", Node: v1alpha1.NodeIdentity{UID: "uid-9", BootID: "boot-9"}}
	one := machine("uid-1", "m1", "boot-1")
	r := inventoryOf(Seen{Name: "a", Node: one})
	if r.Remember([]Trace{{Name: "a", Node: v1alpha1.NodeIdentity{UID: "uid-1", BootID: "boot-0"}}, {Name: "c"}}, []Present{there("a", one)}) {
		t.Errorf("a Node that is on the list, or no Node, was added: %v", r)
	}
	if r.Remember([]Trace{{Name: "d", Node: v1alpha1.NodeIdentity{UID: "uid-4"}}}, []Present{there("d", machine("uid-4", "m4", "boot-4"))}) {
		t.Errorf("a Node that is there was added as a trace: %v", r)
	}
	if !r.Remember([]Trace{trace}, nil) || len(r) != 2 {
		t.Errorf("the trace of a Node that is gone was not added: %v", r)
	}
	if without, _ := r.Fold([]Present{there("a", one)}, settings(), now); len(without) != 1 {
		t.Errorf("without a Node: %v", without)
	}
	if without, _ := r.Fold([]Present{there("a", one), there("e", machine("uid-5", "m5", "boot-9"))}, settings(), now); len(without) != 1 {
		t.Errorf("its boot is that of a Node of another name, which may be a clone: %v", without)
	}
	if without, _ := r.Fold([]Present{there("a", one), there("b", machine("uid-5", "m5", "boot-9"))}, settings(), now); len(without) != 0 {
		t.Errorf("its name and boot are a live Node's, which speaks for it: %v", without)
	}
}

func TestForget(t *testing.T) {
	gone := func(ago time.Duration) *v1alpha1.NodeGone {
		return &v1alpha1.NodeGone{Since: metav1.NewTime(now.Add(-ago))}
	}
	one := machine("uid-1", "m1", "boot-1")
	hold := settings()
	hold.HoldGoneNodes = true
	cases := map[string]struct {
		seen     Seen
		traces   []Trace
		settings Settings
		want     bool
	}{
		"gone for the delay":              {Seen{Name: "a", Node: one, Gone: gone(5 * time.Minute)}, nil, settings(), true},
		"gone for less":                   {Seen{Name: "a", Node: one, Gone: gone(4 * time.Minute)}, nil, settings(), false},
		"there":                           {Seen{Name: "a", Node: one}, nil, settings(), false},
		"gone, and its Lease is left":     {Seen{Name: "a", Node: one, Gone: gone(time.Hour)}, []Trace{{Name: "a", Node: one}}, settings(), false},
		"gone, where that proves nothing": {Seen{Name: "a", Node: one, Gone: gone(time.Hour)}, nil, hold, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := inventoryOf(tc.seen).Forget(tc.traces, tc.settings, now); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestKeysAreKeysOfAConfigMap(t *testing.T) {
	key := KeyOf(machine("1b4e28ba-2fa1-11d2-883f-0016d3cca427", "m", "b"))
	if problems := validation.IsConfigMapKey(key); len(problems) > 0 {
		t.Errorf("%q: %v", key, problems)
	}
	if key != KeyOf(machine("1b4e28ba-2fa1-11d2-883f-0016d3cca427", "m", "c")) {
		t.Error("another boot of a machine has another key")
	}
	if key == KeyOf(machine("1b4e28ba-2fa1-11d2-883f-0016d3cca427", "n", "b")) {
		t.Error("another machine under the Node UID has the same key")
	}
}

func TestFind(t *testing.T) {
	r := inventoryOf(Seen{Name: "a", Node: machine("uid-1", "m1", "boot-1")}, Seen{Name: "a", Node: machine("uid-1", "m2", "boot-2")}, Seen{Name: "b", Node: machine("uid-3", "m3", "boot-3")})
	for name, tc := range map[string]struct {
		uid, boot, want string
	}{
		"by its boot":                    {"uid-1", "boot-2", "m2"},
		"the only machine of a UID":      {"uid-3", "boot-9", "m3"},
		"one of two, in neither's boot":  {"uid-1", "boot-9", ""},
		"a UID that nobody has ever had": {"uid-9", "boot-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if seen, _ := r.Find(types.UID(tc.uid), tc.boot); seen.Node.MachineID != tc.want {
				t.Errorf("got %q, want %q", seen.Node.MachineID, tc.want)
			}
		})
	}
}
