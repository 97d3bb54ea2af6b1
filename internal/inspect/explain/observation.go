// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// observation puts the facts into the terms of the decision table, as the controllers do (controllers/view.go).
func (f *Facts) observation(entries []held) release.Observation {
	o := release.Observation{
		Evidence: f.Evidence, UID: f.UID, Live: true, Recorded: f.recordsAll(), Pod: f.podFact(), Last: f.recorded(), Sandboxes: f.sandboxes(entries),
		NodeGoneSince: release.Absent[time.Time](), Settings: f.Settings, PoliciesSince: f.Policies.Get().Since,
		Any: release.AskedOf(f.Record, v1alpha1.AnySandbox), Silence: release.SilenceOf(f.Record),
	}
	agents := f.Evidence == release.EvidenceAgent && len(entries) > 0
	if pod := f.pod(); pod == nil || pod.DeletionTimestamp != nil || f.ending().ByKubelet() || agents {
		o.Node = f.nodeFact()
	}
	if f.Record != nil && f.Record.Spec.NodeGone != nil {
		o.NodeGoneSince = release.Known(f.Record.Spec.NodeGone.Since.Time)
		o.SignOfLife = f.Record.Spec.NodeGone.SignOfLife
	}
	return o
}

func (f *Facts) podFact() release.Fact[release.Pod] {
	pod := f.pod()
	switch {
	case f.Pod.IsAbsent():
		return release.Absent[release.Pod]()
	case pod == nil:
		return release.Unknown[release.Pod](f.Pod.Why())
	}
	facts := release.Pod{Deleting: pod.DeletionTimestamp != nil, Bound: pod.Spec.NodeName != "", Ending: f.ending(),
		EndedBy: release.Absent[release.Machine](), EndWritten: release.EndWritten(pod), Begun: release.Begun(pod)}
	if facts.Deleting {
		facts.Deadline = pod.DeletionTimestamp.Time
		facts.DeletionRequested = release.DeletionRequested(pod)
		facts.TornDown = release.PodTornDown(pod)
	}
	if f.Record != nil {
		facts.Remember(f.Record)
	}
	return release.Known(facts)
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
	return release.Known(nodeOf(f.Node.Get()))
}

func nodeOf(node *corev1.Node) release.Node {
	info := &node.Status.NodeInfo
	facts := release.Node{Name: node.Name, Kubelet: node.Status.NodeInfo.KubeletVersion, Registered: node.CreationTimestamp.Time,
		Machine: release.Machine{NodeUID: node.UID, MachineID: info.MachineID, SystemUUID: info.SystemUUID, BootID: info.BootID}}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			facts.Ready, facts.ReadySince = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	for i := range node.Spec.Taints {
		if taint := &node.Spec.Taints[i]; taint.Key == corev1.TaintNodeOutOfService {
			facts.OutOfService = true
			if taint.TimeAdded != nil {
				facts.OutOfServiceSince = taint.TimeAdded.Time
			}
		}
	}
	return facts
}

// sandboxes groups the held entries by sandbox.
func (f *Facts) sandboxes(entries []held) release.Fact[[]release.Sandbox] {
	switch {
	case !f.Entries.IsKnown():
		return release.Unknown[[]release.Sandbox](f.Entries.Why())
	case f.unreadablePool() != "":
		return release.Unknown[[]release.Sandbox](f.unreadablePool())
	case !f.Records.IsKnown():
		return release.Unknown[[]release.Sandbox]("who else holds its addresses: " + f.Records.Why())
	case len(entries) == 0:
		return release.Absent[[]release.Sandbox]()
	}
	var all []release.Sandbox
	for i := range entries {
		h := &entries[i]
		at := slices.IndexFunc(all, func(s release.Sandbox) bool { return s.ID == h.SandboxID })
		if at < 0 {
			at = len(all)
			all = append(all, f.sandboxOf(h))
		}
		f.addEntry(&all[at], h)
	}
	return release.Known(all)
}

