// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// holding is what object "namespace/name" of a node holds; a string that is no prefix is an invalid one.
func holding(namespace, name, node string, prefixes ...string) Holding {
	h := Holding{Object: Object{Kind: "CiliumNode", Namespace: namespace, Name: name, NodeName: node}}
	for _, s := range prefixes {
		prefix, _ := netip.ParsePrefix(s)
		h.Prefixes = append(h.Prefixes, prefix)
	}
	return h
}

func brief(conflicts []Conflict) []string {
	var lines []string
	for _, c := range conflicts {
		lines = append(lines, fmt.Sprintf("%s/%s(%s) %s = %s/%s(%s) %s, %d more",
			c.A.Namespace, c.A.Name, c.A.NodeName, c.PrefixA, c.B.Namespace, c.B.Name, c.B.NodeName, c.PrefixB, c.More))
	}
	return lines
}

func TestConflicts(t *testing.T) {
	mapped := holding("", "b", "b")
	mapped.Prefixes = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("::ffff:10.0.0.5"), 128)}
	wideMapped := holding("", "b", "b")
	wideMapped.Prefixes = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("::ffff:10.0.0.0"), 120)}
	for name, tc := range map[string]struct {
		holdings []Holding
		want     []string
	}{
		"no object holds an address": {},
		"one object cannot be in conflict": {
			holdings: []Holding{holding("", "a", "a", "10.0.0.0/24", "10.0.0.0/24", "10.0.0.5/32")},
		},
		"neighbors are apart": {
			holdings: []Holding{holding("", "a", "a", "10.0.0.0/24"), holding("", "b", "b", "10.0.1.0/24")},
		},
		"one address under two nodes": {
			holdings: []Holding{holding("", "b", "b", "10.0.0.5/32"), holding("", "a", "a", "10.0.0.5/32")},
			want:     []string{"/a(a) 10.0.0.5/32 = /b(b) 10.0.0.5/32, 0 more"},
		},
		"one IPv6 prefix under two nodes": {
			holdings: []Holding{holding("", "a", "a", "fd00:1::/64"), holding("", "b", "b", "fd00:1::/64")},
			want:     []string{"/a(a) fd00:1::/64 = /b(b) fd00:1::/64, 0 more"},
		},
		"an address in another node's prefix": {
			holdings: []Holding{holding("", "a", "a", "10.0.0.5/32"), holding("", "b", "b", "10.0.0.0/24")},
			want:     []string{"/a(a) 10.0.0.5/32 = /b(b) 10.0.0.0/24, 0 more"},
		},
		"an address behind a gap in another node's prefix": {
			holdings: []Holding{holding("", "a", "a", "10.0.0.200/32"), holding("", "b", "b", "10.0.0.0/24", "10.0.0.8/29")},
			want:     []string{"/a(a) 10.0.0.200/32 = /b(b) 10.0.0.0/24, 0 more"},
		},
		"a prefix that is not masked": {
			holdings: []Holding{holding("", "a", "a", "10.0.0.77/24"), holding("", "b", "b", "10.0.0.5/32")},
			want:     []string{"/a(a) 10.0.0.0/24 = /b(b) 10.0.0.5/32, 0 more"},
		},
		"an IPv4 address in the form of IPv6": {
			holdings: []Holding{holding("", "a", "a", "10.0.0.0/24"), mapped},
			want:     []string{"/a(a) 10.0.0.0/24 = /b(b) 10.0.0.5/32, 0 more"},
		},
		"an IPv4 prefix in the form of IPv6": {
			holdings: []Holding{holding("", "a", "a", "10.0.0.5/32"), wideMapped},
			want:     []string{"/a(a) 10.0.0.5/32 = /b(b) 10.0.0.0/24, 0 more"},
		},
		"all of IPv6 has no IPv4 address": {
			holdings: []Holding{holding("", "a", "a", "::/0"), holding("", "b", "b", "10.0.0.5/32")},
		},
		"two objects of one node share what they like": {
			holdings: []Holding{holding("x", "a", "a", "10.0.0.5/32"), holding("y", "a", "a", "10.0.0.5/32")},
		},
		"an object of no node holds nothing": {
			holdings: []Holding{holding("", "a", "", "10.0.0.5/32"), holding("", "b", "b", "10.0.0.5/32")},
		},
		"an invalid prefix is not looked at": {
			holdings: []Holding{holding("", "a", "a", "none", "10.0.0.5/32"), holding("", "b", "b", "none", "10.0.0.6/32")},
		},
		"two objects that share much are one pair": {
			holdings: []Holding{
				holding("", "a", "a", "10.0.0.7/32", "10.0.0.6/32", "10.0.0.5/32"), holding("", "b", "b", "10.0.0.6/32", "10.0.0.5/32", "10.0.0.7/32"),
			},
			want: []string{"/a(a) 10.0.0.5/32 = /b(b) 10.0.0.5/32, 2 more"},
		},
		"a prefix that an object gives twice counts once": {
			holdings: []Holding{holding("", "a", "a", "10.0.0.5/32", "10.0.0.5/32"), holding("", "b", "b", "10.0.0.5/32")},
			want:     []string{"/a(a) 10.0.0.5/32 = /b(b) 10.0.0.5/32, 0 more"},
		},
		"three nodes are three pairs, sorted by namespace and name": {
			holdings: []Holding{holding("y", "a", "1", "10.0.0.5/32"), holding("x", "b", "2", "10.0.0.5/32"), holding("x", "a", "3", "10.0.0.5/32")},
			want: []string{
				"x/a(3) 10.0.0.5/32 = x/b(2) 10.0.0.5/32, 0 more",
				"x/a(3) 10.0.0.5/32 = y/a(1) 10.0.0.5/32, 0 more",
				"x/b(2) 10.0.0.5/32 = y/a(1) 10.0.0.5/32, 0 more",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			given := slices.Clone(tc.holdings)
			if diff := cmp.Diff(tc.want, brief(Conflicts(tc.holdings))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(given, tc.holdings, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Errorf("what was given was changed: %s", diff)
			}
		})
	}
}

