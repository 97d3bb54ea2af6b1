// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const sandboxFields = `{"f:status":{"f:conditions":{"k:{\"type\":\"PodReadyToStartContainers\"}":{".":{},"f:status":{}}},"f:podIP":{}}}`

// without reports that the pod has no sandbox.
func without(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse,
		Message: "no pod sandbox exists"})
}

// notReady is the report while the runtime lists a sandbox that is not ready.
func notReady(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse,
		Message: "pod sandbox is not ready"})
}

func reportedBy(manager string, at time.Time) func(*corev1.Pod) {
	return owner(manager, "status", sandboxFields, at)
}

func TestPodTornDown(t *testing.T) {
	later := deletedAt.Add(5 * time.Second)
	podGC := owner("kube-controller-manager", "status", phaseFields, later)
	runs := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	tests := map[string]struct {
		pod  *corev1.Pod
		want time.Time
	}{
		"reported by the kubelet after the deletion": {ending(deleting, without, podGC, reportedBy("kubelet", later), containerEnded(later)), later},
		"reported in the second of the deletion":     {ending(deleting, without, podGC, reportedBy("kubelet", deletedAt)), time.Time{}},
		"reported before the deletion":               {ending(deleting, without, podGC, reportedBy("kubelet", deletedAt.Add(-time.Hour))), time.Time{}},
		"of a pod that is not deleted":               {ending(without, podGC, reportedBy("kubelet", later)), time.Time{}},
		"while a container runs":                     {ending(deleting, without, podGC, reportedBy("kubelet", later), runs), time.Time{}},
		"of a sandbox that is listed and not ready":  {ending(deleting, notReady, podGC, reportedBy("kubelet", later)), time.Time{}},
		"which shows no such condition":              {ending(deleting, podGC, reportedBy("kubelet", later)), time.Time{}},
		"of a sandbox that is ready": {ending(deleting, podGC, reportedBy("kubelet", later), func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue})
		}), time.Time{}},
		"by another manager":                              {ending(deleting, without, podGC, reportedBy("someone", later)), time.Time{}},
		"by the kubelet and another manager":              {ending(deleting, without, podGC, reportedBy("kubelet", later), reportedBy("someone", later)), time.Time{}},
		"by no manager":                                   {ending(deleting, without, podGC), time.Time{}},
		"past the status subresource":                     {ending(deleting, without, owner("kubelet", "", sandboxFields, later)), time.Time{}},
		"with unreadable ownership of another manager":    {ending(deleting, without, reportedBy("kubelet", later), owner("someone", "status", `{"f:status":`, later)), time.Time{}},
		"with unreadable conditions of another manager":   {ending(deleting, without, reportedBy("kubelet", later), owner("someone", "status", `{"f:status":{"f:conditions":1}}`, later)), time.Time{}},
		"with the kubelet's ownership that can't be read": {ending(deleting, without, owner("kubelet", "status", `{"f:status":`, later)), time.Time{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := PodTornDown(tc.pod); !got.Equal(tc.want) {
				t.Errorf("PodTornDown = %s, want %s", got, tc.want)
			}
			before := PodEnding(tc.pod)
			tc.pod.ManagedFields = FieldOwnership(tc.pod.ManagedFields)
			if got := PodTornDown(tc.pod); !got.Equal(tc.want) {
				t.Errorf("after FieldOwnership: PodTornDown = %s, want %s", got, tc.want)
			}
			if got := PodEnding(tc.pod); got != before {
				t.Errorf("after FieldOwnership: PodEnding = %d, want %d", got, before)
			}
		})
	}
}
