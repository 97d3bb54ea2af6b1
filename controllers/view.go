// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// view is all that was read of one pod UID in one pass.
type view struct {
	uid  types.UID
	live bool
	// pod is nil when the object is gone; podFact says how that is known.
	pod     *corev1.Pod
	podFact release.Fact[release.Pod]
	// namesake is the pod of another UID that has the name now, as far as the pass can see.
	namesake *corev1.Pod
	// record is nil when there is none.
	record *v1alpha1.IPAllocation
	// recordsAt is the version of the record that the cache had before other records were looked up in it; empty if it had none.
	recordsAt string
	// held are the entries that belong to the UID; heldFact carries why they could not be read.
	held     []heldEntry
	heldRead release.Fact[struct{}]
	// unowned are the entries under the name of a pod that is being deleted which no pod UID can be shown to own.
	unowned []heldEntry
	// poolVersions are those of the pools in which the entries were looked for, by backend.
	poolVersions map[string]map[string]string
	node         release.Fact[release.Node]
	// policiesSince is from when on other accounts cannot write what a kubelet reports; zero where they can. It is only read with agents.
	policiesSince time.Time
	// twin names another Node with the IDs of a machine that the live Node resembles; empty if there is none.
	twin string
	// fateUnread is why signs of life of a gone node could not be looked for; empty if they were.
	fateUnread string
	// lostLabel: the pod has the finalizer without our label. No event of such a pod reaches us.
	lostLabel bool
	// stale: the cache is older than the record, so only a live read can answer.
	stale bool
}

// heldEntry is one IPAM entry that belongs to the UID.
type heldEntry struct {
	ipam.Entry
	attribution v1alpha1.Attribution
	// conflict: the address stands under another UID too, and that one is not proven gone.
	conflict bool
	// quiet: so far the conflict is only with pods that are within their grace period.
	quiet bool
	// superseded: the pool holds the address for another sandbox by now; only the record remembers it for this UID.
	superseded bool
	// followed: superseded, and by a later sandbox of the same UID.
	followed bool
	// removed: superseded, and the pool has no entry at all. The pod is gone, or a later sandbox of it had the address, and nothing has proven
	// that the sandbox is gone.
	removed bool
}

// nothing: neither a pod that is or should be protected nor a record is left of the UID.
func (v *view) nothing() bool {
	return !v.hasFinalizer() && !v.isTooLateToProtect() && v.record == nil && !v.podFact.IsUnknown()
}

func (v *view) hasFinalizer() bool {
	return v.pod != nil && controllerutil.ContainsFinalizer(v.pod, v1alpha1.Finalizer)
}

// isTooLateToProtect: the pod has the label and not the finalizer, and cannot be given it any more, because it is being deleted. If it
// holds an address, only a record keeps that from the next pod of its name.
func (v *view) isTooLateToProtect() bool {
	return v.pod != nil && !v.hasFinalizer() && v.pod.DeletionTimestamp != nil && v.pod.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue
}

func (v *view) ref() ipam.PodRef {
	if v.pod != nil {
		return ipam.PodRef{Namespace: v.pod.Namespace, Name: v.pod.Name}
	}
	if v.record != nil {
		return ipam.PodRef{Namespace: v.record.Spec.PodNamespace, Name: v.record.Spec.PodName}
	}
	return ipam.PodRef{}
}

func (v *view) podName() string { return "pod " + v.ref().String() + " (uid " + string(v.uid) + ")" }

func (v *view) target() finalizer.Pod {
	return finalizer.Pod{Namespace: v.ref().Namespace, Name: v.ref().Name, UID: v.uid}
}

func (v *view) nodeName() string {
	if v.pod != nil {
		return v.pod.Spec.NodeName
	}
	if v.record != nil {
		return v.record.Spec.NodeName
	}
	return ""
}

// scheduled is when the pod was bound; zero where nobody wrote it down.
func (v *view) scheduled() time.Time {
	if v.pod == nil {
		return time.Time{}
	}
	return release.Bound(v.pod)
}

// ending is what the kubelet reported: what the record once proved stays proven.
func (v *view) ending() release.Ending {
	if v.record != nil && v.record.Spec.Kubelet != nil && v.record.Spec.Kubelet.Ending == v1alpha1.EndingFinished {
		return release.EndingFinished
	}
	if v.podFact.IsKnown() {
		return v.podFact.Get().Ending
	}
	return v.recorded().Ending
}

// recorded is what the record remembers of the pod.
func (v *view) recorded() release.Pod {
	last := release.Pod{Deleting: true, Ending: release.EndingNone}
	if v.record == nil {
		return last
	}
	last.Bound = v.record.Spec.NodeName != ""
	if report := v.record.Spec.Kubelet; report != nil {
		switch report.Ending {
		case v1alpha1.EndingFinished:
			last.Ending = release.EndingFinished
		case v1alpha1.EndingCompleted:
			last.Ending = release.EndingCompleted
		case v1alpha1.EndingRejected:
			last.Ending = release.EndingRejected
		}
	}
	last.Remember(v.record)
	return last
}

// asItIs is what is known of the pod now: its object, or once that is gone what the record remembers of it.
func (v *view) asItIs() release.Pod {
	if !v.podFact.IsKnown() {
		return v.recorded()
	}
	pod := v.podFact.Get()
	pod.Ending = v.ending()
	if v.record != nil {
		pod.Remember(v.record)
	}
	return pod
}

