// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sharedManagers are the field managers of binaries that run kubelet and controller manager in one process: k3s, and kubelite of MicroK8s. There
// PodGC writes under the same name (docs/decisions/0283).
var sharedManagers = []string{"k3s", "kubelite"}

// isShared says whether a kubelet or a controller of the same process made the write that an entry of managedFields stands for.
func isShared(entry *metav1.ManagedFieldsEntry) bool {
	return slices.Contains(sharedManagers, entry.Manager)
}

// mayBeKubelet says whether a kubelet can have made the write that an entry of managedFields stands for.
func mayBeKubelet(entry *metav1.ManagedFieldsEntry) bool { return IsKubelet(entry) || isShared(entry) }

// IsShared says whether a pod has an entry of managedFields that a kubelet and PodGC alike may have written.
func IsShared(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return isShared(&entry) })
}

// terminatedByShared says whether a shared field manager wrote the terminal phase, and the rest of the status shows that it was the kubelet: only a
// kubelet gives ContainersReady the reason of a terminal phase, and PodGC changes no container's state.
func terminatedByShared(pod *corev1.Pod) bool {
	if strings.HasPrefix(pod.Status.Message, rejectedMessage) || !phaseWrittenByShared(pod.ManagedFields) {
		return false
	}
	terminal := false
	for i := range pod.Status.Conditions {
		switch c := &pod.Status.Conditions[i]; {
		case c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == podGC:
			return false
		case c.Type == corev1.ContainersReady:
			terminal = c.Status == corev1.ConditionFalse && c.Reason == terminalReasons[pod.Status.Phase]
		}
	}
	return terminal && allTerminated(pod)
}

// podGC is the reason of the condition DisruptionTarget that the pod garbage collector adds to pods of a deleted Node.
const podGC = "DeletionByPodGC"

// terminalReasons are the reasons that a kubelet gives ContainersReady with a terminal phase (pkg/kubelet/status, generate.go).
var terminalReasons = map[corev1.PodPhase]string{corev1.PodSucceeded: "PodCompleted", corev1.PodFailed: "PodFailed"}

// allTerminated says whether each container of a pod, of which there is at least one, is terminated.
func allTerminated(pod *corev1.Pod) bool {
	isNot := func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil }
	return len(pod.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(pod.Status.ContainerStatuses, isNot) &&
		!slices.ContainsFunc(pod.Status.InitContainerStatuses, isNot) && !slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, isNot)
}

// phaseWrittenByShared says whether status.phase belongs to a shared field manager, and to no other, and so the reason of ContainersReady.
func phaseWrittenByShared(fields []metav1.ManagedFieldsEntry) bool {
	phase, reason := false, false
	for i := range fields {
		owns := owned(&fields[i])
		counts := isShared(&fields[i]) && fields[i].Subresource == "status" && fields[i].Time != nil
		if owns.phase && !counts {
			return false
		}
		phase = phase || owns.phase
		reason = reason || (counts && owns.ready)
	}
	return phase && reason
}

// heldWithoutAgents explains a shared termination without agents, and what ends the wait.
const heldWithoutAgents = "the kubelet and the pod garbage collector of this cluster write under one field manager (k3s, MicroK8s), so that without agents no report of " +
	"the kubelet counts; install the agents (evidence: Agent)"
