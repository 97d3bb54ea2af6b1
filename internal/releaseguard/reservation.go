// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// ReservationWrite takes a reservation away, or gives it to another pod.
type ReservationWrite struct {
	Writer Writer
	// ReconcilerShared: the IPAM's reconciler runs in the DaemonSet's pods, under their tokens.
	ReconcilerShared bool
	// Name and PodRef are the reservation's, before the write.
	Name, PodRef string
	// Holders describe the entries of pools for which the reservation stands, by a live read. Absent and empty are the same.
	Holders release.Fact[[]string]
	// Pod is the live pod of the reference; Absent where there is none, or the reference names no pod.
	Pod release.Fact[Pod]
	// Shows: that pod's network-status shows the reservation's address, or cannot be read.
	Shows bool
	// Node is the pod's live Node; read only for a pod that shows the address.
	Node release.Fact[release.Node]
}

// JudgeReservation judges the removal of a reservation.
func JudgeReservation(w *ReservationWrite) Judgment {
	switch {
	case w.Writer.Manager:
		return Judgment{Outcome: Allow, Reason: v1alpha1.ReasonManagerRelease}
	case !w.Holders.IsRead():
		return w.refuse(v1alpha1.ReasonObservationFailed, "the pools could not be read: "+w.Holders.Why())
	case len(w.Holders.Get()) > 0:
		return w.refuse(v1alpha1.ReasonPoolHolds, "there is still "+w.Holders.Get()[0])
	case !w.Pod.IsRead():
		return w.refuse(v1alpha1.ReasonObservationFailed, "the pod could not be read: "+w.Pod.Why())
	case w.Pod.IsAbsent() || !w.Shows || w.finished():
		return Judgment{Outcome: Allow, Reason: v1alpha1.ReasonNotHeld}
	}
	pod := w.Pod.Get()
	del := w.cniDelete(&pod)
	if del.verdict == yes {
		return Judgment{Outcome: Allow, Reason: v1alpha1.ReasonCNIDelete}
	}
	return w.refuse(v1alpha1.ReasonPodInUse, fmt.Sprintf("no pool has the address, but pod %s (UID %s, node %q) shows it in its network-status, and its kubelet "+
		"cannot be shown to have finished it; it is no CNI DEL either: %s", w.PodRef, pod.UID, pod.NodeName, del.text))
}

// finished reports whether the kubelet of the pod's own machine finished it. The machine is not taken from a record: the live Node
// is proof if the pod began on it.
func (w *ReservationWrite) finished() bool {
	pod := w.Pod.Get()
	return pod.Deleting && pod.Ending == release.EndingFinished && w.Node.IsKnown() &&
		release.EndedUnder(release.Pod{Ending: pod.Ending, Begun: pod.Begun}, w.Node.Get())
}

// cniDelete reports whether the node's own CNI DEL removes the reservation: it has emptied the pool before, while the pod
// still shows the address.
func (w *ReservationWrite) cniDelete(pod *Pod) check {
	write := &Write{Writer: w.Writer, ReconcilerShared: w.ReconcilerShared, Nodes: map[string]release.Fact[release.Node]{pod.NodeName: w.Node}}
	checks := []check{runsCNI(write), writesFrom(write, pod.NodeName), isReady(write, pod.NodeName)}
	if w.ReconcilerShared && !pod.Deleting {
		checks = append(checks, conclude(no, "", "the IPAM's reconciler shares these pods, so that they may only remove reservations of pods that are being deleted"))
	}
	return all(checks...)
}

func (w *ReservationWrite) refuse(reason v1alpha1.Reason, found string) Judgment {
	return Judgment{Outcome: Refuse, Reason: reason, Message: fmt.Sprintf(
		"%s: reservation %s stays with %q: %s; expected that no pool holds the address for this pod and that the pod does not use it, since another range "+
			"could then hand it out again. End the pod, or remove the pool's entry first: whereabouts does so in CNI DEL, and Holdfast when it releases the "+
			"address; kubectl get ipa shows what it waits for.", v1alpha1.ReasonUnsafeReleaseRefused, w.Name, w.PodRef, found)}
}
