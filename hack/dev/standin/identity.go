// SPDX-License-Identifier: Apache-2.0

package standin

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// whereaboutsName is that of the DaemonSet in whereabouts' manifests.
const whereaboutsName = "whereabouts"

// isWhereabouts says whether the pod is whereabouts' own on its node.
func isWhereabouts(pod *corev1.Pod, namespace string) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.Namespace == namespace && owner != nil && owner.Kind == "DaemonSet" && owner.Name == whereaboutsName
}
