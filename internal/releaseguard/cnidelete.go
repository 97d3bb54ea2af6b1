// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// cniDelete reports whether the removal is the CNI DEL of the entry's own node, which a working kubelet runs once a
// sandbox has stopped. To refuse it would leak the address of every pod.
func cniDelete(w *Write, c *Case) check {
	if a := runsCNI(w); a.verdict == no {
		return a
	}
	nodes, where := entryNodes(w, c)
	if where.verdict != yes {
		return where
	}
	checks := []check{runsCNI(w)}
	for _, name := range nodes {
		checks = append(checks, writesFrom(w, name), isReady(w, name))
	}
	for _, m := range machines(c.Records.Get(), c.SandboxID) {
		if m.node != "" {
			checks = append(checks, isMachine(w, m.node, m.machine))
		}
	}
	if w.ReconcilerShared {
		checks = append(checks, isDeleting(w, c))
	}
	return all(checks...)
}

func runsCNI(w *Write) check {
	pod := w.Writer.DaemonSetPod
	switch {
	case w.Writer.CNIUser || pod.IsKnown():
		return conclude(yes, v1alpha1.ReasonCNIDelete, "%s runs CNI DEL", w.Writer.User)
	case pod.IsAbsent():
		return conclude(no, "", "the token of %s belongs to no pod of the DaemonSets that run CNI DEL", w.Writer.User)
	default:
		return unknown("the pod to which the token of "+w.Writer.User+" is bound", pod.Why())
	}
}

// entryNodes names the nodes on which the entry's sandbox may be: one, unless records contradict each other; then the
// writer would have to be on all of them.
func entryNodes(w *Write, c *Case) ([]string, check) {
	if !c.Records.IsRead() {
		return nil, unknown("the records of "+c.PodRef, c.Records.Why())
	}
	if !c.Address.IsRead() {
		return nil, unknown("the address of "+c.subject(), c.Address.Why())
	}
	names := sets.New[string]()
	holders := w.holders(c)
	askPod := len(holders) == 0
	for _, record := range holders {
		if orphanWithoutAgents(w, c, record) {
			return nil, conclude(no, "", "the node of sandbox %q is unknown, and a pod of its name may be elsewhere by now", c.SandboxID)
		}
		if record.Spec.NodeName == "" {
			askPod = true // an orphan's node is unknown; the pod that now has the name is the best evidence
			continue
		}
		names.Insert(record.Spec.NodeName)
	}
	if askPod {
		if !c.Pod.IsRead() {
			return nil, unknown("pod "+c.PodRef, c.Pod.Why())
		}
		name := c.Pod.Get().NodeName // empty when Absent
		if name == "" {
			return nil, conclude(no, "", "the node of sandbox %q is unknown", c.SandboxID)
		}
		names.Insert(name)
	}
	return sets.List(names), check{verdict: yes}
}

// orphanWithoutAgents reports whether nothing shows on which node the sandbox of an orphan is: whereabouts' pod control loop removes entries by podref, under
// the token of CNI DEL, and no agent is queried (docs/decisions/0316).
func orphanWithoutAgents(w *Write, c *Case, record *v1alpha1.IPAllocation) bool {
	return !w.Agents && record.IsOrphan() && ownership.KindOf(c.SandboxID) == ownership.KindSandbox
}

func writesFrom(w *Write, node string) check {
	pod := w.Writer.DaemonSetPod
	switch {
	case w.Writer.CNIUser:
		return check{verdict: yes}
	case !pod.IsKnown():
		return unknown("the node of "+w.Writer.User, pod.Why())
	case pod.Get().NodeName != node:
		return conclude(no, "", "%s writes from node %s, and the entry is of node %s", pod.Get().Name, pod.Get().NodeName, node)
	default:
		return check{verdict: yes}
	}
}

// isReady reports whether a node is Ready, or its kubelet shuts it down, and runs CNI DEL for each pod (docs/decisions/0318).
func isReady(w *Write, name string) check {
	node := w.Nodes[name]
	switch {
	case node.IsAbsent():
		return conclude(no, "", "Node %s does not exist", name)
	case !node.IsKnown():
		return unknown("Node "+name, node.Why())
	case !node.Get().Ready && !node.Get().ShuttingDown:
		return conclude(no, "", "Node %s is not Ready", name)
	default:
		return check{verdict: yes, reason: v1alpha1.ReasonCNIDelete}
	}
}

// isMachine reports whether the live Node is still the machine that was recorded for a sandbox. A machine that booted again
// is: none of its old sandboxes lives. So is one that resembles it: a clone's runtime has no sandbox of this ID to delete.
func isMachine(w *Write, name string, recorded release.Machine) check {
	node := w.Nodes[name]
	switch {
	case node.IsAbsent():
		return conclude(no, v1alpha1.ReasonNodeGone, "Node %s, where the sandbox was, does not exist", name)
	case !node.IsKnown():
		return unknown("Node "+name, node.Why())
	case release.Compare(recorded, node.Get().Machine) == release.Replaced:
		return conclude(no, v1alpha1.ReasonNodeReplaced, "Node %s is not the machine on which the sandbox was recorded", name)
	default:
		return check{verdict: yes}
	}
}

// isDeleting reports whether the entry is that of a pod which is being deleted.
func isDeleting(w *Write, c *Case) check {
	const shared = "the IPAM's reconciler shares these pods, so that they may only remove entries of pods that are being deleted, and "
	if !c.Pod.IsRead() {
		return unknown("pod "+c.PodRef, c.Pod.Why())
	}
	pod := c.Pod.Get()
	if !pod.Deleting {
		return conclude(no, "", shared+"%s is not", c.PodRef)
	}
	for _, record := range w.holders(c) {
		if !record.IsOrphan() && record.Name != string(pod.UID) {
			return conclude(no, "", shared+"the entry is that of another pod of this name, UID %s", record.Name)
		}
	}
	return check{verdict: yes}
}

// allSeen reports whether the records that hold the entry have every sandbox that had the address. One that its runtime lost would lose the address
// with the entry of the next one, and only an agent can report it (docs/decisions/0230). A guarded pod without a record may have had one.
func allSeen(w *Write, c *Case) check {
	if !w.Agents {
		return check{verdict: yes}
	}
	recorded := false
	for _, record := range w.holders(c) {
		if record.IsOrphan() && ownership.KindOf(c.SandboxID) != ownership.KindSandbox {
			continue // no node is queried about it, and CNI DEL alone ends it
		}
		if record.Spec.SandboxesSeen != v1alpha1.SandboxesSeenAll && (record.IsOrphan() || !c.First) {
			return check{verdict: no}
		}
		recorded = true
	}
	switch {
	case recorded || c.First:
		return check{verdict: yes}
	case !c.Pod.IsRead():
		return unknown("pod "+c.PodRef, c.Pod.Why())
	case c.Pod.Get().Held:
		return check{verdict: no}
	}
	return check{verdict: yes}
}
