// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"crypto/sha256"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Pod converts a pod. Its ending is the one that the kind of evidence accepts (release.Evidence.Ending).
func Pod(pod *corev1.Pod, ending release.Ending) release.Pod {
	facts := release.Pod{Deleting: pod.DeletionTimestamp != nil, Bound: pod.Spec.NodeName != "", Ending: ending,
		EndedBy: release.Absent[release.Machine](), EndWritten: release.EndWritten(pod), Begun: release.Begun(pod)}
	if facts.Deleting {
		facts.Deadline = pod.DeletionTimestamp.Time
		facts.DeletionRequested = release.DeletionRequested(pod)
		facts.TornDown = release.PodTornDown(pod)
	}
	return facts
}

// IsEnding says whether the pod is being deleted, or has a terminal phase.
func IsEnding(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil || IsTerminal(pod) }

// IsTerminal says whether the phase is terminal; any client can have written it.
func IsTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// MayStart says whether a kubelet may be creating a sandbox for the pod, which may get addresses that no pool has yet: the pod is bound, and its
// kubelet has reported neither termination nor a ready sandbox. Kubelets of Kubernetes 1.28 and earlier report the latter only by the containers.
func MayStart(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" || release.PodEnding(pod).ByKubelet() {
		return false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReadyToStartContainers {
			return c.Status != corev1.ConditionTrue
		}
	}
	ran := func(s corev1.ContainerStatus) bool { return s.State.Running != nil || s.State.Terminated != nil }
	return !slices.ContainsFunc(pod.Status.InitContainerStatuses, ran) && !slices.ContainsFunc(pod.Status.ContainerStatuses, ran)
}

// Shown are the addresses in the pod's network-status. A malformed status has none: then at worst an owner stays unknown. Where an address is released
// by what no pod shows, a malformed status may show it.
func Shown(pod *corev1.Pod) []ownership.Shown {
	addresses, err := podnetwork.StatusAddresses(pod.Annotations)
	if err != nil {
		return nil
	}
	all := make([]ownership.Shown, 0, len(addresses))
	for i := range addresses {
		all = append(all, ownership.Shown{IP: addresses[i].IP, Interface: addresses[i].Interface, Default: addresses[i].Default})
	}
	return all
}

// shuttingDown is the message of the condition Ready while a kubelet shuts its node down, and nothing else is wrong (pkg/kubelet/nodeshutdown).
const shuttingDown = "node is shutting down"

// Node converts a Node object.
func Node(node *corev1.Node) release.Node {
	facts := release.Node{Machine: release.MachineOf(Identity(node)), Name: node.Name, Kubelet: node.Status.NodeInfo.KubeletVersion, Registered: node.CreationTimestamp.Time}
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			facts.Ready = node.Status.Conditions[i].Status == corev1.ConditionTrue
			facts.ShuttingDown = node.Status.Conditions[i].Status == corev1.ConditionFalse && node.Status.Conditions[i].Message == shuttingDown
			facts.ReadySince = node.Status.Conditions[i].LastTransitionTime.Time
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

// Identity is the machine of a Node object in the form of a record.
func Identity(node *corev1.Node) v1alpha1.NodeIdentity {
	info := &node.Status.NodeInfo
	return v1alpha1.NodeIdentity{UID: node.UID, MachineID: BoundedID(info.MachineID), SystemUUID: BoundedID(info.SystemUUID), BootID: BoundedID(info.BootID)}
}

// maxID is the length of an ID that a GuardedNode takes. The API server does not limit what a kubelet reports.
const maxID = 253

// BoundedID is an ID of a machine, or the digest of one that is too long.
func BoundedID(id string) string {
	if len(id) <= maxID {
		return id
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(id)))
}

// ShowsOthers says whether a pod's network-status has changed.
func ShowsOthers(before, after *corev1.Pod) bool {
	return before.Annotations[podnetwork.StatusAnnotation] != after.Annotations[podnetwork.StatusAnnotation]
}
