// SPDX-License-Identifier: Apache-2.0

package ipamaudit

import (
	"net/netip"
	"slices"
	"strings"
)

// ClaimsPerNamespace bounds the reservations that rest on nothing but the annotations of a namespace's pods. whereabouts gives up
// an ADD after a hundred reserved addresses.
const ClaimsPerNamespace = 16

// A claim is an address that a live pod shows and that no pool has for it. A pod's owner can write any network-status, so a claim
// counts only where an IPAM could have given the address, and no more often than it could have.

// Claimed are the claims of a pod that count: what its record has too, and otherwise the addresses of networks that it requests,
// where all that it claims of a network, and of all together, is no more than it can have been given. reserved is how many
// reservations it has beside those.
func (p *Pod) Claimed(claims []Shown, reserved int) []Shown {
	var recorded, bare []Shown
	ofNetwork := map[string]int{}
	for _, claim := range claims {
		if slices.Contains(p.Recorded, claim.IP) {
			recorded = append(recorded, claim)
			continue
		}
		bare = append(bare, claim)
		ofNetwork[claim.Network]++
	}
	left := -len(p.Recorded) - reserved
	for _, allowed := range p.Allowed {
		left += allowed
	}
	if len(bare) > left {
		return recorded
	}
	for _, claim := range bare {
		if !claim.Outside && ofNetwork[claim.Network] <= p.Allowed[claim.Network] {
			recorded = append(recorded, claim)
		}
	}
	return recorded
}

// claimed are those of all pods' claims that count.
func (b *index) claimed() []Finding {
	var findings []Finding
	for i := range b.Pods {
		pod := &b.Pods[i]
		claims := b.claimsOf(pod)
		if len(claims) == 0 || pod.Restarting {
			continue
		}
		for _, claim := range pod.Claimed(claims, len(b.leftOver(pod))) {
			findings = append(findings, b.entryMissing(Finding{PodRef: pod.Ref, UID: pod.UID, IP: claim.IP, Interface: claim.Interface,
				Network: claim.Network, Bare: !slices.Contains(pod.Recorded, claim.IP)})...)
		}
	}
	return findings
}

// claimsOf are the addresses that a pod shows without an entry.
func (b *index) claimsOf(pod *Pod) (claims []Shown) {
	for _, shown := range pod.Shown {
		if shown.Managed && !b.Doubtful.Has(pod.Ref) && b.entryOf(pod, shown) == nil {
			claims = append(claims, shown)
		}
	}
	return claims
}

// leftOver are a pod's reservations that stand neither for an entry nor for an address that it shows.
func (b *index) leftOver(pod *Pod) (left []*Reservation) {
	for _, r := range b.reservedFor[pod.Ref] {
		if !b.standing.Has(r.Name) && !r.isShownBy(pod) {
			left = append(left, r)
		}
	}
	return left
}

func (r *Reservation) isShownBy(pod *Pod) bool {
	return slices.ContainsFunc(pod.Shown, func(s Shown) bool { return slices.Contains(r.Addresses, s.IP) })
}

func namespaceOf(podRef string) string {
	namespace, _, _ := strings.Cut(podRef, "/")
	return namespace
}

// Within reports whether one of a network's ranges has an address. Where no range is known, any may.
func Within(ranges []netip.Prefix, ip netip.Addr) bool {
	return len(ranges) == 0 || slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(ip) })
}
