// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// deletedAt is when the deletion of the pods below was requested, with a grace period of 30s.
var deletedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ending(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func deleting(p *corev1.Pod) {
	p.DeletionTimestamp = &metav1.Time{Time: deletedAt.Add(30 * time.Second)}
	p.DeletionGracePeriodSeconds = new(int64(30))
}

// graceZero is what the kubelet's DELETE leaves: both fields move together.
func graceZero(p *corev1.Pod) {
	p.DeletionTimestamp = &metav1.Time{Time: deletedAt}
	p.DeletionGracePeriodSeconds = new(int64(0))
}

func owner(manager, subresource, fields string, at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource,
			Time: &metav1.Time{Time: at}, FieldsV1: metav1.NewFieldsV1(fields)})
	}
}

const phaseFields = `{"f:status":{"f:phase":{},"f:podIP":{}}}`

func byKubelet(at time.Time) func(*corev1.Pod) { return owner("kubelet", "status", phaseFields, at) }

func containerEnded(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Time{Time: at}}}})
	}
}

func TestPodEnding(t *testing.T) {
	later, before := deletedAt.Add(5*time.Second), deletedAt.Add(-time.Hour)
	tests := map[string]struct {
		pod  *corev1.Pod
		seen bool
		want Ending
	}{
		"a running pod has no ending": {
			ending(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, byKubelet(later)), true, EndingNone},
		"terminal after the deletion, by the kubelet, with a container that ended later": {
			ending(deleting, byKubelet(later), containerEnded(later)), false, EndingFinished},
		"the kubelet's own DELETE with grace 0 does not move the moment of the deletion": {
			ending(graceZero, byKubelet(later), containerEnded(later)), false, EndingFinished},
		"a watcher that saw it alive while it was deleting needs no times": {
			ending(graceZero, byKubelet(deletedAt)), true, EndingFinished},
		"within the second of the deletion it is unknown": {
			ending(graceZero, byKubelet(deletedAt), containerEnded(deletedAt)), false, EndingCompleted},
		"terminal long before, and touched by the kubelet since": {
			ending(graceZero, byKubelet(later), containerEnded(before)), false, EndingCompleted},
		"terminal and not deleted": {
			ending(byKubelet(before), containerEnded(before)), false, EndingCompleted},
		"rejected by the kubelet after its deletion": {
			ending(deleting, byKubelet(later), func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Message = corev1.PodFailed, "Pod was rejected: node is shutting down"
			}), true, EndingRejected},
		"written by PodGC": {
			ending(deleting, owner("kube-controller-manager", "status", phaseFields, later), containerEnded(later)), true, EndingForeign},
		"co-owned by another manager": {
			ending(deleting, byKubelet(later), owner("someone", "status", phaseFields, later), containerEnded(later)), true, EndingForeign},
		"written by a manager called kubelet, but not through the status subresource": {
			ending(deleting, owner("kubelet", "", phaseFields, later), containerEnded(later)), true, EndingForeign},
		"without an owner": {
			ending(deleting, containerEnded(later)), true, EndingForeign},
		"with unreadable ownership of another manager": {
			ending(deleting, byKubelet(later), owner("someone", "status", `{"f:status":`, later), containerEnded(later)), true, EndingForeign},
		"with ownership of the kubelet that cannot be read": {
			ending(deleting, owner("kubelet", "status", `{"f:status":`, later), containerEnded(later)), true, EndingForeign},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := PodEndingSeen(tc.pod, tc.seen); got != tc.want {
				t.Errorf("PodEndingSeen = %d, want %d", got, tc.want)
			}
			tc.pod.ManagedFields = FieldOwnership(tc.pod.ManagedFields)
			if got := PodEndingSeen(tc.pod, tc.seen); got != tc.want {
				t.Errorf("after FieldOwnership: PodEndingSeen = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	tests := map[string]struct {
		recorded, live Machine
		want           Relation
	}{
		"all the same":                               {machine, machine, SameMachine},
		"a new Node object of the same boot":         {machine, registered, Reregistered},
		"a new boot":                                 {machine, rebooted, Rebooted},
		"a new boot under a new Node object":         {machine, Machine{"node-2", "machine-1", "system-1", "boot-2"}, Resembling},
		"another machine":                            {machine, replaced, Replaced},
		"another machine under the same Node object": {machine, Machine{"node-1", "machine-2", "system-2", "boot-2"}, Replaced},
		"another system UUID is another machine":     {machine, Machine{"node-1", "machine-1", "system-2", "boot-2"}, Replaced},
		"IDs empty on both sides, same UID":          {Machine{NodeUID: "node-1"}, Machine{NodeUID: "node-1"}, SameMachine},
		"IDs empty on both sides, another UID":       {Machine{NodeUID: "node-1"}, Machine{NodeUID: "node-2"}, Replaced},
		"IDs empty on one side":                      {machine, Machine{NodeUID: "node-1"}, Replaced},
		"a boot ID that is not reported any more":    {machine, Machine{"node-1", "machine-1", "system-1", ""}, Replaced},
		"nothing known at all":                       {Machine{}, Machine{}, Replaced},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Compare(tc.recorded, tc.live); got != tc.want {
				t.Errorf("Compare = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestSignOfLifeIsOfAPodWithPoliciesSinceItsDeletion(t *testing.T) {
	second := func(s int) time.Time { return deletedAt.Add(time.Duration(s) * time.Second) }
	guarded := func(p *corev1.Pod) { p.Finalizers = []string{v1alpha1.Finalizer} }
	wrote := func(manager, subresource string, s int) func(*corev1.Pod) {
		return owner(manager, subresource, phaseFields, second(s))
	}
	tests := map[string]struct {
		pod   *corev1.Pod
		since time.Time
		want  time.Time
	}{
		"the last write of its kubelet":        {ending(deleting, guarded, wrote("kubelet", "status", 1), wrote("kubelet", "status", 3)), deletedAt, second(3)},
		"not of another client":                {ending(deleting, guarded, wrote("kubelet", "status", 1), wrote("kube-controller-manager", "status", 3)), deletedAt, second(1)},
		"not past the status subresource":      {ending(deleting, guarded, wrote("kubelet", "", 3)), deletedAt, time.Time{}},
		"not from before the deletion":         {ending(deleting, guarded, wrote("kubelet", "status", -1)), deletedAt, time.Time{}},
		"not of a pod that is not deleted":     {ending(guarded, wrote("kubelet", "status", 3)), deletedAt, time.Time{}},
		"not of a pod without the finalizer":   {ending(deleting, wrote("kubelet", "status", 3)), deletedAt, time.Time{}},
		"not if the policies came later":       {ending(deleting, guarded, wrote("kubelet", "status", 3)), second(1), time.Time{}},
		"not while the policies are not there": {ending(deleting, guarded, wrote("kubelet", "status", 3)), time.Time{}, time.Time{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got time.Time
			if sign := SignOfLife(tc.pod, tc.since); sign != nil {
				got = sign.Time
			}
			if !got.Equal(tc.want) {
				t.Errorf("SignOfLife = %s, want %s", got, tc.want)
			}
		})
	}
}

// TestI11ATerminationThatOthersCanWriteIsNotTheKubelets: the phase is the same; only its possible writers differ.
func TestI11ATerminationThatOthersCanWriteIsNotTheKubelets(t *testing.T) {
	written := owner("kubelet", "status", phaseFields, deletedAt.Add(5*time.Second))
	terminal := func(p *corev1.Pod) { p.Status.Phase, p.Finalizers = corev1.PodFailed, []string{v1alpha1.Finalizer} }
	unguarded := func(p *corev1.Pod) { p.Finalizers = nil }
	made := func(at time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at) }
	}
	tests := map[string]struct {
		pod   *corev1.Pod
		since time.Time
		seen  bool
		want  Ending
	}{
		"the policies judged every write":                           {ending(deleting, terminal, written, made(deletedAt)), deletedAt, false, EndingCompleted},
		"every write since it was seen deleted and not ended":       {ending(deleting, terminal, written, made(deletedAt.Add(-time.Hour))), deletedAt, true, EndingFinished},
		"the pod is not guarded, so no write was judged":            {ending(deleting, terminal, written, made(deletedAt), unguarded), deletedAt, true, EndingForeign},
		"the controller did not see it so":                          {ending(deleting, terminal, written, made(deletedAt.Add(-time.Hour))), deletedAt, false, EndingForeign},
		"the policies came after the deletion":                      {ending(deleting, terminal, written, made(deletedAt.Add(-time.Hour))), deletedAt.Add(time.Second), true, EndingForeign},
		"there are no policies":                                     {ending(deleting, terminal, written, made(deletedAt)), time.Time{}, true, EndingForeign},
		"while it is not deleted the agent is queried all the same": {ending(terminal, written), time.Time{}, false, EndingCompleted},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ProvenEnding(tc.pod, tc.seen, tc.since); got != tc.want {
				t.Errorf("ProvenEnding = %d, want %d", got, tc.want)
			}
		})
	}
}
