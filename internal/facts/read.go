// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Read is what was read of one pod UID.
type Read struct {
	// Evidence, Settings and GuardsClusterNetwork are configuration.
	Evidence             release.Evidence
	Settings             release.Settings
	GuardsClusterNetwork bool
	// UID is the pod's. Live and Withholds are as in release.Observation.
	UID             types.UID
	Live, Withholds bool
	// Pod is the converted object (see Pod), and Object the object; nil if it is deleted or could not be read.
	Pod    release.Fact[release.Pod]
	Object *corev1.Pod
	// Record is nil if there is none.
	Record *v1alpha1.IPAllocation
	// Held are the entries that belong to the UID, and HeldRead says why they could not be read.
	Held     []Held
	HeldRead release.Fact[struct{}]
	// Unowned are the entries under the name of a pod that is being deleted, or is deleted, which no pod UID can be shown to own.
	Unowned []Held
	// Disowning is as in release.Observation.
	Disowning bool
	// Queries are those about the record, read after it and before the Node.
	Queries Queries
	// Node is only needed if NeedsNode is true.
	Node release.Fact[release.Node]
	// Gone is since when the GoneMachines, or the Node of the name, are gone.
	Gone release.Fact[nodelife.Absence]
	// PoliciesSince, ReachedSince and Twin are as in release.Observation.
	PoliciesSince, ReachedSince time.Time
	Twin                        string
}

// Held is one IPAM entry of a pod UID, or a recorded address whose sandbox still has to be proven gone.
type Held struct {
	ipam.Entry
	Attribution v1alpha1.Attribution
	// Conflict: the address also belongs to another UID, which is not proven gone.
	Conflict bool
	// Quiet: the conflict is only with pods that are within their grace period or have just ended, or with sandboxes that this pod has just disowned.
	Quiet bool
	// Superseded: the pool has the address for another sandbox by now; only the record has it for this UID.
	Superseded bool
	// Followed: superseded, and by a later sandbox of the same UID.
	Followed bool
	// Removed: superseded, and the pool has no entry. The pod is deleted, or a later sandbox of it had the address, and the sandbox is not proven
	// gone.
	Removed bool
}

// NeedsNode says whether the Node has to be read: the pod is deleted, being deleted or terminated, or a query to the node may be due.
func (r *Read) NeedsNode() bool {
	if r.endedEmpty() {
		return false
	}
	return !r.Pod.IsKnown() || r.Pod.Get().Deleting || Ending(r.Pod, r.Record).ByKubelet() || (r.Evidence == release.EvidenceAgent && len(r.Held) > 0) ||
		slices.ContainsFunc(r.Held, func(held Held) bool { return held.Superseded })
}

// gotAnother says whether others took the address of a sandbox's entry over, and a later sandbox of the UID has another one for its interface: an IPAM
// gives a sandbox one for each interface, so the later one does not use this one (docs/decisions/0317).
func (r *Read) gotAnother(taken *Held, s *release.Sandbox) bool {
	recorded := RecordedAddress(r.Record, taken.Key)
	if !taken.Superseded || taken.Removed || recorded == nil || recorded.Interface == "" || r.mayShow(taken) {
		return false
	}
	return slices.ContainsFunc(r.Held, func(later Held) bool {
		a := RecordedAddress(r.Record, later.Key)
		return !later.Superseded && later.Releasing == "" && a != nil && isNextAt(recorded, a) && r.isOnlyOther(later.SandboxID, s)
	})
}

// isNextAt says whether another sandbox had its address later, from the same pool for the same interface.
func isNextAt(a, next *v1alpha1.AddressRecord) bool {
	return next.SandboxID != a.SandboxID && next.Backend == a.Backend && next.Pool == a.Pool && next.Interface == a.Interface &&
		ProvesAbsence(next.PoolResourceVersion, a.PoolResourceVersion)
}

