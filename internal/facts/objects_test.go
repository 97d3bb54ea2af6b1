// SPDX-License-Identifier: Apache-2.0

package facts_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

func TestI3AddressesMayComeUntilASandboxIsReady(t *testing.T) {
	ready := func(status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: status}
	}
	running := []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	terminated := []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	waiting := []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}}
	cases := map[string]struct {
		status  corev1.PodStatus
		unbound bool
		// writer is who wrote the phase.
		writer string
		want   bool
	}{
		"a pod that no kubelet has seen":          {want: true},
		"a pod that was never bound":              {unbound: true},
		"its sandbox is ready":                    {status: corev1.PodStatus{Conditions: []corev1.PodCondition{ready(corev1.ConditionTrue)}}},
		"its sandbox is not ready yet":            {status: corev1.PodStatus{Conditions: []corev1.PodCondition{ready(corev1.ConditionFalse)}}, want: true},
		"its sandbox is gone, its containers ran": {status: corev1.PodStatus{Conditions: []corev1.PodCondition{ready(corev1.ConditionFalse)}, ContainerStatuses: terminated}, want: true},
		"an older kubelet: a container runs":      {status: corev1.PodStatus{ContainerStatuses: running}},
		"an older kubelet: an init container ran": {status: corev1.PodStatus{InitContainerStatuses: terminated, ContainerStatuses: waiting}},
		"an older kubelet: its containers wait":   {status: corev1.PodStatus{ContainerStatuses: waiting}, want: true},
		"its kubelet has ended it":                {status: corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{ready(corev1.ConditionFalse)}}, writer: "kubelet"},
		"PodGC has ended it":                      {status: corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{ready(corev1.ConditionFalse)}}, writer: "kube-controller-manager", want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-1"}, Status: tc.status}
			if tc.unbound {
				pod.Spec.NodeName = ""
			}
			if tc.writer != "" {
				pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: tc.writer, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", Time: &metav1.Time{Time: metav1.Now().Time}, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
			}
			if got := facts.MayStart(pod); got != tc.want {
				t.Errorf("got %v: expected %v", got, tc.want)
			}
		})
	}
}

// An entry with the tombstone of the pod's record is recorded with the former podref, because only that record can release it.
func TestATombstoneStandsForTheReferenceOfItsPod(t *testing.T) {
	ref := ipam.PodRef{Namespace: "apps", Name: "web-0"}
	entry := ipam.Entry{Key: ipam.Key{SandboxID: "a", PodRef: v1alpha1.TombstonePrefix + "/uid"}, Releasing: "uid"}
	if held, ours := facts.Attribute("uid", ref, &v1alpha1.IPAllocation{}, &entry, nil); !ours || held.PodRef != "apps/web-0" {
		t.Errorf("got %q (ours: %t), want apps/web-0", held.PodRef, ours)
	}
	if held, ours := facts.Attribute("another", ref, &v1alpha1.IPAllocation{}, &entry, nil); ours || held.PodRef != entry.PodRef {
		t.Errorf("the tombstone of another record: got %q (ours: %t)", held.PodRef, ours)
	}
}

// TestANodeShutsDownWhileThatIsAllThatItsKubeletReports: with a runtime that does not respond its sandboxes may run on.
func TestANodeShutsDownWhileThatIsAllThatItsKubeletReports(t *testing.T) {
	for name, tc := range map[string]struct {
		status      corev1.ConditionStatus
		message     string
		ready, down bool
	}{
		"it is Ready":                   {corev1.ConditionTrue, "kubelet is posting ready status", true, false},
		"it shuts down":                 {corev1.ConditionFalse, "node is shutting down", false, true},
		"its runtime does not respond":  {corev1.ConditionFalse, "container runtime is down", false, false},
		"both":                          {corev1.ConditionFalse, "[container runtime is down, node is shutting down]", false, false},
		"it shut down, and is silent":   {corev1.ConditionUnknown, "node is shutting down", false, false},
		"it reports Ready all the same": {corev1.ConditionTrue, "node is shutting down", true, false},
	} {
		node := facts.Node(&corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: tc.status, Message: tc.message}}}})
		if node.Ready != tc.ready || node.ShuttingDown != tc.down {
			t.Errorf("%s: Ready %t, shutting down %t", name, node.Ready, node.ShuttingDown)
		}
	}
}
