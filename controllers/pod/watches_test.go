// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// TestI2AConflictWithAnotherPodOfTheNameEndsWithIt: the record of an earlier pod waits because the pod that has its name shows the address.
func TestI2AConflictWithAnotherPodOfTheNameEndsWithIt(t *testing.T) {
	f := newWorld(t, onepod.RecordOfOld(nil))
	pod := onepod.PodOf("next", "10.0.0.5")
	other := onepod.PodOf("next", "10.0.0.6")
	elsewhere := pod.DeepCopy()
	elsewhere.Name = "db-0"
	events := podEvents(f.r.client)
	for name, tc := range map[string]struct {
		happen func(uidQueue)
		want   []types.UID
	}{
		"the other pod is deleted": {func(q uidQueue) {
			events.Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{Object: pod}, q)
		}, []types.UID{"next", "old"}},
		"the other pod shows another address": {func(q uidQueue) {
			events.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod, ObjectNew: other}, q)
		}, []types.UID{"next", "old"}},
		"the other pod shows what it did": {func(q uidQueue) {
			events.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod, ObjectNew: pod}, q)
		}, []types.UID{"next"}},
		"a pod of another name is deleted": {func(q uidQueue) {
			events.Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{Object: elsewhere}, q)
		}, []types.UID{"next"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.UID]())
			defer q.ShutDown()
			tc.happen(q)
			var got []types.UID
			for q.Len() > 0 {
				uid, _ := q.Get()
				q.Done(uid)
				got = append(got, uid)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("looks at %v, expected %v", got, tc.want)
			}
		})
	}
}

// TestAReportedPodComesBeforeTheReplayOfAStart: a leader that takes over looks first at what the last one could have released.
func TestAReportedPodComesBeforeTheReplayOfAStart(t *testing.T) {
	q := priorityqueue.New[types.UID]("")
	defer q.ShutDown()
	events := podEvents(newWorld(t).r.client)
	for _, name := range []string{"held", "completed", "deleted and reported", "running"} {
		pod := onepod.PodOf(name, "10.0.0.5")
		if name == "held" || name == "deleted and reported" {
			pod.DeletionTimestamp = new(metav1.Now())
		}
		if name == "completed" || name == "deleted and reported" {
			pod.Status.Phase = corev1.PodSucceeded
		}
		events.Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: pod, IsInInitialList: true}, q)
	}
	for i := range 4 {
		uid, priority, _ := q.GetWithPriority()
		if isReported := uid == "deleted and reported"; isReported != (i == 0) || isReported != (priority == 0) {
			t.Errorf("%d: pod %q with priority %d", i, uid, priority)
		}
	}
}