// addEntry adds to a sandbox what one of its entries shows.
func (f *Facts) addEntry(s *release.Sandbox, h *held) {
	s.Followed = s.Followed && h.followed
	s.Shown = s.Shown || f.shows(h)
	s.Conflict = s.Conflict || h.conflict
	if since := f.unchangedSince(&h.Key); since.After(s.UnchangedSince) {
		s.UnchangedSince = since
	}
}

// sandboxOf begins the sandbox of an entry.
func (f *Facts) sandboxOf(h *held) release.Sandbox {
	asked := release.AskedOf(f.Record, h.SandboxID)
	return release.Sandbox{ID: h.SandboxID, Machine: f.machine(h.SandboxID), Attribution: f.attributed(h), Mark: asked.Mark, Answer: asked.Answer,
		Followed: true}
}

// unreadablePool says why a pool in which the record has an address cannot be read; empty if all can.
func (f *Facts) unreadablePool() string {
	if f.Record == nil {
		return ""
	}
	problems := f.Entries.Get().Problems
	for i := range problems {
		p := &problems[i]
		inPool := func(a v1alpha1.AddressRecord) bool { return a.Backend == p.Backend && a.Pool == p.Pool }
		if p.Offset == "" && slices.ContainsFunc(f.Record.Spec.Addresses, inPool) {
			return "pool " + p.Pool + ", in which it holds an address, cannot be read: " + p.Message
		}
	}
	return ""
}

func (f *Facts) machine(sandbox string) release.Fact[release.Machine] {
	if f.Record != nil {
		for i := range f.Record.Spec.Sandboxes {
			if s := &f.Record.Spec.Sandboxes[i]; s.ID == sandbox && s.Node != nil {
				return release.Known(release.MachineOf(*s.Node))
			}
		}
	}
	return release.Unknown[release.Machine]("no live read of the node has succeeded since its entry was seen")
}

// shows: the pod lives and its network-status has the address.
func (f *Facts) shows(h *held) bool {
	pod := f.pod()
	return pod != nil && pod.DeletionTimestamp == nil && !h.superseded && ownership.ShownBy(shown(pod), ownership.Entry{IP: h.IP, Interface: h.Interface})
}

// CurrentAnswer is the answer to the mark that stands in a record for a sandbox: of its Node, epoch and boot. Nil where there is none.
func CurrentAnswer(record *v1alpha1.IPAllocation, sandbox string) *v1alpha1.Answer {
	for i := range record.Spec.Marks {
		mark := &record.Spec.Marks[i]
		if mark.SandboxID != sandbox {
			continue
		}
		for j := range record.Status.Answers {
			a := &record.Status.Answers[j]
			if a.SandboxID == sandbox && a.NodeUID == mark.NodeUID && a.Epoch == mark.Epoch && a.BootID == mark.BootID {
				return a
			}
		}
	}
	return nil
}

// recordsAll: the record has every address that the pod's network-status shows. That of the cluster's own network is in no record,
// unless a guarded IPAM gives it.
func (f *Facts) recordsAll() bool {
	if f.Record == nil || len(f.Record.Spec.Addresses) == 0 {
		return false
	}
	pod := f.pod()
	if pod == nil {
		return true
	}
	addresses, err := podnetwork.StatusAddresses(pod.Annotations)
	if err != nil {
		return false
	}
	_, chosen := pod.Annotations[podnetwork.DefaultNetworkAnnotation]
	excused := !f.GuardClusterNetwork && !chosen
	for _, address := range addresses {
		known := func(a v1alpha1.AddressRecord) bool { return a.IP == address.IP.String() }
		if (!address.Default || !excused) && !slices.ContainsFunc(f.Record.Spec.Addresses, known) {
			return false
		}
	}
	return true
}

// isOrphan says whether the record is of addresses whose owner nobody can tell.
func isOrphan(record *v1alpha1.IPAllocation) bool {
	return record != nil && strings.HasPrefix(record.Name, v1alpha1.OrphanPrefix)
}
