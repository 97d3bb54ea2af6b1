// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"cmp"
	"net/netip"
	"slices"
)

// MaxConflicts bounds what Conflicts finds: an expression that gives each node's object a common subnet makes a pair of every two nodes.
const MaxConflicts = 10_000

const mappedBits = 96 // the prefix of IPv4-mapped IPv6 addresses, RFC 4291 section 2.5.5.2

// Conflicts finds every pair of objects of different nodes with overlapping prefixes, MaxConflicts at most. Objects of no node and invalid prefixes do
// not count. The result is sorted by A and B and has each pair once, with the first prefixes that overlap, masked, an IPv4-mapped one as IPv4.
func Conflicts(holdings []Holding) []Conflict {
	objects := slices.SortedFunc(slices.Values(holdings), func(a, b Holding) int { return compareObjects(&a.Object, &b.Object) })
	type pair struct{ a, b int }
	found := map[pair]int{}
	var conflicts []Conflict
	sweep(claims(objects), func(outer, inner claim) bool {
		a, b := outer, inner
		if a.object > b.object {
			a, b = b, a
		}
		if objects[a.object].Object.NodeName == objects[b.object].Object.NodeName {
			return true
		}
		if i, again := found[pair{a.object, b.object}]; again {
			conflicts[i].More++
			return true
		}
		found[pair{a.object, b.object}] = len(conflicts)
		conflicts = append(conflicts, Conflict{
			A: objects[a.object].Object, B: objects[b.object].Object, PrefixA: a.prefix, PrefixB: b.prefix,
		})
		return len(conflicts) < MaxConflicts
	})
	slices.SortStableFunc(conflicts, func(x, y Conflict) int {
		return cmp.Or(compareObjects(&x.A, &y.A), compareObjects(&x.B, &y.B))
	})
	return conflicts
}

func compareObjects(a, b *Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Resource, b.Resource),
		cmp.Compare(a.UID, b.UID), cmp.Compare(a.NodeName, b.NodeName))
}

// claim is one prefix of one object.
type claim struct {
	prefix netip.Prefix
	object int
}

// claims are the prefixes of all objects, each once per object, wide before narrow.
func claims(objects []Holding) []claim {
	var all []claim
	for i := range objects {
		if objects[i].Object.NodeName == "" {
			continue
		}
		for _, prefix := range objects[i].Prefixes {
			if prefix = Normal(prefix); prefix.IsValid() {
				all = append(all, claim{prefix: prefix, object: i})
			}
		}
	}
	slices.SortFunc(all, func(a, b claim) int {
		return cmp.Or(a.prefix.Addr().Compare(b.prefix.Addr()), cmp.Compare(a.prefix.Bits(), b.prefix.Bits()), cmp.Compare(a.object, b.object))
	})
	return slices.Compact(all)
}

// sweep calls yield for every two claims of which one covers the other, until it returns false. Prefixes nest or are disjoint, so the claims that
// cover the next one are a stack.
func sweep(sorted []claim, yield func(outer, inner claim) bool) {
	var open []claim
	for _, next := range sorted {
		for len(open) > 0 && !open[len(open)-1].prefix.Overlaps(next.prefix) {
			open = open[:len(open)-1]
		}
		for _, outer := range open {
			if !yield(outer, next) {
				return
			}
		}
		open = append(open, next)
	}
}

// Normal is the prefix masked, and an IPv4-mapped one as IPv4, so that one address has one form.
func Normal(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= mappedBits {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p.Masked()
}
