// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// TestI2AnEntryThatComesAfterTheDeletionIsRecordedForItsPod: the pod was deleted while its containers were created, and the ADD's entry
// came after that. Only what was watched ties it to the UID, which a live read of the pools does not say.
func TestI2AnEntryThatComesAfterTheDeletionIsRecordedForItsPod(t *testing.T) {
	pod := namesake("old", "10.0.0.5")
	pod.Annotations = nil
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: lateNow.Add(30 * time.Second)}, new(int64(30))
	pod.Status.Phase = corev1.PodPending
	f := newFate(t, pod, nodeObject("node", "node-1", "m1"))
	f.r.witness.Handler().OnAdd(pod, false)
	f.pool.entries[0].AddObserved, f.pool.entries[0].SeenSince = true, lateNow.Add(time.Second)
	if err := f.after(2 * time.Second); err != nil {
		t.Fatal(err)
	}
	var record v1alpha1.IPAllocation
	if err := f.truth.Get(t.Context(), client.ObjectKey{Name: "old"}, &record); err != nil {
		t.Fatalf("no record has the entry, and the orphan's look leaves it to the pod: %v", err)
	}
	if len(record.Spec.Addresses) != 1 || record.Spec.Addresses[0].SandboxID != "old-sandbox" {
		t.Errorf("the record holds %+v", record.Spec.Addresses)
	}
}

func drain(q orphanQueue) []sandboxID {
	var ids []sandboxID
	for q.Len() > 0 {
		id, _ := q.Get()
		q.Done(id)
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// TestI10TheEndOfWhatLedToAnEntryLeadsToALook: what a look left to a pod or to its record is looked at again when that goes.
func TestI10TheEndOfWhatLedToAnEntryLeadsToALook(t *testing.T) {
	f := newFate(t)
	r := orphansOf(f)
	pod, record := namesake("old", "10.0.0.5"), recordOfOld(nil)
	record.Spec.Sandboxes = append(record.Spec.Sandboxes, v1alpha1.SandboxRecord{ID: "next-sandbox"})
	without := record.DeepCopy()
	without.Spec.Sandboxes = without.Spec.Sandboxes[1:]
	other := pod.DeepCopy()
	other.Annotations = nil
	orphan := record.DeepCopy()
	orphan.Name = v1alpha1.OrphanPrefix + "old-sandbox"
	for name, tc := range map[string]struct {
		happen func(orphanQueue)
		want   []sandboxID
	}{
		"the pod is deleted": {func(q orphanQueue) {
			r.podEvents().Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{Object: pod}, q)
		}, []sandboxID{"old-sandbox"}},
		"the pod shows other addresses": {func(q orphanQueue) {
			r.podEvents().Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod, ObjectNew: other}, q)
		}, []sandboxID{"old-sandbox"}},
		"the pod changes in something else": {func(q orphanQueue) {
			r.podEvents().Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod, ObjectNew: pod}, q)
		}, nil},
		"the pod's record is deleted": {func(q orphanQueue) {
			orphanEvents().Delete(t.Context(), event.TypedDeleteEvent[*v1alpha1.IPAllocation]{Object: record}, q)
		}, []sandboxID{"next-sandbox", "old-sandbox"}},
		"the pod's record has a sandbox no more": {func(q orphanQueue) {
			orphanEvents().Update(t.Context(), event.TypedUpdateEvent[*v1alpha1.IPAllocation]{ObjectOld: record, ObjectNew: without}, q)
		}, []sandboxID{"old-sandbox"}},
		"an orphan's record is deleted": {func(q orphanQueue) {
			orphanEvents().Delete(t.Context(), event.TypedDeleteEvent[*v1alpha1.IPAllocation]{Object: orphan}, q)
		}, []sandboxID{"old-sandbox"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[sandboxID]())
			defer q.ShutDown()
			tc.happen(q)
			if got := drain(q); !slices.Equal(got, tc.want) {
				t.Errorf("looks at %v, expected %v", got, tc.want)
			}
		})
	}
}

// TestI10AWaitWithoutARecordIsAScheduledLook: for releaseDelay an entry of nobody has no record; the audit knows of the look ahead.
func TestI10AWaitWithoutARecordIsAScheduledLook(t *testing.T) {
	f := newFate(t)
	f.pool.entries[0].SeenSince = lateNow
	r := orphansOf(f)
	r.core.looks = newScheduledLooks()
	unaccounted := func() bool {
		records, err := index.Records(t.Context(), f.r.client, index.RecordSandbox, "old-sandbox")
		if err != nil {
			t.Fatal(err)
		}
		return len(records) == 0 && !slices.Contains(r.looks.ids(), "old-sandbox")
	}
	if !unaccounted() {
		t.Fatal("nobody has looked at the entry yet")
	}
	for _, later := range []time.Duration{0, time.Hour} {
		f.clock.SetTime(lateNow.Add(later))
		if _, err := r.Reconcile(t.Context(), "old-sandbox"); err != nil {
			t.Fatal(err)
		}
		if unaccounted() {
			t.Errorf("after %s nothing leads to the entry", later)
		}
	}
	f.pool.entries = []ipam.Entry{}
	if _, err := r.Reconcile(t.Context(), "old-sandbox"); err != nil {
		t.Fatal(err)
	}
	if ids := r.looks.ids(); len(ids) > 0 {
		t.Errorf("looks at %v are scheduled though nothing is left of it", ids)
	}
}

// TestI2ACompletedPodThatIsKeptHoldsNoOrphan: it shows its addresses for as long as it is kept, and uses none.
func TestI2ACompletedPodThatIsKeptHoldsNoOrphan(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   int
	}{
		"its kubelet reported that it completed": {func(*corev1.Pod) {}, 1},
		"its kubelet reported so a moment ago":   {func(p *corev1.Pod) { p.ManagedFields[0].Time = &metav1.Time{Time: lateNow.Add(24 * time.Hour)} }, 0},
		"another field manager wrote the phase":  {func(p *corev1.Pod) { p.ManagedFields[0].Manager = "kube-controller-manager" }, 0},
		"its kubelet rejected it, and it may run": {func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Message = corev1.PodFailed, "Pod was rejected: no more pods"
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pod := finishedNamesake()
			pod.Name, pod.UID, pod.DeletionTimestamp = "job-0", "job", nil
			tc.change(pod)
			node := nodeObject("node", "node-1", "m1")
			s := newSearch(t, node, pod)
			s.ask()
			s.acknowledges(node, 0)
			if got := s.look(); got != tc.want {
				t.Errorf("%d addresses were released, expected %d", got, tc.want)
			}
		})
	}
}
