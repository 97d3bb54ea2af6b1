// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

func TestReservationNames(t *testing.T) {
	for name, tc := range map[string]struct {
		pool, rangeText, address string
		known                    bool
		candidates               []string
	}{
		"an unnamed network":                  {"10.0.0.0-24", "10.0.0.0/24", "10.0.0.1", true, []string{"10.0.0.1"}},
		"an unnamed IPv6 network":             {"fd00--0-64", "fd00::0/64", "fd00::1", true, []string{"fd00--1"}},
		"a pool name that ends with a prefix": {"fd00---64", "fd00::/64", "fd00::1", true, []string{"fd00--1"}},
		"an address that ends with a colon":   {"fd00---64", "fd00::/64", "fd00::", true, []string{"fd00--0"}},
		"a named network, or an unnamed one on a node of that name": {
			"blue-10.0.0.0-24", "10.0.0.0/24", "10.0.0.1", true, []string{"10.0.0.1", "blue-10.0.0.1"},
		},
		"a named network on a node: where the network's name ends is ambiguous": {
			"blue-node-a-10.0.0.0-28", "10.0.0.0/28", "10.0.0.1", true,
			[]string{"10.0.0.1", "blue-10.0.0.1", "blue-node-10.0.0.1", "blue-node-a-10.0.0.1"},
		},
		"a pool that an administrator named": {"my-pool", "10.0.0.0/24", "10.0.0.1", false, []string{"10.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNaming(tc.pool, tc.rangeText)
			if n.known != tc.known {
				t.Errorf("known: got %t, want %t", n.known, tc.known)
			}
			if got := n.candidates(netip.MustParseAddr(tc.address)); n.known && !slices.Equal(got, tc.candidates) {
				t.Errorf("candidates: got %q, want %q", got, tc.candidates)
			}
		})
	}
}

func TestWhoseReservationItIs(t *testing.T) {
	unnamed, blue := newNaming("10.0.0.0-24", "10.0.0.0/24"), newNaming("blue-10.0.0.0-24", "10.0.0.0/24")
	slice := newNaming("blue-node-a-10.0.0.0-24", "10.0.0.0/24")
	own := newNaming("my-pool", "10.0.0.0/24")
	for name, tc := range map[string]struct {
		naming                     naming
		reservation, podRef, iface string
		keyInterface               string
		anyPodRef, want            bool
	}{
		"ours":                                             {unnamed, "10.0.0.1", "ns/web-0", "net1", "net1", false, true},
		"ours, in a named network":                         {blue, "blue-10.0.0.1", "ns/web-0", "net1", "net1", false, true},
		"ours, in a named network's slice":                 {slice, "blue-10.0.0.1", "ns/web-0", "net1", "net1", false, true},
		"ours, in an unnamed one's slice":                  {slice, "10.0.0.1", "ns/web-0", "net1", "net1", false, true},
		"ours, of a pool with any name":                    {own, "red-10.0.0.1", "ns/web-0", "net1", "net1", false, true},
		"of another pod":                                   {unnamed, "10.0.0.1", "ns/web-1", "net1", "net1", false, false},
		"of another pod, where any pod counts":             {unnamed, "10.0.0.1", "ns/web-1", "net1", "net1", true, true},
		"ours, and marked":                                 {unnamed, "10.0.0.1", "holdfast-releasing/ns.web-0", "net1", "net1", false, true},
		"marked, of another pod":                           {unnamed, "10.0.0.1", "holdfast-releasing/ns.web-1", "net1", "net1", false, false},
		"of another interface":                             {unnamed, "10.0.0.1", "ns/web-0", "net2", "net1", false, false},
		"of another address":                               {unnamed, "10.0.0.11", "ns/web-0", "net1", "net1", false, false},
		"of an address that ends alike":                    {unnamed, "110.0.0.1", "ns/web-0", "net1", "net1", false, false},
		"of another network":                               {blue, "red-10.0.0.1", "ns/web-0", "net1", "net1", false, false},
		"of a network that begins alike":                   {blue, "blu-10.0.0.1", "ns/web-0", "net1", "net1", false, false},
		"of a named network, ours is not":                  {unnamed, "blue-10.0.0.1", "ns/web-0", "net1", "net1", false, false},
		"without an interface, same name":                  {blue, "blue-10.0.0.1", "ns/web-0", "", "net1", false, true},
		"without an interface, perhaps of another network": {blue, "10.0.0.1", "ns/web-0", "", "net1", false, false},
		"an entry without one, same name":                  {blue, "blue-10.0.0.1", "ns/web-0", "net1", "", false, true},
		"an entry without one, perhaps of another network": {slice, "blue-10.0.0.1", "ns/web-0", "net1", "", false, false},
		"of any pod, but on another interface, is not":     {unnamed, "10.0.0.1", "ns/web-1", "net2", "net1", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			key := ipam.Key{IP: netip.MustParseAddr("10.0.0.1"), PodRef: "ns/web-0", Interface: tc.keyInterface}
			r := ipam.Reservation{Name: "kube-system/" + tc.reservation, PodRef: tc.podRef, Interface: tc.iface}
			if got := tc.naming.owns(r, key, tc.anyPodRef); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
