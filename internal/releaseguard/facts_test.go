// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"net/netip"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

func TestHoldsAll(t *testing.T) {
	removed := func(sandbox, podRef, ip string) Case {
		c := Case{Removal: Removal{Entry: Entry{SandboxID: sandbox, PodRef: podRef}}, Address: release.Unknown[netip.Addr]("x")}
		if ip != "" {
			c.Address = release.Known(netip.MustParseAddr(ip))
		}
		return c
	}
	record := &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{Addresses: []v1alpha1.AddressRecord{{Backend: "b", Pool: "p", IP: "10.0.0.1", SandboxID: "s"}}}}
	for name, tc := range map[string]struct {
		cases []Case
		want  bool
	}{
		"the address of its sandbox":               {[]Case{removed("s", "ns/web", "10.0.0.1")}, true},
		"the sandbox at an address that is unread": {[]Case{removed("s", "ns/web", "")}, true},
		"another sandbox at its address":           {[]Case{removed("next", "ns/web", "10.0.0.1")}, false},
		"another address of its sandbox":           {[]Case{removed("s", "ns/web", "10.0.0.2")}, false},
		"one of two":                               {[]Case{removed("s", "ns/web", "10.0.0.1"), removed("next", "ns/web", "10.0.0.2")}, false},
		"beside an entry of another pod":           {[]Case{removed("s", "ns/web", "10.0.0.1"), removed("x", "ns/other", "10.0.0.2")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Write{Backend: "b", Pool: "p", Cases: tc.cases}
			if got := w.HoldsAll(record, "ns/web"); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
