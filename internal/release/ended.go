// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// EndedUnder says whether a pod's termination was written while this Node object existed, so that the kubelet of the Node's machine reported it.
// The Node has to be read after the pod. Node UIDs are unique: a Node object that existed before and after the termination existed all the time.
//
// The time in managedFields is no evidence: it is that of the last write, and every later kubelet of the pod writes its status again and keeps
// the terminal phase. An old machine that registers again while its sandbox runs would make a termination by its replacement look like its own
// (docs/decisions/0096).
func EndedUnder(pod Pod, node Node) bool {
	switch {
	case !pod.Ending.ByKubelet() || node.NodeUID == "":
		return false
	case pod.AliveNodeUID == node.NodeUID:
		return true
	}
	return !node.Registered.IsZero() && !pod.Begun.IsZero() && !node.Registered.After(pod.Begun)
}

// Begun is when a pod was bound to its node or, if that is not recorded, created.
func Begun(pod *corev1.Pod) time.Time {
	if bound := Bound(pod); !bound.IsZero() {
		return bound
	}
	return pod.CreationTimestamp.Time
}

// Bound is when a pod was bound to its node, by the clock of the API server; zero if that is not recorded. A binding by a scheduler sets the
// condition PodScheduled in the API server and owns no field. A pod that was created with a nodeName was bound at its creation: the time of
// its condition is by the clock of its node.
func Bound(pod *corev1.Pod) time.Time {
	if slices.ContainsFunc(pod.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return owned(&entry).node }) {
		return pod.CreationTimestamp.Time
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// Remember adds the recorded facts about the pod's termination: since when it is proven, and which kubelet reported it.
func (p *Pod) Remember(record *v1alpha1.IPAllocation) {
	p.AliveNodeUID = record.Spec.AliveNodeUID
	if bound := record.Spec.ScheduledTime; bound != nil && (p.Begun.IsZero() || bound.Time.Before(p.Begun)) {
		p.Begun = bound.Time // a pod is bound once, and others may write the condition of a pod that shows it
	}
	report := record.Spec.Kubelet
	if report == nil {
		return
	}
	p.EndedSince = report.ObservedTime.Time
	if report.WrittenTime != nil {
		p.EndWritten = report.WrittenTime.Time
	}
	if n := report.Node; n != nil {
		p.EndedBy = Known(MachineOf(*n))
	}
}

// Writer is the machine whose kubelet reported the pod's termination: the recorded one, or that of the Node that was read. It is Absent if
// neither can be shown.
func Writer(pod Pod, node Fact[Node]) Fact[Machine] {
	switch {
	case pod.EndedBy.IsKnown():
		return pod.EndedBy
	case node.IsKnown() && EndedUnder(pod, node.Get()):
		return Known(node.Get().Machine)
	}
	return Absent[Machine]()
}

// EndedOn says whether the kubelet of the machine that ran a sandbox reported termination, in any boot. The report of another kubelet, which never
// knew the sandbox, is no evidence.
func EndedOn(ran Machine, writer Fact[Machine]) bool {
	return writer.IsKnown() && Compare(ran, writer.Get()).IsShown()
}

// endedHere says whether the sandbox's own machine reported termination. The report of a resembling machine counts like the live Node, after the
// delay of relate. If the sandbox's own boot is back, the other machine was a clone.
func endedHere(o Observation, pod Pod, s *Sandbox) bool {
	writer := Writer(pod, o.Node)
	if !pod.Ending.ByKubelet() || !s.Machine.IsKnown() {
		return false
	}
	ran := s.Machine.Get()
	return EndedOn(ran, writer) || (writer.IsKnown() && Compare(ran, writer.Get()) == Resembling && Compare(ran, o.Node.Get().Machine) == Resembling)
}

// waitForItsKubelet is rows PodCompleted, NodeNotReady and AwaitKubeletReport for a pod whose own kubelet cannot be shown to have reported its
// termination.
func waitForItsKubelet(row Row, o Observation, pod Pod, s *Sandbox) Decision {
	found := endedElsewhere(o, pod, s)
	if !o.Node.Get().Ready {
		return wait(RowNodeNotReady, v1alpha1.ReasonNodeUnreachable, 0,
			"%s, and %s is not Ready: sandbox %s may be alive; bring the node back, or taint it node.kubernetes.io/out-of-service once it is off", found, o.Node.Get().called(), s.ID)
	}
	remedy := o.Node.Get().restartAdvice()
	if !pod.Deleting {
		remedy = "delete the pod and " + remedy
	}
	return wait(row, v1alpha1.ReasonKubeletNotFinished, 0,
		"%s, so sandbox %s may be alive; its own machine's kubelet stops it, and the entry goes with it; if the entry stays, %s", found, s.ID, remedy)
}

// endedElsewhere says which kubelet reported termination, as far as known.
func endedElsewhere(o Observation, pod Pod, s *Sandbox) string {
	if writer := Writer(pod, o.Node); writer.IsKnown() {
		return "the end of the pod was written by the kubelet of another machine (" + named(writer.Get()) + ") than the one that ran sandbox " + s.ID +
			" (" + named(s.Machine.Get()) + ")"
	}
	what := "a kubelet ended the pod"
	if !pod.EndWritten.IsZero() {
		what += " (its status was written at " + pod.EndWritten.UTC().Format(time.RFC3339) + ")"
	}
	return what + ", but nothing shows that it was that of today's Node object, which registered at " + o.Node.Get().Registered.UTC().Format(time.RFC3339) +
		": another machine may have had the node's name then"
}

func named(m Machine) string {
	return fmt.Sprintf("Node UID %s, machine ID %q, boot ID %q", m.NodeUID, m.MachineID, m.BootID)
}
