// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// cniDelete says whether the removal is the CNI DEL of the entry's own node: what a kubelet that works does once a
// sandbox has stopped. Taking it for an unsafe release would leak the address of every pod.
func cniDelete(w *Write, c *Case) answer {
	if a := runsCNI(w); a.verdict == no {
		return a
	}
	nodes, where := entryNodes(w, c)
	if where.verdict != yes {
		return where
	}
	answers := []answer{runsCNI(w)}
	for _, name := range nodes {
		answers = append(answers, writesFrom(w, name), isReady(w, name))
	}
	for _, m := range machines(c.Records.Get(), c.SandboxID) {
		if m.node != "" {
			answers = append(answers, isMachine(w, m.node, m.machine))
		}
	}
	if w.ReconcilerShared {
		answers = append(answers, isDeleting(w, c))
	}
	return all(answers...)
}

func runsCNI(w *Write) answer {
	pod := w.Writer.DaemonSetPod
	switch {
	case w.Writer.CNIUser || pod.IsKnown():
		return say(yes, v1alpha1.ReasonCNIDelete, "%s runs CNI DEL", w.Writer.User)
	case pod.IsAbsent():
		return say(no, "", "the token of %s belongs to no pod of the DaemonSets that run CNI DEL", w.Writer.User)
	default:
		return unknown("the pod to which the token of "+w.Writer.User+" is bound", pod.Why())
	}
}

// entryNodes names the nodes on which the entry's sandbox may be: one, unless records contradict each other; then the
// writer would have to be on all of them.
func entryNodes(w *Write, c *Case) ([]string, answer) {
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
		if record.Spec.NodeName == "" {
			askPod = true // an orphan's node is unknown; the pod that now has the name is the best word
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
			return nil, say(no, "", "the node of sandbox %q is unknown", c.SandboxID)
		}
		names.Insert(name)
	}
	return sets.List(names), answer{verdict: yes}
}

func writesFrom(w *Write, node string) answer {
	pod := w.Writer.DaemonSetPod
	switch {
	case w.Writer.CNIUser:
		return answer{verdict: yes}
	case !pod.IsKnown():
		return unknown("the node of "+w.Writer.User, pod.Why())
	case pod.Get().NodeName != node:
		return say(no, "", "%s writes from node %s, and the entry is of node %s", pod.Get().Name, pod.Get().NodeName, node)
	default:
		return answer{verdict: yes}
	}
}

func isReady(w *Write, name string) answer {
	node := w.Nodes[name]
	switch {
	case node.IsAbsent():
		return say(no, "", "Node %s does not exist", name)
	case !node.IsKnown():
		return unknown("Node "+name, node.Why())
	case !node.Get().Ready:
		return say(no, "", "Node %s is not Ready", name)
	default:
		return answer{verdict: yes, reason: v1alpha1.ReasonCNIDelete}
	}
}

// isMachine says whether the live Node is still the machine that was recorded for a sandbox. A machine that booted again
// is: none of its old sandboxes lives. So is one that resembles it: a clone's runtime has no sandbox of this ID to delete.
func isMachine(w *Write, name string, recorded release.Machine) answer {
	node := w.Nodes[name]
	switch {
	case node.IsAbsent():
		return say(no, v1alpha1.ReasonNodeGone, "Node %s, where the sandbox was, does not exist", name)
	case !node.IsKnown():
		return unknown("Node "+name, node.Why())
	case release.Compare(recorded, node.Get().Machine) == release.Replaced:
		return say(no, v1alpha1.ReasonNodeReplaced, "Node %s is not the machine on which the sandbox was recorded", name)
	default:
		return answer{verdict: yes}
	}
}

// isDeleting says whether the entry is that of a pod which is being deleted.
func isDeleting(w *Write, c *Case) answer {
	const shared = "the IPAM's reconciler shares these pods, so that they may only remove entries of pods that are being deleted, and "
	if !c.Pod.IsRead() {
		return unknown("pod "+c.PodRef, c.Pod.Why())
	}
	pod := c.Pod.Get()
	if !pod.Deleting {
		return say(no, "", shared+"%s is not", c.PodRef)
	}
	for _, record := range w.holders(c) {
		if !strings.HasPrefix(record.Name, v1alpha1.OrphanPrefix) && record.Name != string(pod.UID) {
			return say(no, "", shared+"the entry is that of another pod of this name, UID %s", record.Name)
		}
	}
	return answer{verdict: yes}
}

// allSeen says whether the records that hold the entry have every sandbox that had the address. One that its runtime lost would lose the address
// with the entry of the next one, and only an agent can tell of it (docs/decisions/0230). A guarded pod without a record may have had one.
func allSeen(w *Write, c *Case) answer {
	if !w.Agents || c.First {
		return answer{verdict: yes}
	}
	recorded := false
	for _, record := range w.holders(c) {
		if strings.HasPrefix(record.Name, v1alpha1.OrphanPrefix) {
			continue
		}
		if record.Spec.SandboxesSeen != v1alpha1.SandboxesSeenAll {
			return answer{verdict: no}
		}
		recorded = true
	}
	switch {
	case recorded:
		return answer{verdict: yes}
	case !c.Pod.IsRead():
		return unknown("pod "+c.PodRef, c.Pod.Why())
	case c.Pod.Get().Held:
		return answer{verdict: no}
	}
	return answer{verdict: yes}
}
