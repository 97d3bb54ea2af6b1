// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiff(t *testing.T) {
	web0 := Entry{SandboxID: "s0", PodRef: "default/web-0", Interface: "net1"}
	web1 := Entry{SandboxID: "s1", PodRef: "default/web-1", Interface: "net1"}
	recreated := Entry{SandboxID: "s0b", PodRef: "default/web-0", Interface: "net1"}
	tombstone := Entry{SandboxID: "s0", PodRef: "holdfast-releasing/uid-0", Interface: "net1"}
	for name, tc := range map[string]struct {
		before, after map[string]Entry
		removals      []Removal
		adds          bool
	}{
		"nothing changes nothing": {before: map[string]Entry{"1": web0}, after: map[string]Entry{"1": web0}},
		"an ADD takes nothing away": {
			before: map[string]Entry{"1": web0}, after: map[string]Entry{"1": web0, "2": web1}, adds: true,
		},
		"a sandbox re-created under the same reference takes nothing away": {
			before: map[string]Entry{"1": web0}, after: map[string]Entry{"1": recreated}, adds: true,
		},
		"a DEL removes one": {
			before: map[string]Entry{"1": web0, "2": web1}, after: map[string]Entry{"2": web1},
			removals: []Removal{{Offset: "1", Entry: web0}},
		},
		"another reference is a removal": {
			before: map[string]Entry{"1": web0}, after: map[string]Entry{"1": web1},
			removals: []Removal{{Offset: "1", Entry: web0, Rewritten: true, NewPodRef: "default/web-1"}},
		},
		"a tombstone is another reference": {
			before: map[string]Entry{"1": web0}, after: map[string]Entry{"1": tombstone},
			removals: []Removal{{Offset: "1", Entry: web0, Rewritten: true, NewPodRef: "holdfast-releasing/uid-0", SameSandbox: true}},
		},
		"a tombstone for another interface is not that of the same sandbox": {
			before: map[string]Entry{"1": web0}, after: map[string]Entry{"1": {SandboxID: "s0", PodRef: "holdfast-releasing/uid-0", Interface: "net2"}},
			removals: []Removal{{Offset: "1", Entry: web0, Rewritten: true, NewPodRef: "holdfast-releasing/uid-0"}},
		},
		"an entry that moves to another offset is a removal and an addition": {
			before: map[string]Entry{"1": web0}, after: map[string]Entry{"2": web0},
			removals: []Removal{{Offset: "1", Entry: web0}}, adds: true,
		},
		"the deletion of a pool removes all, in the order of the addresses": {
			before:   map[string]Entry{"10": web1, "9": web0},
			removals: []Removal{{Offset: "9", Entry: web0}, {Offset: "10", Entry: web1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			removals, adds := Diff(tc.before, tc.after)
			if diff := cmp.Diff(tc.removals, removals); diff != "" {
				t.Errorf("removals (-want +got):\n%s", diff)
			}
			if adds != tc.adds {
				t.Errorf("adds = %v, want %v", adds, tc.adds)
			}
		})
	}
}
