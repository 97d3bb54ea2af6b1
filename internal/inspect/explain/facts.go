// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

// Facts are what was read of one pod UID, live.
type Facts struct {
	// UID is the pod's, and Ref its name.
	UID types.UID
	Ref ipam.PodRef
	// Pod is the object: Absent when it is gone, or another UID has its name; that one is SameName.
	Pod      release.Fact[*corev1.Pod]
	SameName *corev1.Pod
	// Record is the UID's own IPAllocation, and Records are all others.
	Record  *v1alpha1.IPAllocation
	Records release.Fact[[]v1alpha1.IPAllocation]
	// Entries are those of every pool.
	Entries release.Fact[ipam.Snapshot]
	// Node is the Node object of the pod's node name.
	Node release.Fact[*corev1.Node]
	// GuardedNodes say since when machines are gone, and have the queries to agents.
	GuardedNodes release.Fact[[]v1alpha1.GuardedNode]
	// Policies say whether admission policies keep other accounts from writing what a kubelet reports. They are only looked at with agents.
	Policies release.Fact[reportpolicy.Judgement]
	// Configuration is the manager's, and ConfigurationSource where it was read.
	Evidence            release.Evidence
	Settings            release.Settings
	GuardClusterNetwork bool
	ConfigurationSource string
	// Unserved are types that the API server does not serve: nothing of theirs is here.
	Unserved inspect.Unserved
	// Events are those about the pod and about its record.
	Events []inspect.Event
}

// pod is the object, or nil.
func (f *Facts) pod() *corev1.Pod { return f.Pod.Get() }

func (f *Facts) nodeName() string {
	switch pod := f.pod(); {
	case pod != nil:
		return pod.Spec.NodeName
	case f.Record != nil:
		return f.Record.Spec.NodeName
	}
	return ""
}

// podFact is what the object shows. What the manager saw of it before is not shown anywhere.
func (f *Facts) podFact() release.Fact[release.Pod] {
	switch pod := f.pod(); {
	case f.Pod.IsAbsent():
		return release.Absent[release.Pod]()
	case pod == nil:
		return release.Unknown[release.Pod](f.Pod.Why())
	default:
		return release.Known(facts.Pod(pod, f.Evidence.Ending(pod, false, f.Policies.Get().Since)))
	}
}

// read is what was read, as the manager would put it together.
func (f *Facts) read(entries []held) *facts.Read {
	read := &facts.Read{Evidence: f.Evidence, Settings: f.Settings, GuardsClusterNetwork: f.GuardClusterNetwork, UID: f.UID, Live: true, Pod: f.podFact(), Object: f.pod(),
		Record: f.Record, HeldRead: f.heldRead(), Unowned: f.unowned(), PoliciesSince: f.Policies.Get().Since, Queries: f.queries()}
	for i := range entries {
		read.Held = append(read.Held, entries[i].Held)
	}
	if read.NeedsNode() {
		read.Node = f.nodeFact()
	}
	return read
}

// observation is what was read, in the terms of the table.
func (f *Facts) observation(entries []held, now time.Time) release.Observation {
	read := f.read(entries)
	read.Gone = f.gone(read, now)
	return read.Observation()
}

// gone is since when the machines of the pod are gone, as GuardedNodes have it. Since when Nodes are observed, and the delay of a pod without a
// machine, only the manager knows.
func (f *Facts) gone(read *facts.Read, now time.Time) release.Fact[nodelife.Absence] {
	machines := facts.GoneMachines(read.Node, f.Record)
	switch {
	case !read.NeedsGone(machines):
		return release.Absent[nodelife.Absence]()
	case !f.GuardedNodes.IsKnown():
		return release.Unknown[nodelife.Absence](f.GuardedNodes.Why())
	}
	return release.Known(nodelife.Written(f.GuardedNodes.Get()).Since(machines, now))
}

func (f *Facts) nodeFact() release.Fact[release.Node] {
	switch {
	case f.nodeName() == "":
		return release.Fact[release.Node]{}
	case f.Node.IsAbsent():
		return release.Absent[release.Node]()
	case !f.Node.IsKnown():
		return release.Unknown[release.Node](f.Node.Why())
	}
	return release.Known(facts.Node(f.Node.Get()))
}

func (f *Facts) heldRead() release.Fact[struct{}] {
	switch unreadable := facts.Unreadable(f.Record, f.Entries.Get().Problems); {
	case !f.Entries.IsKnown():
		return release.Unknown[struct{}](f.Entries.Why())
	case unreadable != "":
		return release.Unknown[struct{}](unreadable)
	case !f.Records.IsKnown():
		return release.Unknown[struct{}]("who else holds its addresses: " + f.Records.Why())
	}
	return release.Known(struct{}{})
}

