// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Outcome is the response to a removal. The zero value is invalid.
type Outcome uint8

// The outcomes.
const (
	// Allow: the address may be released.
	Allow Outcome = iota + 1
	// Refuse: the address is in use, or may be.
	Refuse
	// Defer: a legitimate CNI DEL is refused, because the manager releases the address itself once it has queried the node's agent.
	Defer
)

// Judgment is the response to one removal.
type Judgment struct {
	Outcome Outcome
	Reason  v1alpha1.Reason
	// Message of a refusal: what was refused, what was found, what was expected, what to do. A permit has one where it allows
	// a removal of an address that is not proven free.
	Message string
}

// Judge judges every removal of a write, in the order of the cases.
func Judge(w *Write) []Judgment {
	judgments := make([]Judgment, 0, len(w.Cases))
	for i := range w.Cases {
		judgments = append(judgments, judge(w, &w.Cases[i]))
	}
	return judgments
}

func judge(w *Write, c *Case) Judgment {
	if w.Writer.Manager {
		return Judgment{Outcome: Allow, Reason: v1alpha1.ReasonManagerRelease}
	}
	if ownership.KindOf(c.SandboxID) == ownership.KindResourceClaim {
		return judgeClaimed(w, c)
	}
	if keepsFromSuccessors(w, c) {
		return Judgment{Outcome: Allow, Reason: v1alpha1.ReasonAddressKept}
	}
	rival := rivalHolds(w, c)
	del := all(cniDelete(w, c), opposite(rival))
	seen := allSeen(w, c)
	if all(del, seen).verdict == yes {
		return Judgment{Outcome: Allow, Reason: v1alpha1.ReasonCNIDelete}
	}
	pod := podHolds(w, c)
	held := some(rival, pod, recordHolds(w, c), ownerUnknown(c))
	switch {
	case held.verdict == no:
		return Judgment{Outcome: Allow, Reason: pod.reason}
	case w.Adds && c.Address.IsAbsent():
		return Judgment{Outcome: Allow, Reason: v1alpha1.ReasonNoSuchAddress, Message: loss(w, c, held)}
	case del.verdict == yes && seen.verdict == no:
		return Judgment{Outcome: Defer, Reason: v1alpha1.ReasonCNIDeleteDeferred, Message: deferral(w, c)}
	}
	return Judgment{Outcome: Refuse, Reason: held.reason, Message: refusal(w, c, held, del)}
}

// keepsFromSuccessors reports whether the write releases nothing: the entry gets the tombstone of the record that holds it, and no pod that keeps running
// looks for it under its name.
func keepsFromSuccessors(w *Write, c *Case) bool {
	ends := c.Pod.IsAbsent() || c.Pod.IsKnown() && c.Pod.Get().Deleting
	return ends && c.SameSandbox && slices.ContainsFunc(w.holders(c), func(record *v1alpha1.IPAllocation) bool {
		return c.NewPodRef == v1alpha1.TombstonePrefix+"/"+record.Name
	})
}

func recordHolds(w *Write, c *Case) check {
	if !c.Records.IsRead() {
		return unknown("the records of "+c.PodRef, c.Records.Why())
	}
	for _, record := range w.holders(c) {
		return conclude(yes, v1alpha1.ReasonRecordHolds, "IPAllocation %s still holds this address for this sandbox", record.Name)
	}
	return check{verdict: no}
}

// podHolds reports whether the pod of the reference may still use the address.
func podHolds(w *Write, c *Case) check {
	if c.Pod.IsAbsent() {
		return check{verdict: no, reason: v1alpha1.ReasonPodGone}
	}
	if !c.Pod.IsKnown() {
		return unknown("pod "+c.PodRef, c.Pod.Why())
	}
	pod := c.Pod.Get()
	switch {
	case !pod.Deleting:
		return conclude(yes, v1alpha1.ReasonPodInUse, "pod %s (UID %s, node %q) exists and is not being deleted", c.PodRef, pod.UID, pod.NodeName)
	case !finished(&pod, c.Records.Get()):
		return conclude(yes, v1alpha1.ReasonKubeletNotFinished,
			"pod %s (UID %s, node %q) is being deleted, and its kubelet has not reported that it finished", c.PodRef, pod.UID, pod.NodeName)
	default:
		return machineHolds(w, c, &pod)
	}
}

