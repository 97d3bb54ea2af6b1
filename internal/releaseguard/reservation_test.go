// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

func TestJudgeReservation(t *testing.T) {
	holder := release.Known([]string{"10.10.0.1 in whereabouts pool " + testPool})
	outsider := Writer{DaemonSetPod: release.Absent[DaemonSetPod]()}
	here, elsewhere := Writer{DaemonSetPod: onNode(nodeA)}, Writer{DaemonSetPod: onNode(nodeB)}
	// shown is a reservation that no pool needs, of a pod that shows its address.
	shown := func(w Writer, pod Pod, change ...func(*ReservationWrite)) ReservationWrite {
		write := ReservationWrite{Writer: w, Holders: release.Absent[[]string](), Pod: release.Known(pod), Shows: true, Node: ready(machineA)}
		for _, c := range change {
			c(&write)
		}
		return write
	}
	for name, tc := range map[string]struct {
		write  ReservationWrite
		want   Outcome
		reason v1alpha1.Reason
	}{
		"the manager": {ReservationWrite{Writer: Writer{Manager: true}, Holders: holder}, Allow, v1alpha1.ReasonManagerRelease},
		"a pool holds the address": {
			ReservationWrite{Holders: holder}, Refuse, v1alpha1.ReasonPoolHolds},
		"bug 6: the loser of a race on the winner's own node": {
			ReservationWrite{Writer: here, Holders: holder}, Refuse, v1alpha1.ReasonPoolHolds},
		"no pool holds it, and its pod is gone": {
			ReservationWrite{Holders: release.Absent[[]string](), Pod: release.Absent[Pod]()}, Allow, v1alpha1.ReasonNotHeld},
		"an empty list of holders": {
			ReservationWrite{Holders: release.Known([]string{}), Pod: release.Absent[Pod]()}, Allow, v1alpha1.ReasonNotHeld},
		"pools that cannot be read": {
			ReservationWrite{Holders: release.Unknown[[]string]("timeout"), Pod: release.Absent[Pod]()}, Refuse, v1alpha1.ReasonObservationFailed},
		"pools that were not read": {ReservationWrite{Pod: release.Absent[Pod]()}, Refuse, v1alpha1.ReasonObservationFailed},
		"a pod that cannot be read": {
			ReservationWrite{Holders: release.Absent[[]string](), Pod: release.Unknown[Pod]("timeout")}, Refuse, v1alpha1.ReasonObservationFailed},
		"a pod that was not read":               {ReservationWrite{Holders: release.Absent[[]string]()}, Refuse, v1alpha1.ReasonObservationFailed},
		"bug 3: its live pod shows the address": {shown(outsider, running()), Refuse, v1alpha1.ReasonPodInUse},
		"bug 3: its pod shows the address and is being deleted": {
			shown(outsider, deleting(release.EndingNone)), Refuse, v1alpha1.ReasonPodInUse},
		"a last phase that no kubelet wrote": {
			shown(outsider, deleting(release.EndingForeign)), Refuse, v1alpha1.ReasonPodInUse},
		"a pod that ended before it was deleted": {
			shown(outsider, deleting(release.EndingCompleted)), Refuse, v1alpha1.ReasonPodInUse},
		"a pod that its kubelet has finished": {
			shown(outsider, deleting(release.EndingFinished)), Allow, v1alpha1.ReasonNotHeld},
		"a pod that a kubelet has finished, and that is older than its Node": {
			shown(outsider, deleting(release.EndingFinished), func(w *ReservationWrite) { w.Node = younger(machineA) }), Refuse, v1alpha1.ReasonPodInUse},
		"a pod that a kubelet has finished, and whose Node cannot be read": {
			shown(outsider, deleting(release.EndingFinished), func(w *ReservationWrite) { w.Node = release.Unknown[release.Node]("timeout") }), Refuse, v1alpha1.ReasonPodInUse},
		"a pod that shows other addresses": {
			shown(outsider, running(), func(w *ReservationWrite) { w.Shows = false }), Allow, v1alpha1.ReasonNotHeld},
		"CNI DEL on the pod's node": {shown(here, running()), Allow, v1alpha1.ReasonCNIDelete},
		"CNI DEL on the pod's node, of a pod that is being deleted": {
			shown(here, deleting(release.EndingNone)), Allow, v1alpha1.ReasonCNIDelete},
		"an identity that runs CNI DEL on any node": {
			shown(Writer{CNIUser: true, DaemonSetPod: release.Absent[DaemonSetPod]()}, running()), Allow, v1alpha1.ReasonCNIDelete},
		"CNI DEL on another node": {shown(elsewhere, running()), Refuse, v1alpha1.ReasonPodInUse},
		"CNI DEL on a node that shuts down": {
			shown(here, running(), func(w *ReservationWrite) { w.Node = shuttingDown(machineA) }), Allow, v1alpha1.ReasonCNIDelete},
		"CNI DEL on a node that is not Ready": {
			shown(here, running(), func(w *ReservationWrite) { w.Node = notReady(machineA) }), Refuse, v1alpha1.ReasonPodInUse},
		"CNI DEL on a node that was not read": {
			shown(here, running(), func(w *ReservationWrite) { w.Node = release.Fact[release.Node]{} }), Refuse, v1alpha1.ReasonPodInUse},
		"a writer whose pod cannot be read": {
			shown(Writer{DaemonSetPod: release.Unknown[DaemonSetPod]("timeout")}, running()), Refuse, v1alpha1.ReasonPodInUse},
		"a reconciler that shares the DaemonSet's pods, and a pod that lives": {
			shown(here, running(), func(w *ReservationWrite) { w.ReconcilerShared = true }), Refuse, v1alpha1.ReasonPodInUse},
		"a reconciler that shares the DaemonSet's pods, and a pod that is being deleted": {
			shown(here, deleting(release.EndingNone), func(w *ReservationWrite) { w.ReconcilerShared = true }), Allow, v1alpha1.ReasonCNIDelete},
	} {
		t.Run(name, func(t *testing.T) {
			if got := JudgeReservation(&tc.write); got.Outcome != tc.want || got.Reason != tc.reason {
				t.Errorf("got outcome %d, reason %s, want %d, %s: %s", got.Outcome, got.Reason, tc.want, tc.reason, got.Message)
			}
		})
	}
}

func TestARefusalOfAReservationSaysWhatWhyAndWhatNow(t *testing.T) {
	write := ReservationWrite{Writer: Writer{DaemonSetPod: onNode(nodeB)}, Name: "kube-system/10.10.0.1", PodRef: "ns/web",
		Holders: release.Absent[[]string](), Pod: release.Known(running()), Shows: true, Node: ready(machineA)}
	message := JudgeReservation(&write).Message
	for _, part := range []string{"kube-system/10.10.0.1", "ns/web", string(testUID), nodeA, nodeB, "network-status", "End the pod"} {
		if !strings.Contains(message, part) {
			t.Errorf("%q is not in the message: %s", part, message)
		}
	}
	if len(message) > 1000 {
		t.Errorf("the message has %d characters, too many for an event", len(message))
	}
}
