// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const sharedFields = `{"f:status":{"f:phase":{},"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{"f:reason":{},"f:status":{}}}}}`

// bySharedKubelet is a deleted pod that a kubelet under the name k3s terminated.
func bySharedKubelet(p *corev1.Pod) {
	graceZero(p)
	owner("k3s", "status", sharedFields, deletedAt.Add(5*time.Second))(p)
	containerEnded(deletedAt.Add(5 * time.Second))(p)
	p.Status.Phase = corev1.PodFailed
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "PodFailed"}}
	p.CreationTimestamp, p.Finalizers = metav1.NewTime(deletedAt), []string{v1alpha1.Finalizer}
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason})
	}
}

// TestI11ASharedTerminationIsTheKubeletsByItsStatus: PodGC writes under the same name, but another status.
func TestI11ASharedTerminationIsTheKubeletsByItsStatus(t *testing.T) {
	isReady := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
	}
	fields := func(manager, subresource, text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.ManagedFields = nil
			owner(manager, subresource, text, deletedAt.Add(5*time.Second))(p)
		}
	}
	tests := map[string]struct {
		change func(*corev1.Pod)
		want   Ending
	}{
		"a kubelet's":     {func(*corev1.Pod) {}, EndingShared},
		"one of MicroK8s": {fields("kubelite", "status", sharedFields), EndingShared},
		"with success": {func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Conditions[0].Reason = corev1.PodSucceeded, "PodCompleted"
		}, EndingShared},
		"evicted by its kubelet":                    {condition(corev1.DisruptionTarget, corev1.ConditionTrue, "TerminationByKubelet"), EndingShared},
		"PodGC's, of a node that is out of service": {isReady, EndingForeign},
		"PodGC's, of a deleted Node":                {condition(corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByPodGC"), EndingForeign},
		"PodGC's, of a pod that was completed":      {func(p *corev1.Pod) { p.Status.Conditions[0].Reason = "PodCompleted" }, EndingForeign},
		"a pod without the condition":               {func(p *corev1.Pod) { p.Status.Conditions = nil }, EndingForeign},
		"a container that is not terminated": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{})
		}, EndingForeign},
		"an init container that is not terminated":         {func(p *corev1.Pod) { p.Status.InitContainerStatuses = make([]corev1.ContainerStatus, 1) }, EndingForeign},
		"an ephemeral container that is not terminated":    {func(p *corev1.Pod) { p.Status.EphemeralContainerStatuses = make([]corev1.ContainerStatus, 1) }, EndingForeign},
		"no container at all":                              {func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, EndingForeign},
		"a rejected pod, of which nothing was stopped":     {func(p *corev1.Pod) { p.Status.Message = "Pod was rejected: x" }, EndingForeign},
		"another client changed the reason of the kubelet": {fields("k3s", "status", `{"f:status":{"f:phase":{},"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{"f:status":{}}}}}`), EndingForeign},
		"another client owns the phase too":                {owner("someone", "status", phaseFields, deletedAt), EndingForeign},
		"not past the status subresource":                  {fields("k3s", "", sharedFields), EndingForeign},
		"of a controller manager with a name of its own":   {fields("kube-controller-manager", "status", sharedFields), EndingForeign},
		"ownership that cannot be read":                    {fields("k3s", "status", `{"f:status":`), EndingForeign},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := ending(bySharedKubelet, tc.change)
			if got := PodEnding(pod); got != tc.want {
				t.Errorf("PodEnding = %d, want %d", got, tc.want)
			}
			pod.ManagedFields = FieldOwnership(pod.ManagedFields)
			if got := PodEnding(pod); got != tc.want {
				t.Errorf("after FieldOwnership: PodEnding = %d, want %d", got, tc.want)
			}
		})
	}
}

// TestI11ASharedTerminationIsJudgedByThePolicies: any client can name the field manager.
func TestI11ASharedTerminationIsJudgedByThePolicies(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		since  time.Time
		want   Ending
	}{
		"of a guarded pod that is younger than the policies": {func(*corev1.Pod) {}, deletedAt, EndingShared},
		"of one that is older":                               {func(*corev1.Pod) {}, deletedAt.Add(time.Second), EndingForeign},
		"while there are none":                               {func(*corev1.Pod) {}, time.Time{}, EndingForeign},
		"of one that is not guarded":                         {func(p *corev1.Pod) { p.Finalizers = nil }, deletedAt, EndingForeign},
	} {
		t.Run(name, func(t *testing.T) {
			if got := EvidenceAgent.Ending(ending(bySharedKubelet, tc.change), false, tc.since); got != tc.want {
				t.Errorf("Ending = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestASharedTerminationCountsWithoutEntries(t *testing.T) {
	shared := ended(EndingShared, longAgo)
	decides(t, map[string]decideCase{
		"with agents and no entry it is the kubelet's": {
			terminating(agent, shared, noEntries), want{RowNoAddresses, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"with agents and an entry the agent is queried": {
			terminating(agent, shared), want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"with agents, within the grace period too: an entry is left": {
			terminating(agent, shared, pod(func(p *Pod) { p.Deadline = now })), want{RowGracePeriod, Wait, v1alpha1.ReasonGracePeriod, 30 * time.Second}},
		"a report of a live sandbox wins over it": {
			terminating(agent, shared, noEntries, queriedAll(newQuery(), Known(responded(alive, followed)))), want{RowMayBeStarting, Wait, v1alpha1.ReasonMayBeStarting, 0}},
		"without agents it holds a pod without entries": {
			terminating(shared, noEntries), want{RowMayBeStarting, Wait, v1alpha1.ReasonKubeletNotFinished, 0}},
		"without agents it holds a pod with entries": {
			terminating(shared), want{RowAwaitKubeletReport, Wait, v1alpha1.ReasonKubeletNotFinished, 0}},
		"a completed pod that is not deleted keeps its entries": {
			terminating(agent, notDeleting, shared), want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 0}},
	})
	for _, o := range []Observation{terminating(shared), terminating(shared, noEntries)} {
		if d := Decide(o, now); !strings.Contains(d.Message, "install the agents") {
			t.Errorf("the message does not have what ends the wait: %s", d.Message)
		}
	}
}

// TestASharedWriteIsASignOfLife: for the kubelet of a deleted Node that is safe, although PodGC may have written it.
func TestASharedWriteIsASignOfLife(t *testing.T) {
	if sign := SignOfLife(ending(bySharedKubelet), deletedAt); sign == nil || !sign.Equal(new(metav1.NewTime(deletedAt.Add(5*time.Second)))) {
		t.Errorf("SignOfLife = %v, want the write of k3s", sign)
	}
}
