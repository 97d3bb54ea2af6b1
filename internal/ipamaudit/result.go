// SPDX-License-Identifier: Apache-2.0

package ipamaudit

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Result is what was found, with what later results need to know of it.
type Result struct {
	// Findings are in a deterministic order, and their bare claims are not bounded.
	Findings []Finding
	// unbacked are the pod references of reservations that no entry stands behind, once for each, but for those of addresses that
	// their pod shows: these are claims themselves.
	unbacked []string
	// unentered are the addresses that live pods show without an entry of their own.
	unentered []unentered
}

type unentered struct {
	podRef string
	ip     netip.Addr
}

// Scope is what a partial audit is about: it had all facts about these pods and addresses. Two pods meet at an address.
type Scope struct {
	PodRefs   sets.Set[string]
	Addresses sets.Set[netip.Addr]
}

func (s Scope) has(podRef string, ip netip.Addr) bool {
	return s.PodRefs.Has(podRef) || s.Addresses.Has(ip)
}

// With takes over what a later result found in its scope.
func (r Result) With(later Result, scope Scope) Result {
	finding := func(f Finding) bool { return scope.has(f.PodRef, f.IP) }
	merged := Result{
		Findings:  merge(r.Findings, later.Findings, finding),
		unbacked:  merge(r.unbacked, later.unbacked, func(podRef string) bool { return scope.PodRefs.Has(podRef) }),
		unentered: merge(r.unentered, later.unentered, func(u unentered) bool { return scope.has(u.podRef, u.ip) }),
	}
	slices.SortFunc(merged.Findings, compare)
	return merged
}

// merge is what of the earlier lies outside the scope, and what of the later lies in it.
func merge[T any](earlier, later []T, isIn func(T) bool) []T {
	merged := make([]T, 0, len(earlier)+len(later))
	for _, x := range earlier {
		if !isIn(x) {
			merged = append(merged, x)
		}
	}
	for _, x := range later {
		if isIn(x) {
			merged = append(merged, x)
		}
	}
	return merged
}

// Unentered are the pods that show one of the addresses without an entry of their own: no entry leads from the address to them.
func (r Result) Unentered(addresses sets.Set[netip.Addr]) (podRefs []string) {
	for _, u := range r.unentered {
		if addresses.Has(u.ip) {
			podRefs = append(podRefs, u.podRef)
		}
	}
	return podRefs
}

// Bounded are the findings with at most ClaimsPerNamespace bare claims of each namespace, together with the reservations that
// rest on no more.
func (r Result) Bounded() []Finding {
	spare := map[string]int{}
	for i := range r.Findings {
		if r.Findings[i].Bare {
			spare[namespaceOf(r.Findings[i].PodRef)] = ClaimsPerNamespace
		}
	}
	if len(spare) == 0 {
		return r.Findings
	}
	for _, podRef := range r.unbacked {
		spare[namespaceOf(podRef)]--
	}
	bounded := make([]Finding, 0, len(r.Findings))
	for _, f := range r.Findings {
		if f.Bare {
			namespace := namespaceOf(f.PodRef)
			if spare[namespace] <= 0 {
				continue
			}
			spare[namespace]--
		}
		bounded = append(bounded, f)
	}
	return bounded
}

func (b *index) unbacked() (podRefs []string) {
	for i := range b.Reservations {
		r := &b.Reservations[i]
		if !b.standing.Has(r.Name) && !slices.ContainsFunc(b.live[r.PodRef], r.isShownBy) {
			podRefs = append(podRefs, r.PodRef)
		}
	}
	return podRefs
}

func (b *index) unentered() (all []unentered) {
	for i := range b.Pods {
		pod := &b.Pods[i]
		for _, shown := range pod.Shown {
			if b.lacksEntry(pod, shown) {
				all = append(all, unentered{pod.Ref, shown.IP})
			}
		}
	}
	return all
}
