// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"net/netip"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

func TestI3SandboxesSeen(t *testing.T) {
	const all, some = v1alpha1.SandboxesSeenAll, v1alpha1.SandboxesSeenSome
	address := func(ip, sandbox string) []v1alpha1.AddressRecord {
		return []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "pool", IP: ip, SandboxID: sandbox}}
	}
	const here, elsewhere = "10.0.0.5", "10.0.0.6"
	for name, tc := range map[string]struct {
		before    v1alpha1.SandboxesSeen
		addresses []v1alpha1.AddressRecord
		seen      ipam.Seen
		want      v1alpha1.SandboxesSeen
	}{
		"the first entry, seen to come":                                {"", nil, ipam.Seen{Whole: true}, all},
		"the first entry, of before the manager watched":               {"", nil, ipam.Seen{}, some},
		"the first entry, in the place of a sandbox that was not seen": {"", nil, ipam.Seen{Whole: true, Follows: "lost"}, some},
		"a later one, in the place of a recorded sandbox":              {all, address(here, "first"), ipam.Seen{Whole: true, Follows: "first"}, all},
		"a later one, in the place of a sandbox that was not seen":     {all, address(here, "first"), ipam.Seen{Whole: true, Follows: "lost"}, some},
		"a later one, in the place of a sandbox that is recorded at another address": {
			all, address(elsewhere, "first"), ipam.Seen{Whole: true, Follows: "first"}, some},
		"a later one, after versions that were not seen": {all, address(here, "first"), ipam.Seen{}, some},
		"what is missing does not come back":             {some, address(here, "second"), ipam.Seen{Whole: true}, some},
	} {
		t.Run(name, func(t *testing.T) {
			record := &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{SandboxesSeen: tc.before, Addresses: tc.addresses}}
			entry := &ipam.Entry{Key: ipam.Key{Backend: "whereabouts", Pool: "pool", IP: netip.MustParseAddr(here), SandboxID: "second"}, Seen: tc.seen}
			if got := SandboxesSeen(record, entry); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