// bounds are the first and the last address of a prefix, in the form of IPv6.
func bounds(p netip.Prefix) (first, last [16]byte) {
	first = p.Addr().As16()
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	last = first
	for bit := bits; bit < 128; bit++ {
		first[bit/8] &^= 1 << (7 - bit%8)
		last[bit/8] |= 1 << (7 - bit%8)
	}
	return first, last
}

func share(a, b netip.Prefix) bool {
	firstA, lastA := bounds(a)
	firstB, lastB := bounds(b)
	return bytes.Compare(firstA[:], lastB[:]) <= 0 && bytes.Compare(firstB[:], lastA[:]) <= 0
}

// overlaps counts what Conflicts has to find, pair by pair.
func overlaps(holdings []Holding) map[[2]string]int {
	type block struct{ first, last [16]byte }
	count := map[[2]string]int{}
	for _, a := range holdings {
		for _, b := range holdings {
			if a.Object.Name >= b.Object.Name || a.Object.NodeName == b.Object.NodeName || a.Object.NodeName == "" || b.Object.NodeName == "" {
				continue
			}
			seen := map[[2]block]bool{}
			for _, p := range a.Prefixes {
				for _, q := range b.Prefixes {
					firstP, lastP := bounds(p)
					firstQ, lastQ := bounds(q)
					if once := [2]block{{firstP, lastP}, {firstQ, lastQ}}; share(p, q) && !seen[once] {
						seen[once] = true
						count[[2]string{a.Object.Name, b.Object.Name}]++
					}
				}
			}
		}
	}
	return count
}