// finished reports whether the kubelet finished the pod after its deletion, by the pod itself or by what the controller
// proved before: that is monotone.
func finished(pod *Pod, records []v1alpha1.IPAllocation) bool {
	if pod.Ending == release.EndingFinished {
		return true
	}
	for i := range records {
		report := records[i].Spec.Kubelet
		if records[i].Name == string(pod.UID) && report != nil && report.Ending == v1alpha1.EndingFinished {
			return true
		}
	}
	return false
}

// machineHolds reports whether the kubelet that finished the pod may be that of another machine than the sandbox's.
func machineHolds(w *Write, c *Case, pod *Pod) check {
	if !c.Records.IsRead() {
		return unknown("the records of "+c.PodRef, c.Records.Why())
	}
	recorded := machines(c.Records.Get(), c.SandboxID)
	if len(recorded) == 0 && pod.Held {
		return conclude(undecided, v1alpha1.ReasonObservationFailed,
			"the kubelet finished pod %s (UID %s), but no record shows yet which machine ran sandbox %q", c.PodRef, pod.UID, c.SandboxID)
	}
	for _, m := range recorded {
		if a := isMachine(w, pod.NodeName, m.machine); a.verdict != yes {
			if a.verdict == no {
				a.verdict = yes // another machine: it holds
			}
			return a
		}
		if !release.EndedOn(m.machine, writer(w, pod, c.Records.Get())) {
			return conclude(yes, v1alpha1.ReasonKubeletNotFinished,
				"pod %s (UID %s) was finished by a kubelet that cannot be shown to be that of the machine on which sandbox %q was recorded", c.PodRef, pod.UID, c.SandboxID)
		}
	}
	return check{verdict: no, reason: v1alpha1.ReasonKubeletFinished}
}

// writer is the machine whose kubelet finished the pod, by its record or by the live Node, which was read after the pod.
func writer(w *Write, pod *Pod, records []v1alpha1.IPAllocation) release.Fact[release.Machine] {
	ended := release.Pod{Ending: release.EndingFinished, Begun: pod.Begun}
	for i := range records {
		if records[i].Name == string(pod.UID) {
			ended.Remember(&records[i])
		}
	}
	return release.Writer(ended, w.Nodes[pod.NodeName])
}

func refusal(w *Write, c *Case, held, del check) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s of pool %s (sandbox %q, interface %q) stays with %q: %s; expected no pod of that name, or one that its kubelet "+
		"has finished, and no record.", v1alpha1.ReasonUnsafeReleaseRefused, c.subject(), w.Pool, c.SandboxID, c.Interface, c.PodRef, held.text)
	if del.text != held.text {
		fmt.Fprintf(&b, " It does not count as CNI DEL: %s.", del.text)
	}
	if held.reason == v1alpha1.ReasonOwnerKindUnknown {
		b.WriteString(" Holdfast does not release it either: find out what wrote the entry, and once its owner is gone: kubectl holdfast release " + c.subject() + " --as-manager --reason TEXT.")
		return b.String()
	}
	if slices.ContainsFunc(w.holders(c), func(record *v1alpha1.IPAllocation) bool { return orphanWithoutAgents(w, c, record) }) {
		b.WriteString(" Without agents nothing shows that the sandbox is gone; once you know that it is: kubectl holdfast release " + c.subject() + " --as-manager --reason TEXT.")
		return b.String()
	}
	b.WriteString(" Holdfast releases the address itself once the sandbox is proven gone; kubectl get ipa shows what it waits for.")
	return b.String()
}

func deferral(w *Write, c *Case) string {
	return fmt.Sprintf("%s: %s of pool %s (sandbox %q, interface %q) stays with %q: no record shows that no other sandbox of the pod had the address. "+
		"Nothing to do: Holdfast releases the address itself once the agent of the node reports that no sandbox of the pod is left.",
		v1alpha1.ReasonCNIDeleteDeferred, c.subject(), w.Pool, c.SandboxID, c.Interface, c.PodRef)
}

func loss(w *Write, c *Case, held check) string {
	return fmt.Sprintf("%s: pool %s loses %s (sandbox %q, interface %q, podref %q): %s; but the offset stands for no address, so that "+
		"whereabouts drops it whenever it writes the pool, and it would complete a refused ADD with an address that no pool has recorded. "+
		"Look for what wrote this offset: the address that was meant may be handed out again.",
		v1alpha1.ReasonMalformedPool, w.Pool, c.subject(), c.SandboxID, c.Interface, c.PodRef, held.text)
}

func (c *Case) subject() string {
	if c.Address.IsKnown() {
		return c.Address.Get().String()
	}
	return fmt.Sprintf("offset %q", c.Offset)
}