// isOnlyOther says whether no other sandbox of the UID than the later one can have taken over what this one had: the agent reports the only one that is
// not gone, and the record has each, or all were on this machine. A sandbox that only its ADD ties to the pod may be on another node.
func (r *Read) isOnlyOther(later string, s *release.Sandbox) bool {
	hasEach := r.Record.Spec.SandboxesSeen == v1alpha1.SandboxesSeenAll
	if r.Evidence != release.EvidenceAgent {
		return hasEach
	}
	report := s.Response.Get()
	before := report.Verdict == v1alpha1.VerdictReadyForRelease && hasEach // final: it was gone before there was a later one
	return !release.OnlyWatched(s.Attribution) && s.Response.IsKnown() && (before || report.SuccessorID == later && (hasEach || r.beganUnder(s)))
}

// beganUnder says whether the present Node object is older than the pod's binding, and is of the machine that ran a sandbox.
func (r *Read) beganUnder(s *release.Sandbox) bool {
	begun := Recorded(r.Record).Begun
	if r.Pod.IsKnown() {
		begun = AsItIs(r.Pod, r.Record).Begun
	}
	node := r.Node.Get()
	return r.Node.IsKnown() && s.Machine.IsKnown() && release.Compare(s.Machine.Get(), node.Machine).IsShown() &&
		!node.Registered.IsZero() && !begun.IsZero() && !node.Registered.After(begun)
}

// mayShow says whether the pod has not ended, and its network-status shows the address of an entry, or cannot be read as a whole.
func (r *Read) mayShow(held *Held) bool {
	if r.Object == nil || Ending(r.Pod, r.Record).ByKubelet() {
		return false
	}
	shown, err := podnetwork.StatusAddresses(r.Object.Annotations)
	return err != nil || slices.ContainsFunc(shown, func(s podnetwork.StatusAddress) bool { return s.IP == held.IP })
}

// endedEmpty says whether the kubelet terminated a pod that is being deleted, no pool has an entry for it, and no agent was queried: then no state of
// its Node changes the decision.
func (r *Read) endedEmpty() bool {
	return r.Pod.IsKnown() && r.Pod.Get().Deleting && Ending(r.Pod, r.Record).ByKubelet() && len(r.Held) == 0 &&
		r.Queries.Unread == "" && len(r.Queries.Objects) == 0
}

// Observation converts what was read for internal/release.
func (r *Read) Observation() release.Observation {
	o := release.Observation{
		Evidence: r.Evidence, UID: r.UID, Live: r.Live, Withholds: r.Withholds, Recorded: r.recordsAll(), Disowning: r.Disowning, Pod: r.Pod, Last: Recorded(r.Record),
		Sandboxes: r.sandboxes(), Node: r.Node, NodeGoneSince: release.Absent[time.Time](), Settings: r.Settings, PoliciesSince: r.PoliciesSince, ReachedSince: r.ReachedSince,
		Twin: r.Twin, Any: r.Queries.About(v1alpha1.AnySandbox, r.Node.Get().NodeUID), NotResponding: r.Queries.NotResponding(r.Node.Get().NodeUID),
	}
	if r.Pod.IsKnown() {
		o.Pod = release.Known(AsItIs(r.Pod, r.Record))
	}
	for i := range r.Unowned {
		if id := r.Unowned[i].SandboxID; !slices.Contains(o.Unowned, id) {
			o.Unowned = append(o.Unowned, id)
		}
	}
	switch gone := r.Gone.Get(); {
	case r.Gone.IsKnown():
		o.SignOfLife, o.NodeGoneSince = gone.Liveness, release.Known(gone.Since)
	case r.Gone.IsUnknown():
		o.NodeGoneSince = release.Unknown[time.Time](r.Gone.Why())
	}
	return o
}

// NeedsGone says whether the time since when the machines are gone has to be read.
func (r *Read) NeedsGone(machines []v1alpha1.NodeIdentity) bool {
	lives := r.Pod.IsKnown() && !r.Pod.Get().Deleting
	return !lives && (r.Node.IsAbsent() || len(machines) > 0)
}

// GoneMachines are the machines in records that the Node of their name shows to be gone.
func GoneMachines(node release.Fact[release.Node], records ...*v1alpha1.IPAllocation) []v1alpha1.NodeIdentity {
	var machines []v1alpha1.NodeIdentity
	for _, record := range records {
		if record == nil || !node.IsRead() {
			continue
		}
		for i := range record.Spec.Sandboxes {
			ran := record.Spec.Sandboxes[i].Node
			if ran != nil && !slices.Contains(machines, *ran) && (node.IsAbsent() || release.Compare(release.MachineOf(*ran), node.Get().Machine) == release.Replaced) {
				machines = append(machines, *ran)
			}
		}
	}
	return machines
}

