// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// withEntries is a backend that has seen pools: "name range entries".
func withEntries(t *testing.T, pools ...string) *Backend {
	t.Helper()
	b := New(Options{})
	for _, text := range pools {
		var name, cidr string
		var entries int
		if _, err := fmt.Sscan(text, &name, &cidr, &entries); err != nil {
			t.Fatal(err)
		}
		all := map[string]wb.IPAllocation{}
		for i := range entries {
			all[formatOffset(uint64(i+1))] = taken(fmt.Sprintf("sandbox-%d", i), fmt.Sprintf("ns/pod-%d", i))
		}
		b.index.apply(newPool(name, cidr, "1", all), time.Time{})
	}
	return b
}

func TestUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		pools, configs []string
		want           []ipam.RangeUse
	}{
		"without a configuration every usable address counts": {
			pools: []string{"10.0.0.0-24 10.0.0.0/24 127"},
			want:  []ipam.RangeUse{{Range: "10.0.0.0/24", Addresses: 254, Entries: 127, Fullest: .5}},
		},
		"a configuration limits what may be handed out": {
			pools:   []string{"10.0.0.0-24 10.0.0.0/24 5"},
			configs: []string{macvlan(`"range":"10.0.0.0/24","range_start":"10.0.0.10","range_end":"10.0.0.19"`)},
			want:    []ipam.RangeUse{{Range: "10.0.0.0/24", Addresses: 10, Entries: 5, Fullest: .5}},
		},
		"so does the form start-end/bits": {
			pools:   []string{"10.0.0.0-24 10.0.0.0/24 5"},
			configs: []string{macvlan(`"range":"10.0.0.10-10.0.0.19/24"`)},
			want:    []ipam.RangeUse{{Range: "10.0.0.0/24", Addresses: 10, Entries: 5, Fullest: .5}},
		},
		"networks and single addresses are excluded": {
			pools:   []string{"10.0.0.0-24 10.0.0.0/24 0"},
			configs: []string{macvlan(`"range":"10.0.0.0/24","exclude":["10.0.0.128/25","10.0.0.1"]`)},
			want:    []ipam.RangeUse{{Range: "10.0.0.0/24", Addresses: 126}},
		},
		"what one of two definitions of a range allows may be handed out": {
			pools: []string{"10.0.0.0-24 10.0.0.0/24 0"},
			configs: []string{macvlan(`"range":"10.0.0.0/24","range_start":"10.0.0.10","range_end":"10.0.0.19"`),
				macvlan(`"range":"10.0.0.0/24","range_start":"10.0.0.15","range_end":"10.0.0.24"`)},
			want: []ipam.RangeUse{{Range: "10.0.0.0/24", Addresses: 15}},
		},
		"a range in a list of plugins and of ranges counts": {
			pools:   []string{"10.0.0.0-24 10.0.0.0/24 0", "fd00---120 fd00::/120 0"},
			configs: []string{`{"plugins":[` + macvlan(`"ipRanges":[{"range":"10.0.0.0/24","range_end":"10.0.0.9"},{"range":"fd00::/120","range_start":"fd00::f0"}]`) + `]}`},
			want:    []ipam.RangeUse{{Range: "10.0.0.0/24", Addresses: 9}, {Range: "fd00::/120", Addresses: 15}},
		},
		"a network of another name says nothing about the range": {
			pools:   []string{"blue-10.0.0.0-24 10.0.0.0/24 0", "10.0.0.0-24 10.0.0.0/24 0"},
			configs: []string{macvlan(`"range":"10.0.0.0/24","range_end":"10.0.0.9","network_name":"blue"`)},
			want:    []ipam.RangeUse{{Range: "10.0.0.0/24", Addresses: 254}, {Network: "blue", Range: "10.0.0.0/24", Addresses: 9}},
		},
		"the slices of all nodes are one range, in which the fullest slice counts": {
			pools:   []string{"blue-node-a-10.0.0.0-28 10.0.0.0/28 14", "blue-node-b-10.0.0.16-28 10.0.0.16/28 0"},
			configs: []string{macvlan(`"range":"10.0.0.0/16","node_slice_size":"/28","network_name":"blue","exclude":["10.0.0.0/24"]`)},
			want:    []ipam.RangeUse{{Network: "blue", Range: "10.0.0.0/16", Addresses: 28, Entries: 14, Fullest: 1}},
		},
		"the slice of another network is none of this one's": {
			pools:   []string{"green-node-a-10.0.0.0-28 10.0.0.0/28 7"},
			configs: []string{macvlan(`"range":"10.0.0.0/16","node_slice_size":"28","network_name":"blue"`)},
			want:    []ipam.RangeUse{{Range: "10.0.0.0/28", Addresses: 14, Entries: 7, Fullest: .5}},
		},
		"slices of a network without a name are known by their size": {
			pools:   []string{"node-a-10.0.0.0-28 10.0.0.0/28 7", "10.0.0.16-28 10.0.0.16/28 1", "node-a-10.0.0.0-24 10.0.0.0/24 1"},
			configs: []string{macvlan(`"range":"10.0.0.0/16","node_slice_size":"28"`)},
			want: []ipam.RangeUse{{Range: "10.0.0.0/16", Addresses: 14, Entries: 7, Fullest: .5}, {Range: "10.0.0.0/24", Addresses: 254, Entries: 1, Fullest: 1. / 254},
				{Range: "10.0.0.16/28", Addresses: 14, Entries: 1, Fullest: 1. / 14}},
		},
		"of two networks that a slice may be of the longer name counts, in any order": {
			pools: []string{"blue-sky-node-a-10.0.0.0-28 10.0.0.0/28 7"},
			configs: []string{macvlan(`"range":"10.0.0.0/16","node_slice_size":"28","network_name":"blue-sky"`), macvlan(`"range":"10.0.0.0/16","node_slice_size":"28"`),
				macvlan(`"range":"10.0.0.0/16","node_slice_size":"28","network_name":"blue"`)},
			want: []ipam.RangeUse{{Network: "blue-sky", Range: "10.0.0.0/16", Addresses: 14, Entries: 7, Fullest: .5}},
		},
		"a pool whose name was made by hand is a range of its own, and names no node": {
			pools:   []string{"by-hand 10.0.0.0/28 1"},
			configs: []string{macvlan(`"range":"10.0.0.0/28","range_end":"10.0.0.2","network_name":"by-hand"`)},
			want:    []ipam.RangeUse{{Range: "10.0.0.0/28", Addresses: 14, Entries: 1, Fullest: 1. / 14}},
		},
		"a configuration that cannot be read says nothing": {
			pools: []string{"10.0.0.0-28 10.0.0.0/28 1"},
			configs: []string{"{", macvlan(`"range":7`), macvlan(`"range":"10.0.0.0"`), macvlan(`"range":"10.0.0.0/28","range_end":"10.0.0.2","exclude":["x"]`),
				`{"ipam":{"type":"host-local","range":"10.0.0.0/28","range_end":"10.0.0.2"}}`},
			want: []ipam.RangeUse{{Range: "10.0.0.0/28", Addresses: 14, Entries: 1, Fullest: 1. / 14}},
		},
		"a pool without any usable address is full with one entry": {
			pools: []string{"10.0.0.0-31 10.0.0.0/31 1", "10.0.0.4-32 10.0.0.4/32 0"},
			want:  []ipam.RangeUse{{Range: "10.0.0.0/31", Entries: 1, Fullest: 1}, {Range: "10.0.0.4/32"}},
		},
		"a pool whose range cannot be read is not measured": {pools: []string{"broken 10.0.0.1/24 3"}, want: []ipam.RangeUse{}},
		"of a large range counts what can be recorded": {
			pools: []string{"fd00---48 fd00::/48 1"},
			want:  []ipam.RangeUse{{Range: "fd00::/48", Addresses: math.MaxInt64, Entries: 1, Fullest: 1. / math.MaxInt64}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, withEntries(t, tc.pools...).Usage(tc.configs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for i, j := 0, len(tc.configs)-1; i < j; i, j = i+1, j-1 {
				tc.configs[i], tc.configs[j] = tc.configs[j], tc.configs[i]
			}
			if diff := cmp.Diff(tc.want, withEntries(t, tc.pools...).Usage(tc.configs)); diff != "" {
				t.Errorf("with the configurations in reverse (-want +got):\n%s", diff)
			}
		})
	}
}

