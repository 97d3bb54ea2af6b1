// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

func TestI3SandboxesSeen(t *testing.T) {
	const all, some = v1alpha1.SandboxesSeenAll, v1alpha1.SandboxesSeenSome
	for name, tc := range map[string]struct {
		before    v1alpha1.SandboxesSeen
		sandboxes []string
		seen      ipam.Seen
		want      v1alpha1.SandboxesSeen
	}{
		"the first entry, seen to come":                         {"", nil, ipam.Seen{Whole: true}, all},
		"the first entry, of before the manager watched":        {"", nil, ipam.Seen{}, some},
		"the first entry, in the place of a sandbox nobody saw": {"", nil, ipam.Seen{Whole: true, Follows: "lost"}, some},
		"a later one, in the place of a recorded sandbox":       {all, []string{"first"}, ipam.Seen{Whole: true, Follows: "first"}, all},
		"a later one, in the place of a sandbox nobody saw":     {all, []string{"first"}, ipam.Seen{Whole: true, Follows: "lost"}, some},
		"a later one, after versions that nobody saw":           {all, []string{"first"}, ipam.Seen{}, some},
		"what is missing does not come back":                    {some, []string{"second"}, ipam.Seen{Whole: true}, some},
	} {
		t.Run(name, func(t *testing.T) {
			record := &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{SandboxesSeen: tc.before}}
			for _, id := range tc.sandboxes {
				record.Spec.Sandboxes = append(record.Spec.Sandboxes, v1alpha1.SandboxRecord{ID: id})
			}
			if got := SandboxesSeen(record, &ipam.Entry{Seen: tc.seen}); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