// queries are those about the record.
func (f *Facts) queries() facts.Queries { return facts.QueriesIn(f.GuardedNodes, string(f.UID)) }

// isOrphan says whether the record is of addresses whose owner nobody can tell.
func isOrphan(record *v1alpha1.IPAllocation) bool {
	return record != nil && strings.HasPrefix(record.Name, v1alpha1.OrphanPrefix)
}

// held is one entry that belongs to the UID, with the records of other UIDs that hold the address for another sandbox.
type held struct {
	facts.Held
	rivals []string
}

// heldEntries are the entries that are the UID's by evidence, and the recorded addresses that somebody else has by now.
func (f *Facts) heldEntries() []held {
	entries := f.Entries.Get().Entries
	candidates := f.candidates()
	var all []held
	for i := range entries {
		if h, ours := facts.Attribute(f.UID, f.Ref, f.Record, &entries[i], append(f.recordedElsewhere(entries[i].SandboxID), candidates...)); ours {
			rivals := f.rivals(h.Key)
			h.Conflict = len(rivals) > 0 || facts.ShowsAddress(f.SameName, h.Key)
			all = append(all, held{h, rivals})
		}
	}
	if f.Record == nil {
		return all
	}
	for i := range f.Record.Spec.Addresses {
		address := &f.Record.Spec.Addresses[i]
		key, err := ipam.KeyOf(address)
		if err != nil || slices.ContainsFunc(all, func(h held) bool { return facts.Same(h.Key, key) && h.SandboxID == key.SandboxID }) {
			continue
		}
		var stands *ipam.Entry
		if at := slices.IndexFunc(entries, func(e ipam.Entry) bool { return facts.Same(e.Key, key) }); at >= 0 {
			stands = &entries[at]
		}
		rivals := f.rivals(key)
		if h, remembered := f.read(all).Missing(address, key, stands, len(rivals) > 0, false); remembered {
			all = append(all, held{h, rivals})
		}
	}
	return all
}

// unowned are the entries under the name of the pod that no UID can be shown to own.
func (f *Facts) unowned() []facts.Held {
	entries := f.Entries.Get().Entries
	candidates := f.candidates()
	var all []facts.Held
	for i := range entries {
		h, ours := facts.Attribute(f.UID, f.Ref, f.Record, &entries[i], append(f.recordedElsewhere(entries[i].SandboxID), candidates...))
		if !ours && facts.IsUnowned(f.pod(), f.SameName, f.Ref, &h) {
			all = append(all, h)
		}
	}
	return all
}

// recordedElsewhere are the UIDs of other pod names whose records have a sandbox. An entry's ID can be changed unjudged; the sandbox
// stays that pod's.
func (f *Facts) recordedElsewhere(sandbox string) []ownership.Candidate {
	var others []ownership.Candidate
	for i := range f.Records.Get() {
		r := &f.Records.Get()[i]
		if r.Spec.PodNamespace == f.Ref.Namespace && r.Spec.PodName == f.Ref.Name || isOrphan(r) {
			continue
		}
		if slices.ContainsFunc(r.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == sandbox }) {
			others = append(others, facts.Candidate(types.UID(r.Name), nil, r))
		}
	}
	return others
}

// candidates are the UIDs of this pod name that an entry might belong to. Nobody has watched, so no ADD was observed.
func (f *Facts) candidates() []ownership.Candidate {
	own := facts.Candidate(f.UID, f.pod(), f.Record)
	own.ShownAlive = own.Shown // only the manager has watched what it showed before its end
	all := []ownership.Candidate{own}
	sameName := f.SameName
	for i := range f.Records.Get() {
		r := &f.Records.Get()[i]
		if isOrphan(r) || r.Spec.PodNamespace != f.Ref.Namespace || r.Spec.PodName != f.Ref.Name {
			continue
		}
		var pod *corev1.Pod
		if sameName != nil && string(sameName.UID) == r.Name {
			pod, sameName = sameName, nil
		}
		all = append(all, facts.Candidate(types.UID(r.Name), pod, r))
	}
	if sameName != nil {
		all = append(all, facts.Candidate(sameName.UID, sameName, nil))
	}
	return all
}

// rivals are the other records that hold an address for another sandbox.
func (f *Facts) rivals(key ipam.Key) []string {
	var others []string
	for i := range f.Records.Get() {
		if r := &f.Records.Get()[i]; r.Name != string(f.UID) && facts.Holds(r, key) {
			others = append(others, r.Name)
		}
	}
	return others
}
