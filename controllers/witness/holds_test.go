// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/kept"
)

// waiting is a pod that is being deleted since a time, with the reason in its condition unless it is empty.
func waiting(uid types.UID, deleted time.Time, reason v1alpha1.Reason) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "name-of-" + string(uid), UID: uid}}
	if !deleted.IsZero() {
		pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: deleted}, []string{v1alpha1.Finalizer, "example.com/other"}
	}
	if reason != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.IPsReleasedCondition, Status: corev1.ConditionFalse, Reason: string(reason)}}
	}
	return pod
}

func TestTheOldestHoldOfEachReason(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen := New(testingclock.NewFakePassiveClock(now))
	events := seen.Handler()
	first := waiting("a", now.Add(-time.Hour), v1alpha1.ReasonNodeUnreachable)
	for _, pod := range []*corev1.Pod{
		first,
		waiting("b", now.Add(-time.Minute), v1alpha1.ReasonNodeUnreachable),
		waiting("c", now.Add(-time.Second), v1alpha1.ReasonConflict),
		waiting("in its grace period, told early", now.Add(time.Minute), v1alpha1.ReasonAgentNotResponding),
		waiting("deleted, told nothing", now.Add(-24*time.Hour), ""),
		waiting("not deleted", time.Time{}, v1alpha1.ReasonConflict),
	} {
		events.OnAdd(pod, true)
	}
	want := map[string]time.Duration{"NodeUnreachable": time.Hour, "Conflict": time.Second, "AgentNotResponding": 0}
	if diff := cmp.Diff(want, seen.OldestHolds()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	events.OnUpdate(first, waiting("a", now.Add(-time.Hour), v1alpha1.ReasonKubeletNotFinished))
	want = map[string]time.Duration{"NodeUnreachable": time.Minute, "KubeletNotFinished": time.Hour, "Conflict": time.Second, "AgentNotResponding": 0}
	if diff := cmp.Diff(want, seen.OldestHolds()); diff != "" {
		t.Errorf("after another reason was told (-want +got):\n%s", diff)
	}
	events.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: first})
	delete(want, "KubeletNotFinished")
	if diff := cmp.Diff(want, seen.OldestHolds()); diff != "" {
		t.Errorf("after the pod went (-want +got):\n%s", diff)
	}

	released := waiting("c", now.Add(-time.Second), v1alpha1.ReasonConflict)
	released.Finalizers = []string{"example.com/other"}
	events.OnUpdate(waiting("c", now.Add(-time.Second), v1alpha1.ReasonConflict), released)
	delete(want, "Conflict")
	if diff := cmp.Diff(want, seen.OldestHolds()); diff != "" {
		t.Errorf("after a pod had lost the finalizer (-want +got):\n%s", diff)
	}

	events.OnAdd(waiting("c", now.Add(-time.Second), v1alpha1.ReasonConflict), false)
	events.OnUpdate(waiting("c", now.Add(-time.Second), v1alpha1.ReasonConflict), waiting("next of its name", time.Time{}, ""))
	delete(want, "Conflict")
	if diff := cmp.Diff(want, seen.OldestHolds()); diff != "" {
		t.Errorf("after a list had the next pod of the name in the place of one (-want +got):\n%s", diff)
	}
}

// A hold is read from the condition, so the cache has to keep it.
func TestAHoldIsReadFromWhatTheCacheKeeps(t *testing.T) {
	deleted := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var stripped any
	for kind, by := range kept.ByObject() {
		if _, isPod := kind.(*corev1.Pod); isPod {
			stripped, _ = by.Transform(waiting("a", deleted, v1alpha1.ReasonConflict))
		}
	}
	held, ok := holdOf(stripped.(*corev1.Pod))
	if !ok || held.reason != v1alpha1.ReasonConflict || !held.since.Equal(deleted) {
		t.Errorf("got %v, %v", held, ok)
	}
}