// randomPrefix is one of a small space, in which much overlaps.
func randomPrefix(r *rand.Rand) netip.Prefix {
	v4 := netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(2)), byte(r.IntN(256))})
	switch r.IntN(3) {
	case 0:
		return netip.PrefixFrom(v4, 22+r.IntN(11))
	case 1:
		return netip.PrefixFrom(netip.AddrFrom16(v4.As16()), 96+22+r.IntN(11))
	default:
		a := netip.MustParseAddr("fd00::").As16()
		a[15], a[14] = byte(r.IntN(256)), byte(r.IntN(2))
		return netip.PrefixFrom(netip.AddrFrom16(a), 118+r.IntN(11))
	}
}

func randomHoldings(r *rand.Rand) []Holding {
	holdings := make([]Holding, r.IntN(12))
	for i := range holdings {
		node := ""
		if n := r.IntN(8); n > 0 {
			node = fmt.Sprintf("node-%d", n)
		}
		holdings[i] = holding("", fmt.Sprintf("object-%02d", i), node)
		for range r.IntN(6) {
			holdings[i].Prefixes = append(holdings[i].Prefixes, randomPrefix(r))
		}
	}
	r.Shuffle(len(holdings), func(i, j int) { holdings[i], holdings[j] = holdings[j], holdings[i] })
	return holdings
}

func TestConflictsFindsWhatComparingEveryPairFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(20260301, 42))
	found := 0
	for round := range 3000 {
		holdings := randomHoldings(r)
		got := map[[2]string]int{}
		var order [][2]string
		for _, c := range Conflicts(holdings) {
			pair := [2]string{c.A.Name, c.B.Name}
			got[pair] += 1 + c.More
			order = append(order, pair)
			if !share(c.PrefixA, c.PrefixB) || !holds(holdings, c.A.Name, c.PrefixA) || !holds(holdings, c.B.Name, c.PrefixB) {
				t.Fatalf("round %d: %+v is no conflict of %v", round, c, holdings)
			}
		}
		found += len(got)
		if diff := cmp.Diff(overlaps(holdings), got); diff != "" {
			t.Fatalf("round %d: %v (-want +got):\n%s", round, holdings, diff)
		}
		if !slices.IsSortedFunc(order, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) || len(order) != len(got) {
			t.Fatalf("round %d: not sorted, or a pair is there twice: %v", round, order)
		}
	}
	if found < 1000 {
		t.Errorf("only %d conflicts: the space is too wide to test anything", found)
	}
}

// holds says whether an object was given the prefix, in any form.
func holds(holdings []Holding, name string, prefix netip.Prefix) bool {
	first, last := bounds(prefix)
	return slices.ContainsFunc(holdings, func(h Holding) bool {
		return h.Object.Name == name && slices.ContainsFunc(h.Prefixes, func(p netip.Prefix) bool {
			f, l := bounds(p)
			return f == first && l == last
		})
	})
}

func TestConflictsDoesNotDependOnTheOrderOfWhatItIsGiven(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		holdings := randomHoldings(r)
		want := brief(Conflicts(holdings))
		slices.Reverse(holdings)
		for i := range holdings {
			slices.Reverse(holdings[i].Prefixes)
		}
		if diff := cmp.Diff(want, brief(Conflicts(holdings))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// TestConflictsEnds: a policy whose expression gives every object one common subnet must not take all memory.
func TestConflictsEnds(t *testing.T) {
	var holdings []Holding
	for i := range 2000 {
		name := fmt.Sprintf("node-%04d", i)
		holdings = append(holdings, holding("", name, name, "10.244.0.0/16", fmt.Sprintf("10.244.%d.%d/32", i/256, i%256)))
	}
	conflicts := Conflicts(holdings)
	if len(conflicts) != MaxConflicts {
		t.Errorf("%d conflicts, want %d", len(conflicts), MaxConflicts)
	}
	pairs := map[[2]string]bool{}
	for _, c := range conflicts {
		pairs[[2]string{c.A.Name, c.B.Name}] = true
	}
	if len(pairs) != len(conflicts) {
		t.Errorf("%d pairs in %d conflicts", len(pairs), len(conflicts))
	}
}
