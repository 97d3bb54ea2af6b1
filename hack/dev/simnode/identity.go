// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// whereaboutsName is that of the DaemonSet in whereabouts' manifests.
const whereaboutsName = "whereabouts"

// cnsName is that of the DaemonSet of Azure's container networking service.
const cnsName = "azure-cns"

// agentName is that of the DaemonSet of Holdfast's agent, and of its namespace.
const agentName = "holdfast-agent"

// isAgent reports whether the pod is Holdfast's agent on its node.
func isAgent(pod *corev1.Pod) bool {
	return pod.Namespace == agentName && isOfDaemonSet(pod, agentName)
}

// isWhereabouts reports whether the pod is whereabouts' own on its node.
func isWhereabouts(pod *corev1.Pod) bool {
	return pod.Namespace == WhereaboutsNamespace && isOfDaemonSet(pod, whereaboutsName)
}

// isCNS reports whether the pod is the CNS of its node.
func isCNS(pod *corev1.Pod) bool { return isOfDaemonSet(pod, cnsName) }

func isOfDaemonSet(pod *corev1.Pod, name string) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.Name == name
}
