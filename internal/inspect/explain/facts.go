// SPDX-License-Identifier: Apache-2.0

// Package explain reports, purely, why a pod's addresses are held: it makes from facts that were read live the observation that the
// controllers make, asks the decision table (internal/release.Decide), and asks it again about each change that could come.
//
// A controller's caches may be behind what is read here by a moment. And a controller that has watched since before the deletion can
// know two things that no later read shows: that the pod was being deleted and had not terminated, and that an entry appeared after the
// pod was bound. Both can only let the controller release where this package says "wait".
package explain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
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
	// GuardedNodes have the times since when machines are gone, and the queries to agents.
	GuardedNodes release.Fact[[]v1alpha1.GuardedNode]
	// Policies: whether admission policies keep other accounts from writing what a kubelet reports. They are only read with agents.
	Policies release.Fact[reportpolicy.Judgement]
	// Evidence, Settings and GuardClusterNetwork are the manager's configuration, and ConfigurationSource where it was read.
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

// podFact is what the object shows. What the manager observed of it before is not shown anywhere.
func (f *Facts) podFact() release.Fact[release.Pod] {
	return release.Convert(f.Pod, func(pod *corev1.Pod) release.Pod {
		return facts.Pod(pod, f.Evidence.Ending(pod, false, f.Policies.Get().Since))
	})
}

// read is what was read, as the manager would have it.
func (f *Facts) read(e entries) *facts.Read {
	read := &facts.Read{Evidence: f.Evidence, Settings: f.Settings, GuardsClusterNetwork: f.GuardClusterNetwork, UID: f.UID, Live: true, Pod: f.podFact(), Object: f.pod(),
		Record: f.Record, HeldRead: f.heldRead(), Unowned: e.unowned, PoliciesSince: f.Policies.Get().Since, Queries: f.queries()}
	for i := range e.held {
		read.Held = append(read.Held, e.held[i].Held)
	}
	if read.NeedsNode() && f.nodeName() != "" {
		read.Node = release.Convert(f.Node, facts.Node)
	}
	return read
}

// observation is what was read, in the terms of the decision table. Since when Nodes are observed and the API server is
// reached, and the delay of a pod without a recorded machine, only the manager knows.
func (f *Facts) observation(e entries, now time.Time) release.Observation {
	read := f.read(e)
	read.Gone = release.Absent[nodelife.Absence]()
	if machines := facts.GoneMachines(read.Node, f.Record); read.NeedsGone(machines) {
		read.Gone = release.Unknown[nodelife.Absence](f.GuardedNodes.Why())
		if f.GuardedNodes.IsKnown() {
			read.Gone = release.Known(nodelife.Written(f.GuardedNodes.Get()).Since(machines, now))
		}
	}
	return read.Observation()
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

// entries are those that belong to the UID, and those under the name of the pod that no UID can be shown to own.
type entries struct {
	held    []held
	unowned []facts.Held
}

// held is one entry that belongs to the UID, with the records of other UIDs that hold the address for another sandbox.
type held struct {
	facts.Held
	rivals []string
}

// entries attributes the entries of every pool, and adds the recorded addresses that another sandbox has by now.
func (f *Facts) entries() entries {
	pools, records := f.Entries.Get().Entries, f.Records.Get()
	own := facts.Candidate(f.UID, f.pod(), f.Record) // no ADD was observed, because nothing was watched
	own.ShownAlive = own.Shown                       // only the manager has watched what it showed before it terminated
	candidates := facts.Candidates(records, f.Ref, own, f.SameName, facts.Candidate)
	var e entries
	for i := range pools {
		elsewhere := facts.Elsewhere(records, f.Ref, pools[i].SandboxID, facts.Candidate)
		h, ours := facts.Attribute(f.UID, f.Ref, f.Record, &pools[i], append(elsewhere, candidates...))
		switch {
		case ours:
			rivals := facts.Rivals(records, string(f.UID), h.Key)
			h.Conflict = len(rivals) > 0 || facts.ShowsAddress(f.SameName, h.Key)
			e.held = append(e.held, held{h, rivals})
		case facts.IsUnowned(f.pod(), f.SameName, f.Ref, &h):
			e.unowned = append(e.unowned, h)
		}
	}
	if f.Record == nil {
		return e
	}
	for i := range f.Record.Spec.Addresses {
		address := &f.Record.Spec.Addresses[i]
		key, err := ipam.KeyOf(address)
		if err != nil || slices.ContainsFunc(e.held, func(h held) bool { return facts.Same(h.Key, key) && h.SandboxID == key.SandboxID }) {
			continue
		}
		var stands *ipam.Entry
		if at := slices.IndexFunc(pools, func(e ipam.Entry) bool { return facts.Same(e.Key, key) }); at >= 0 {
			stands = &pools[at]
		}
		rivals := facts.Rivals(records, string(f.UID), key)
		if h, remembered := f.read(e).Missing(address, key, stands, len(rivals) > 0, false); remembered {
			e.held = append(e.held, held{h, rivals})
		}
	}
	return e
}