// handedOut walks through a pool address by address, as whereabouts does (IterateForAssignment, pkg/allocate), and says of each whether some
// configuration hands it out.
func handedOut(pool netip.Prefix, ranges []configuredRange) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	first := pool.Addr().Next()
	last := first
	for pool.Contains(last.Next()) && pool.Contains(last.Next().Next()) {
		last = last.Next()
	}
	for _, r := range ranges {
		from, to := first, last
		inside := func(a netip.Addr) bool { return a.IsValid() && a.Compare(from) >= 0 && a.Compare(to) <= 0 }
		if inside(r.start) {
			from = r.start
		}
		if inside(r.end) {
			to = r.end
		}
	walk:
		for a := from; a.Compare(to) <= 0; a = a.Next() {
			for _, excluded := range r.excluded {
				if excluded.Contains(a) {
					continue walk
				}
			}
			all[a] = true
		}
	}
	return all
}

func TestCapacityAgreesWithAWalkThroughTheRange(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func() netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(80))}) }
	for range 5000 {
		pool := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, 0}), 26+r.IntN(5))
		ranges := make([]configuredRange, 1+r.IntN(3))
		for i := range ranges {
			ranges[i].subnet = pool
			if r.IntN(2) == 0 {
				ranges[i].start = random()
			}
			if r.IntN(2) == 0 {
				ranges[i].end = random()
			}
			for range r.IntN(4) {
				ranges[i].excluded = append(ranges[i].excluded, netip.PrefixFrom(random(), 25+r.IntN(8)).Masked())
			}
		}
		_, got := measure(newNaming(strings.ReplaceAll(pool.String(), "/", "-"), pool.String()), pool, ranges)
		if want := float64(len(handedOut(pool, ranges))); got != want {
			t.Fatalf("%s with %+v: got %v addresses, expected %v", pool, ranges, got, want)
		}
	}
}