// sandboxes groups the held entries by sandbox.
func (r *Read) sandboxes() release.Fact[[]release.Sandbox] {
	switch {
	case r.HeldRead.IsUnknown():
		return release.Unknown[[]release.Sandbox](r.HeldRead.Why())
	case len(r.Held) == 0:
		return release.Absent[[]release.Sandbox]()
	}
	var sandboxes []release.Sandbox
	index := map[string]int{}
	for i := range r.Held {
		entry := &r.Held[i]
		at, ok := index[entry.SandboxID]
		if !ok {
			at = len(sandboxes)
			index[entry.SandboxID] = at
			exchange := r.Queries.About(entry.SandboxID, r.reporterOf(entry.SandboxID))
			sandboxes = append(sandboxes, release.Sandbox{ID: entry.SandboxID, Machine: Machine(r.Record, entry.SandboxID),
				Attribution: Attributed(r.Record, &r.Queries, r.UID, entry.SandboxID, entry.Attribution), Query: exchange.Query, Response: exchange.Response, Followed: true, Superseded: true})
		}
		r.addEntry(&sandboxes[at], entry)
	}
	return release.Known(sandboxes)
}

// addEntry adds to a sandbox what a further entry of it shows.
func (r *Read) addEntry(s *release.Sandbox, entry *Held) {
	s.Followed = s.Followed && (entry.Followed || r.gotAnother(entry, s))
	s.Superseded = s.Superseded && entry.Superseded && !entry.Removed
	s.Unrecorded = s.Unrecorded || (r.Record != nil && !entry.Superseded && RecordedAddress(r.Record, entry.Key) == nil)
	s.Shares = append(s.Shares, r.othersAt(entry)...)
	s.Conflict = s.Conflict || entry.Conflict
	s.Shown = s.Shown || Shows(r.Object, entry)
	// The persisted time, so that a restart never shortens a wait.
	if a := RecordedAddress(r.Record, entry.Key); a != nil && a.ObservedTime.After(s.UnchangedSince) {
		s.UnchangedSince = a.ObservedTime.Time
	}
}

// othersAt are the other sandboxes of the UID that have, or had, the address of an entry.
func (r *Read) othersAt(entry *Held) (sandboxes []string) {
	for i := range r.Held {
		if other := &r.Held[i]; other.SandboxID != entry.SandboxID && Same(other.Key, entry.Key) {
			sandboxes = append(sandboxes, other.SandboxID)
		}
	}
	return sandboxes
}

// reporterOf is the Node UID whose agent's report on a sandbox counts: that of the Node or, if it is absent or of another machine, of the recorded
// Node.
func (r *Read) reporterOf(sandbox string) types.UID {
	ran, node := Machine(r.Record, sandbox), r.Node.Get()
	if ran.IsKnown() && (!r.Node.IsKnown() || release.Compare(ran.Get(), node.Machine) == release.Replaced) {
		return ran.Get().NodeUID
	}
	return node.NodeUID
}

// recordsAll says whether the record has addresses, including each in the pod's network-status. Only then a late cache without them is evidence for
// every pool of the pod. The address of the cluster network is in no record, unless a guarded IPAM gives it: to every pod, or to one that chose
// another network in its place.
func (r *Read) recordsAll() bool {
	if r.Record == nil || len(r.Record.Spec.Addresses) == 0 {
		return false
	}
	if r.Object == nil {
		return true
	}
	_, chosen := r.Object.Annotations[podnetwork.DefaultNetworkAnnotation]
	excused := !r.GuardsClusterNetwork && !chosen
	addresses, err := podnetwork.StatusAddresses(r.Object.Annotations)
	if err != nil {
		return false // an unreadable status may have one more
	}
	for _, address := range addresses {
		known := func(a v1alpha1.AddressRecord) bool { return a.IP == address.IP.String() }
		if (!address.Default || !excused) && !slices.ContainsFunc(r.Record.Spec.Addresses, known) {
			return false
		}
	}
	return true
}
