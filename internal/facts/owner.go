// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// Candidate is a pod UID to which an entry might belong, by its object and its record; each may be nil. The caller adds what was observed.
func Candidate(uid types.UID, pod *corev1.Pod, record *v1alpha1.IPAllocation) ownership.Candidate {
	candidate := ownership.Candidate{UID: uid}
	if pod != nil {
		candidate.Shown, candidate.Ending = Shown(pod), IsEnding(pod)
	}
	if record != nil {
		candidate.Sandboxes, candidate.Addresses = map[string]v1alpha1.Attribution{}, ownership.AddressesOf(record)
		for i := range record.Spec.Sandboxes {
			candidate.Sandboxes[record.Spec.Sandboxes[i].ID] = record.Spec.Sandboxes[i].Attribution
		}
	}
	return candidate
}

// NewCandidate makes the candidate of a UID: Candidate, with what the caller observed of it.
type NewCandidate func(uid types.UID, pod *corev1.Pod, record *v1alpha1.IPAllocation) ownership.Candidate

// Candidates are the UIDs of a pod name that an entry might belong to: the one that is asked for, those of other records, and the pod of another
// UID that has the name now; nil if there is none.
func Candidates(records []v1alpha1.IPAllocation, ref ipam.PodRef, of ownership.Candidate, sameName *corev1.Pod, candidate NewCandidate) []ownership.Candidate {
	candidates := []ownership.Candidate{of}
	for i := range records {
		r := &records[i]
		if r.Name == string(of.UID) || r.IsOrphan() || !isNamed(r, ref) {
			continue
		}
		var pod *corev1.Pod
		if sameName != nil && string(sameName.UID) == r.Name {
			pod, sameName = sameName, nil
		}
		candidates = append(candidates, candidate(types.UID(r.Name), pod, r))
	}
	if sameName != nil {
		candidates = append(candidates, candidate(sameName.UID, sameName, nil))
	}
	return candidates
}

// Elsewhere are the UIDs of other pod names of which a record has the sandbox of an entry. whereabouts changes an entry's sandbox ID
// unjudged, so the ID may be that of another pod's sandbox; it stays that pod's.
func Elsewhere(records []v1alpha1.IPAllocation, ref ipam.PodRef, sandbox string, candidate NewCandidate) []ownership.Candidate {
	var others []ownership.Candidate
	for i := range records {
		r := &records[i]
		has := slices.ContainsFunc(r.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == sandbox })
		if has && !r.IsOrphan() && !isNamed(r, ref) {
			others = append(others, candidate(types.UID(r.Name), nil, r))
		}
	}
	return others
}

func isNamed(record *v1alpha1.IPAllocation, ref ipam.PodRef) bool {
	return ipam.PodRef{Namespace: record.Spec.PodNamespace, Name: record.Spec.PodName} == ref
}

// Attribute says whether an entry belongs to a UID of the pod ref, and by which evidence.
func Attribute(uid types.UID, ref ipam.PodRef, record *v1alpha1.IPAllocation, entry *ipam.Entry, candidates []ownership.Candidate) (held Held, ours bool) {
	held = Held{Entry: *entry}
	switch {
	case entry.Releasing != "":
		held.Attribution = AttributionOf(record, entry.SandboxID)
		ours = entry.Releasing == string(uid)
		if address := RecordedAddress(record, entry.Key); address != nil {
			held.PodRef = address.PodRef
		} else if ours { // a late cache showed the pool without the entry, and the record lost it
			held.PodRef = ref.String()
		}
		return held, ours
	case entry.Owner == nil: // it names no pod, so only a record can attribute its sandbox
		held.Attribution = AttributionOf(record, entry.SandboxID)
		return held, held.Attribution != v1alpha1.AttributionNone
	case *entry.Owner != ref:
		// A name never identifies, but another name excludes: the recorded address has another owner by now.
		return held, false
	}
	owner := ownership.Of(ownership.Entry{IP: entry.IP, Interface: entry.Interface, SandboxID: entry.SandboxID,
		AddObserved: entry.AddObserved, SeenSince: entry.SeenSince}, candidates)
	held.Attribution = owner.Attribution
	return held, owner.UID == uid
}

// IsUnowned says whether the entry has the name of a pod that is being deleted, or is deleted, and no pod UID can be shown to own it. next is the pod
// that has the name of a deleted one, read after the entry; nil if there is none. Once it is bound, the entry may be its own.
func IsUnowned(pod, next *corev1.Pod, ref ipam.PodRef, held *Held) bool {
	mayBeNext := next != nil && next.Spec.NodeName != ""
	if (pod != nil && pod.DeletionTimestamp == nil) || (pod == nil && mayBeNext) {
		return false
	}
	return held.Owner != nil && *held.Owner == ref && held.Releasing == "" &&
		held.Attribution == v1alpha1.AttributionNone && ownership.KindOf(held.SandboxID) == ownership.KindSandbox
}

// Shows says whether the pod is live and its network-status has the address of the entry; pod may be nil.
func Shows(pod *corev1.Pod, held *Held) bool {
	return pod != nil && pod.DeletionTimestamp == nil && !held.Superseded && ShowsAddress(pod, held.Key)
}

// ShowsAddress says whether the network-status of the pod has an address; pod may be nil.
func ShowsAddress(pod *corev1.Pod, key ipam.Key) bool {
	return pod != nil && ownership.ShownBy(Shown(pod), ownership.Entry{IP: key.IP, Interface: key.Interface})
}

// Holds says whether a record has the address of the key for another sandbox.
func Holds(record *v1alpha1.IPAllocation, key ipam.Key) bool {
	return slices.ContainsFunc(record.Spec.Addresses, func(a v1alpha1.AddressRecord) bool {
		return a.Backend == key.Backend && a.Pool == key.Pool && a.IP == key.IP.String() && a.SandboxID != key.SandboxID
	})
}

// Rivals are the names of the other records that hold an address for another sandbox.
func Rivals(records []v1alpha1.IPAllocation, own string, key ipam.Key) []string {
	var others []string
	for i := range records {
		if records[i].Name != own && Holds(&records[i], key) {
			others = append(others, records[i].Name)
		}
	}
	return others
}
