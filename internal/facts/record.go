// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// endings are the terminations in records.
var endings = map[v1alpha1.KubeletEnding]release.Ending{
	v1alpha1.EndingFinished: release.EndingFinished, v1alpha1.EndingCompleted: release.EndingCompleted, v1alpha1.EndingRejected: release.EndingRejected,
}

// Recorded is the pod by its record, which may be nil.
func Recorded(record *v1alpha1.IPAllocation) release.Pod {
	last := release.Pod{Deleting: true, Ending: release.EndingNone}
	if record == nil {
		return last
	}
	last.Bound = record.Spec.NodeName != ""
	if report := record.Spec.Kubelet; report != nil {
		if ending, known := endings[report.Ending]; known {
			last.Ending = ending
		}
	}
	last.Remember(record)
	return last
}

// Ending is the termination that the kubelet reported, by the record or the pod: a recorded proof stays valid.
func Ending(pod release.Fact[release.Pod], record *v1alpha1.IPAllocation) release.Ending {
	if recorded := Recorded(record).Ending; recorded == release.EndingFinished || !pod.IsKnown() {
		return recorded
	}
	return pod.Get().Ending
}

// AsItIs is the pod by its object or, once that is deleted, by its record.
func AsItIs(pod release.Fact[release.Pod], record *v1alpha1.IPAllocation) release.Pod {
	if !pod.IsKnown() {
		return Recorded(record)
	}
	known := pod.Get()
	known.Ending = Ending(pod, record)
	if record != nil {
		known.Remember(record)
	}
	return known
}

// Machine is the recorded machine of a sandbox.
func Machine(record *v1alpha1.IPAllocation, sandbox string) release.Fact[release.Machine] {
	if s := recordedSandbox(record, sandbox); s != nil && s.Node != nil {
		return release.Known(release.MachineOf(*s.Node))
	}
	return release.Unknown[release.Machine]("no live read of the node has succeeded since its entry was seen")
}

// AttributionOf is the recorded evidence that ties a sandbox to the UID.
func AttributionOf(record *v1alpha1.IPAllocation, sandbox string) v1alpha1.Attribution {
	if s := recordedSandbox(record, sandbox); s != nil {
		return s.Attribution
	}
	return v1alpha1.AttributionNone
}

func recordedSandbox(record *v1alpha1.IPAllocation, sandbox string) *v1alpha1.SandboxRecord {
	if record == nil {
		return nil
	}
	at := slices.IndexFunc(record.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == sandbox })
	if at < 0 {
		return nil
	}
	return &record.Spec.Sandboxes[at]
}

// Attributed is the best evidence for a sandbox of the UID: the observation of its ADD, or better that the agent of its node saw it with this UID.
func Attributed(record *v1alpha1.IPAllocation, queries *Queries, uid types.UID, sandbox string, known v1alpha1.Attribution) v1alpha1.Attribution {
	machine := Machine(record, sandbox)
	if release.OnlyWatched(known) && machine.IsKnown() && queries.hasSeen(machine.Get().NodeUID, sandbox, uid) {
		return v1alpha1.AttributionAgentSeen
	}
	return known
}

// LacksRoom says whether a record has no room for an address that it does not have. It gets room once an earlier sandbox is proven gone; until then the
// sandbox of that address is not judged (docs/decisions/0319).
func LacksRoom(record *v1alpha1.IPAllocation, key ipam.Key) bool {
	if record == nil || RecordedAddress(record, key) != nil {
		return false
	}
	hasSandbox := slices.ContainsFunc(record.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == key.SandboxID })
	return len(record.Spec.Addresses) >= v1alpha1.MaxAddresses || !hasSandbox && len(record.Spec.Sandboxes) >= v1alpha1.MaxSandboxes
}

// RecordedAddress is the recorded address of the key's sandbox; nil if there is none.
func RecordedAddress(record *v1alpha1.IPAllocation, key ipam.Key) *v1alpha1.AddressRecord {
	if record == nil {
		return nil
	}
	for i := range record.Spec.Addresses {
		a := &record.Spec.Addresses[i]
		if a.Backend == key.Backend && a.Pool == key.Pool && a.IP == key.IP.String() && a.SandboxID == key.SandboxID {
			return a
		}
	}
	return nil
}

// Unreadable says why a pool in which the record has an address cannot be read; empty if all can. A single unreadable entry holds no pod: it is
// reported by itself.
func Unreadable(record *v1alpha1.IPAllocation, problems []ipam.Problem) string {
	if record == nil {
		return ""
	}
	for i := range problems {
		inPool := func(a v1alpha1.AddressRecord) bool {
			return a.Backend == problems[i].Backend && a.Pool == problems[i].Pool
		}
		if problems[i].Offset == "" && slices.ContainsFunc(record.Spec.Addresses, inPool) {
			return "pool " + problems[i].Pool + ", in which it holds an address, cannot be read: " + problems[i].Message
		}
	}
	return ""
}

// SandboxesSeen says which of the pod's sandboxes a record has once it has the entry too: all of them only if the entry was seen to replace none, or a
// recorded one at this address. A sandbox with two addresses may have lost one before it was recorded.
func SandboxesSeen(record *v1alpha1.IPAllocation, entry *ipam.Entry) v1alpha1.SandboxesSeen {
	before := entry.Key
	before.SandboxID = entry.Follows
	if !entry.Whole || record.Spec.SandboxesSeen == v1alpha1.SandboxesSeenSome || (entry.Follows != "" && RecordedAddress(record, before) == nil) {
		return v1alpha1.SandboxesSeenSome
	}
	return v1alpha1.SandboxesSeenAll
}
