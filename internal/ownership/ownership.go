// SPDX-License-Identifier: Apache-2.0

// Package ownership decides, purely, which pod UID an IPAM entry belongs to. An entry names only a pod by name and a sandbox
// by ID; a name never identifies. So an entry belongs to a UID only by evidence: a record that already ties the sandbox ID
// to it, the pod's own network-status, or an ADD that was watched after the UID was bound. Everything else has no known owner.
package ownership

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Entry is what an IPAM recorded.
type Entry struct {
	IP        netip.Addr
	Interface string
	SandboxID string
	// AddObserved and SeenSince: the entry's ADD happened while we watched, and when we saw it.
	AddObserved bool
	SeenSince   time.Time
}

// Candidate is a pod UID that an entry might belong to: a pod of the entry's name, or the record of one.
type Candidate struct {
	UID types.UID
	// BoundSeen is since when an ADD that this process saw may be one of the pod; zero if it has not seen the pod bound to a node.
	BoundSeen time.Time
	// Shown are the addresses in the pod's network-status; empty interface names match any.
	Shown []Shown
	// ShownAlive are those that it had in the last version of the pod that was seen before its end began.
	ShownAlive []Shown
	// Sandboxes are those that the UID's record already holds, with the evidence on record.
	Sandboxes map[string]v1alpha1.Attribution
	// Addresses are the sandboxes for which the UID's record holds addresses.
	Addresses map[netip.Addr]string
	// Ending: the pod is being deleted, or its phase is terminal.
	Ending bool
	// Resolved: nothing of this UID can still be alive (its record is Released); it is no possible predecessor.
	Resolved bool
}

// Shown is one address in a network-status.
type Shown struct {
	IP        netip.Addr
	Interface string
	// Default: it is the pod's address on the cluster's own network.
	Default bool
}

// Owner is the outcome: a UID with the evidence, or no UID with AttributionNone.
type Owner struct {
	UID         types.UID
	Attribution v1alpha1.Attribution
}

// ShownBy reports whether a network-status shows the entry's address on the entry's interface.
func ShownBy(shown []Shown, entry Entry) bool {
	for _, s := range shown {
		if s.IP == entry.IP && interfaceMatches(s.Interface, entry.Interface) {
			return true
		}
	}
	return false
}

// Strengthened is the evidence for a recorded sandbox with what the pod's network-status showed before the pod's end began. A status that is
// written later may be about a sandbox that the kubelet did not list when it reported termination (docs/decisions/0126).
func Strengthened(recorded v1alpha1.Attribution, shownAlive []Shown, entry Entry) v1alpha1.Attribution {
	if recorded == v1alpha1.AttributionObservedAdd && ShownBy(shownAlive, entry) {
		return v1alpha1.AttributionNetworkStatus
	}
	return recorded
}

// Of attributes one entry. Two candidates with equal claims own nothing: unknown is never guessed. What a ResourceClaim owns is no pod's.
func Of(entry Entry, candidates []Candidate) Owner {
	if KindOf(entry.SandboxID) == KindResourceClaim {
		return Owner{Attribution: v1alpha1.AttributionNone}
	}
	for _, claim := range []func(Entry, Candidate, []Candidate) v1alpha1.Attribution{onRecord, onStatus, onWatch} {
		owners := make([]Owner, 0, 1)
		for _, candidate := range candidates {
			if attribution := claim(entry, candidate, candidates); attribution != v1alpha1.AttributionNone {
				owners = append(owners, Owner{UID: candidate.UID, Attribution: attribution})
			}
		}
		switch len(owners) {
		case 0:
			continue
		case 1:
			return owners[0]
		default:
			return Owner{Attribution: v1alpha1.AttributionNone}
		}
	}
	return Owner{Attribution: v1alpha1.AttributionNone}
}

// onRecord: sandbox IDs never return, so what was once proven stays so.
func onRecord(entry Entry, candidate Candidate, _ []Candidate) v1alpha1.Attribution {
	recorded, ok := candidate.Sandboxes[entry.SandboxID]
	if !ok || recorded == v1alpha1.AttributionNone {
		return v1alpha1.AttributionNone
	}
	return Strengthened(recorded, candidate.ShownAlive, entry)
}

func onStatus(entry Entry, candidate Candidate, _ []Candidate) v1alpha1.Attribution {
	switch {
	case !ShownBy(candidate.Shown, entry):
		return v1alpha1.AttributionNone
	case succeeds(entry, candidate) || candidate.Ending:
		return v1alpha1.AttributionUnconfirmed
	}
	return v1alpha1.AttributionNetworkStatus
}

// onWatch: an ADD that was seen after this UID was seen bound can only be this UID's if no other UID of the name may still
// have a sandbox that is starting.
func onWatch(entry Entry, candidate Candidate, all []Candidate) v1alpha1.Attribution {
	if !entry.AddObserved || candidate.BoundSeen.IsZero() || entry.SeenSince.Before(candidate.BoundSeen) {
		return v1alpha1.AttributionNone
	}
	for i := range all {
		if all[i].UID != candidate.UID && !all[i].Resolved {
			return v1alpha1.AttributionNone
		}
	}
	if succeeds(entry, candidate) {
		return v1alpha1.AttributionUnconfirmed
	}
	return v1alpha1.AttributionObservedAdd
}

// succeeds: the record has the address for an earlier sandbox of the UID. An IPAM gives it to the next one under the pod's name, and the
// network-status that shows it may be the earlier one's (docs/decisions/0118).
func succeeds(entry Entry, candidate Candidate) bool {
	earlier, held := candidate.Addresses[entry.IP]
	return held && earlier != entry.SandboxID
}

// AddressesOf are the sandboxes for which a record holds addresses.
func AddressesOf(record *v1alpha1.IPAllocation) map[netip.Addr]string {
	held := make(map[netip.Addr]string, len(record.Spec.Addresses))
	for i := range record.Spec.Addresses {
		if ip, err := netip.ParseAddr(record.Spec.Addresses[i].IP); err == nil {
			held[ip] = record.Spec.Addresses[i].SandboxID
		}
	}
	return held
}

// interfaceMatches: whereabouts before 0.8 recorded no interface name.
func interfaceMatches(shown, recorded string) bool {
	return recorded == "" || shown == recorded
}
