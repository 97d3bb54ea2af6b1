// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Patch returns the strategic merge patch that a kubelet sends to the status
// subresource: only what differs, with the pod's UID as precondition
// (pkg/util/pod, PatchPodStatus). changed is false when there is nothing to send.
func Patch(pod *corev1.Pod, status corev1.PodStatus) (patch []byte, changed bool, err error) {
	if equality.Semantic.DeepEqual(pod.Status, status) {
		return nil, false, nil
	}
	before, err := json.Marshal(corev1.Pod{Status: pod.Status})
	if err != nil {
		return nil, false, fmt.Errorf("status of pod %s/%s as read: %w", pod.Namespace, pod.Name, err)
	}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: status})
	if err != nil {
		return nil, false, fmt.Errorf("status of pod %s/%s to report: %w", pod.Namespace, pod.Name, err)
	}
	patch, err = strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil {
		return nil, false, fmt.Errorf("patch of the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return patch, string(patch) != fmt.Sprintf(`{"metadata":{"uid":%q}}`, pod.UID), nil
}