// observation puts the view into the terms of the decision table.
func (v *view) observation(o Options) release.Observation {
	pod := v.podFact
	if pod.IsKnown() {
		pod = release.Known(v.asItIs())
	}
	observation := release.Observation{
		Evidence: o.Evidence, UID: v.uid, Live: v.live, Withholds: o.Shadow != nil && v.hasFinalizer(), Recorded: v.recordsAll(o.Rules.GuardClusterNetwork), Pod: pod, Last: v.recorded(),
		Sandboxes: v.sandboxes(), Node: v.node, NodeGoneSince: v.nodeGoneSince(), Settings: o.Settings, PoliciesSince: v.policiesSince, Twin: v.twin,
		Any: release.AskedOf(v.record, v1alpha1.AnySandbox), Silence: release.SilenceOf(v.record),
	}
	for i := range v.unowned {
		if id := v.unowned[i].SandboxID; !slices.Contains(observation.Unowned, id) {
			observation.Unowned = append(observation.Unowned, id)
		}
	}
	if v.record != nil && v.record.Spec.NodeGone != nil {
		observation.SignOfLife = v.record.Spec.NodeGone.SignOfLife
	}
	return observation
}

func (v *view) nodeGoneSince() release.Fact[time.Time] {
	switch {
	case v.fateUnread != "":
		return release.Unknown[time.Time](v.fateUnread)
	case v.record == nil || v.record.Spec.NodeGone == nil:
		return release.Absent[time.Time]()
	}
	return release.Known(v.record.Spec.NodeGone.Since.Time)
}

// sandboxes groups the held entries by sandbox.
func (v *view) sandboxes() release.Fact[[]release.Sandbox] {
	switch {
	case v.heldRead.IsUnknown():
		return release.Unknown[[]release.Sandbox](v.heldRead.Why())
	case len(v.held) == 0:
		return release.Absent[[]release.Sandbox]()
	}
	var sandboxes []release.Sandbox
	index := map[string]int{}
	for i := range v.held {
		entry := &v.held[i]
		at, ok := index[entry.SandboxID]
		if !ok {
			at = len(sandboxes)
			index[entry.SandboxID] = at
			asked := release.AskedOf(v.record, entry.SandboxID)
			sandboxes = append(sandboxes, release.Sandbox{ID: entry.SandboxID, Machine: v.machine(entry.SandboxID),
				Attribution: v.attributed(entry.SandboxID, entry.attribution), Mark: asked.Mark, Answer: asked.Answer, Followed: true})
		}
		s := &sandboxes[at]
		s.Followed = s.Followed && entry.followed
		s.Conflict = s.Conflict || entry.conflict
		s.Shown = s.Shown || v.shows(entry)
		if since := v.unchangedSince(entry); since.After(s.UnchangedSince) {
			s.UnchangedSince = since
		}
	}
	return release.Known(sandboxes)
}

// followedAny: a later sandbox of the UID has the address of an earlier one.
func (v *view) followedAny() bool {
	return slices.ContainsFunc(v.held, func(held heldEntry) bool { return held.followed })
}

// shows: the pod lives and its network-status has the address.
func (v *view) shows(entry *heldEntry) bool {
	return v.pod != nil && v.pod.DeletionTimestamp == nil && !entry.superseded &&
		ownership.ShownBy(shown(v.pod), ownership.Entry{IP: entry.IP, Interface: entry.Interface})
}

// recordsAll: the record has addresses, and each that the pod's network-status shows. Only then does a late cache, which shows
// none of them any more, speak for every pool that the pod was in. The address of the cluster's own network is in no record,
// unless a guarded IPAM gives it: to every pod, or to one that chose another network in its place.
func (v *view) recordsAll(guardsClusterNetwork bool) bool {
	if v.record == nil || len(v.record.Spec.Addresses) == 0 {
		return false
	}
	if v.pod == nil {
		return true
	}
	_, chosen := v.pod.Annotations[podnetwork.DefaultNetworkAnnotation]
	excused := !guardsClusterNetwork && !chosen
	addresses, err := podnetwork.StatusAddresses(v.pod.Annotations)
	if err != nil {
		return false // what cannot be read may be one more
	}
	for _, address := range addresses {
		known := func(a v1alpha1.AddressRecord) bool { return a.IP == address.IP.String() }
		if (!address.Default || !excused) && !slices.ContainsFunc(v.record.Spec.Addresses, known) {
			return false
		}
	}
	return true
}

// machine is the machine that the record names for a sandbox.
func (v *view) machine(id string) release.Fact[release.Machine] {
	if v.record != nil {
		for i := range v.record.Spec.Sandboxes {
			s := &v.record.Spec.Sandboxes[i]
			if s.ID == id && s.Node != nil {
				return release.Known(release.MachineOf(*s.Node))
			}
		}
	}
	return release.Unknown[release.Machine]("no live read of the node has succeeded since its entry was seen")
}

// unchangedSince is the persisted time, so that a restart never shortens a wait.
func (v *view) unchangedSince(entry *heldEntry) time.Time {
	if address := recordedAddress(v.record, entry.Key); address != nil {
		return address.ObservedTime.Time
	}
	return time.Time{}
}

// recordedAddress is what a record has of an address for the very sandbox; nil where there is no record, or it has none.
func recordedAddress(record *v1alpha1.IPAllocation, key ipam.Key) *v1alpha1.AddressRecord {
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
