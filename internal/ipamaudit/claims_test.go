// SPDX-License-Identifier: Apache-2.0

package ipamaudit

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// claiming is a pod of a namespace that shows addresses of networks, and may have some of each.
func claiming(namespace, name string, allowed map[string]int, shown ...Shown) Pod {
	p := pod(name)
	p.Ref, p.Allowed = namespace+"/"+name, allowed
	for _, s := range shown {
		s.Interface, s.Managed, s.Reserved = "net1", true, true
		p.Shown = append(p.Shown, s)
	}
	return p
}

// free is the n-th address of a range that no pool has.
func free(network string, n int) Shown {
	return Shown{Network: network, IP: netip.AddrFrom4([4]byte{10, 0, 1, byte(n)})}
}

func TestOnlyClaimsThatAnIPAMCanHaveCausedCount(t *testing.T) {
	all := make([]Shown, 253)
	for i := range all {
		all[i] = free("shared", i+1)
	}
	one := map[string]int{"shared": 1}
	leftOver := Reservation{Name: "ks/10.0.1.9", PodRef: "ns/web", Addresses: []netip.Addr{free("", 9).IP}}
	own := Reservation{Name: "ks/10.0.1.1", PodRef: "ns/web", Addresses: []netip.Addr{free("", 1).IP}}
	outside := free("shared", 1)
	outside.Outside = true
	for name, tc := range map[string]struct {
		pod          Pod
		reservations []Reservation
		want         int
	}{
		"one interface, one range, one address":                 {pod: claiming("ns", "web", one, free("shared", 1)), want: 1},
		"every address of a shared network":                     {pod: claiming("ns", "web", one, all...)},
		"one more than it can have":                             {pod: claiming("ns", "web", one, free("shared", 1), free("shared", 2))},
		"two ranges":                                            {pod: claiming("ns", "web", map[string]int{"shared": 2}, free("shared", 1), free("shared", 2)), want: 2},
		"a network that it does not request":                    {pod: claiming("ns", "web", map[string]int{"own": 1}, free("shared", 1))},
		"too many of one network, with a spare in another":      {pod: claiming("ns", "web", map[string]int{"shared": 1, "own": 4}, free("shared", 1), free("shared", 2))},
		"an address outside of the network's ranges":            {pod: claiming("ns", "web", one, outside)},
		"its record has an address: that one was given":         {pod: with(claiming("ns", "web", one, free("shared", 1)), func(p *Pod) { p.Recorded = []netip.Addr{free("", 7).IP} })},
		"its record has this address":                           {pod: with(claiming("ns", "web", nil, free("shared", 1)), func(p *Pod) { p.Recorded = []netip.Addr{free("", 1).IP} }), want: 1},
		"a reservation was made for another one before":         {pod: claiming("ns", "web", one, free("shared", 1)), reservations: []Reservation{leftOver}},
		"a reservation was made for this very one before":       {pod: claiming("ns", "web", one, free("shared", 1)), reservations: []Reservation{own}, want: 1},
		"a reservation of another pod's changes nothing for it": {pod: claiming("ns", "web", one, free("shared", 1)), reservations: []Reservation{{Name: "ks/x", PodRef: "other/db"}}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := missing(Audit(Facts{Pods: []Pod{tc.pod}, Reservations: tc.reservations, ForRepair: true}))
			if len(got) != tc.want {
				t.Errorf("%d claims count, want %d", len(got), tc.want)
			}
			if shown := missing(Audit(Facts{Pods: []Pod{tc.pod}, Reservations: tc.reservations})); len(shown) != len(tc.pod.Shown) {
				t.Errorf("%d claims are reported where nothing is written, want all %d", len(shown), len(tc.pod.Shown))
			}
		})
	}
}

func missing(findings []Finding) (found []Finding) {
	for _, f := range findings {
		if f.Kind == v1alpha1.ReasonEntryMissing {
			found = append(found, f)
		}
	}
	return found
}

func TestTheClaimsOfANamespaceAreBounded(t *testing.T) {
	var facts Facts
	facts.ForRepair = true
	for i := range 100 {
		facts.Pods = append(facts.Pods, claiming("tenant", fmt.Sprint("web-", i), map[string]int{"shared": 1}, free("shared", i)))
	}
	facts.Pods = append(facts.Pods, claiming("other", "db", map[string]int{"shared": 1}, free("shared", 200)))
	of := map[string]int{}
	for _, f := range missing(Audit(facts)) {
		of[namespaceOf(f.PodRef)]++
	}
	if of["tenant"] != ClaimsPerNamespace || of["other"] != 1 {
		t.Errorf("claims that count: %v, want %d of the tenant and the other's one", of, ClaimsPerNamespace)
	}
	// Reservations that were made for its pods before, and stand for nothing any more, are part of the bound.
	for i := range ClaimsPerNamespace - 1 {
		facts.Reservations = append(facts.Reservations, Reservation{Name: fmt.Sprint("ks/r", i), PodRef: fmt.Sprint("tenant/gone-", i)})
	}
	if got := len(missing(Audit(facts))); got != 1+1 {
		t.Errorf("%d claims count beside %d reservations, want one of each namespace", got, ClaimsPerNamespace-1)
	}
	if got := len(missing(Examine(facts).Findings)); got != 101 { // what is looked at again was within the bound
		t.Errorf("%d claims count before they are bounded, want all", got)
	}
}
