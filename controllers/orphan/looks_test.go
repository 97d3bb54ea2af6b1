// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

func drain(q requests) []sandboxID {
	var ids []sandboxID
	for q.Len() > 0 {
		id, _ := q.Get()
		q.Done(id)
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// TestI10TheEndOfAnOwnerQueuesItsEntries: entries that were left to a pod or to its record are reconciled when that is deleted.
func TestI10TheEndOfAnOwnerQueuesItsEntries(t *testing.T) {
	f := newWorld(t)
	r := f.r
	pod, record := onepod.PodOf("old", "10.0.0.5"), onepod.RecordOfOld(nil)
	record.Spec.Sandboxes = append(record.Spec.Sandboxes, v1alpha1.SandboxRecord{ID: "next-sandbox"})
	without := record.DeepCopy()
	without.Spec.Sandboxes = without.Spec.Sandboxes[1:]
	other := pod.DeepCopy()
	other.Annotations = nil
	orphan := record.DeepCopy()
	orphan.Name = v1alpha1.OrphanPrefix + "old-sandbox"
	for name, tc := range map[string]struct {
		happen func(requests)
		want   []sandboxID
	}{
		"the pod is deleted": {func(q requests) {
			r.podEvents().Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{Object: pod}, q)
		}, []sandboxID{"old-sandbox"}},
		"the pod shows other addresses": {func(q requests) {
			r.podEvents().Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod, ObjectNew: other}, q)
		}, []sandboxID{"old-sandbox"}},
		"the pod changes in something else": {func(q requests) {
			r.podEvents().Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod, ObjectNew: pod}, q)
		}, nil},
		"the pod's record is deleted": {func(q requests) {
			orphanEvents().Delete(t.Context(), event.TypedDeleteEvent[*v1alpha1.IPAllocation]{Object: record}, q)
		}, []sandboxID{"next-sandbox", "old-sandbox"}},
		"the pod's record no longer has a sandbox": {func(q requests) {
			orphanEvents().Update(t.Context(), event.TypedUpdateEvent[*v1alpha1.IPAllocation]{ObjectOld: record, ObjectNew: without}, q)
		}, []sandboxID{"old-sandbox"}},
		"an orphan's record is deleted": {func(q requests) {
			orphanEvents().Delete(t.Context(), event.TypedDeleteEvent[*v1alpha1.IPAllocation]{Object: orphan}, q)
		}, []sandboxID{"old-sandbox"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[sandboxID]())
			defer q.ShutDown()
			tc.happen(q)
			if got := drain(q); !slices.Equal(got, tc.want) {
				t.Errorf("queues %v, expected %v", got, tc.want)
			}
		})
	}
}

// TestI10AWaitWithoutARecordIsAScheduledLook: for releaseDelay an entry without an owner has no record; the audit sees that it is scheduled.
func TestI10AWaitWithoutARecordIsAScheduledLook(t *testing.T) {
	f := newWorld(t)
	f.Pool.Entries[0].SeenSince = onepod.Now
	r := f.r
	unaccounted := func() bool {
		records, err := index.Records(t.Context(), f.r.client, index.RecordSandbox, "old-sandbox")
		if err != nil {
			t.Fatal(err)
		}
		return len(records) == 0 && !slices.Contains(r.looks.ids(), "old-sandbox")
	}
	if !unaccounted() {
		t.Fatal("the entry was not reconciled yet")
	}
	for _, later := range []time.Duration{0, time.Hour} {
		f.Clock.SetTime(onepod.Now.Add(later))
		if _, err := r.Reconcile(t.Context(), "old-sandbox"); err != nil {
			t.Fatal(err)
		}
		if unaccounted() {
			t.Errorf("after %s nothing leads to the entry", later)
		}
	}
	f.Pool.Entries = []ipam.Entry{}
	if _, err := r.Reconcile(t.Context(), "old-sandbox"); err != nil {
		t.Fatal(err)
	}
	if ids := r.looks.ids(); len(ids) > 0 {
		t.Errorf("%v are scheduled although no entry is left", ids)
	}
}

// TestI2ACompletedPodThatIsKeptHoldsNoOrphan: it keeps showing its addresses, and uses none.
func TestI2ACompletedPodThatIsKeptHoldsNoOrphan(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   int
	}{
		"its kubelet reported that it completed": {func(*corev1.Pod) {}, 1},
		"its kubelet reported so a moment ago":   {func(p *corev1.Pod) { p.ManagedFields[0].Time = &metav1.Time{Time: onepod.Now.Add(24 * time.Hour)} }, 0},
		"another field manager wrote the phase":  {func(p *corev1.Pod) { p.ManagedFields[0].Manager = "kube-controller-manager" }, 0},
		"its kubelet rejected it, and it may run": {func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Message = corev1.PodFailed, "Pod was rejected: no more pods"
		}, 0},
	} {
		for kind, podName := range map[string]string{"of another name": "job-0", "of the entry's name": "web-1"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				pod := onepod.FinishedPod()
				pod.Name, pod.UID, pod.DeletionTimestamp = podName, "job", nil
				tc.change(pod)
				node := onepod.Node("node", "node-1", "m1")
				s := newSearch(t, node, pod)
				s.Pool.Entries[0].Releasing = v1alpha1.OrphanPrefix + string(lost) // the entry of no pod, also if its annotation names one
				s.queryAll()
				s.acknowledges(node, 0)
				if got := s.look(); got != tc.want {
					t.Errorf("%d addresses were released, expected %d", got, tc.want)
				}
			})
		}
	}
}

// TestAFirstListQueuesEachOrphanOnce: every orphan is in the first list of records, so that Nodes need no look-up for each at a start, which panics without
// a cache. They only wake the reclaimer.
func TestAFirstListQueuesEachOrphanOnce(t *testing.T) {
	r := newWorld(t).r
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[sandboxID]())
	defer q.ShutDown()
	orphan := onepod.RecordOfOld(nil)
	orphan.Name = v1alpha1.OrphanPrefix + "old-sandbox"
	orphanEvents().Create(t.Context(), event.TypedCreateEvent[*v1alpha1.IPAllocation]{Object: orphan, IsInInitialList: true}, q)
	r.client = nil
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	r.nodeEvents().Create(t.Context(), event.TypedCreateEvent[*corev1.Node]{Object: node, IsInInitialList: true}, q)
	if got := drain(q); !slices.Equal(got, []sandboxID{"old-sandbox"}) {
		t.Errorf("looks at %v, expected the orphan", got)
	}
	if !r.reclaimer.changed.Load() {
		t.Error("the Node did not wake the reclaimer")
	}
	r.client = newWorld(t, orphan).r.client
	r.nodeEvents().Create(t.Context(), event.TypedCreateEvent[*corev1.Node]{Object: node}, q)
	if got := drain(q); !slices.Equal(got, []sandboxID{"old-sandbox"}) {
		t.Errorf("after the first list a Node looks at %v, expected the orphan that it claimed", got)
	}
}

// unlisted is a backend before its first list of pools.
type unlisted struct{ ipam.Backend }

func (unlisted) HasSynced() bool { return false }

// TestI10NothingIsDecidedOrTriedAgainBeforePoolsAreListed: the replay queues what is there then. A retry of each sandbox each second would be what a start
// beside many of them takes.
func TestI10NothingIsDecidedOrTriedAgainBeforePoolsAreListed(t *testing.T) {
	f := newWorld(t)
	for i, b := range f.r.options.Backends {
		f.r.options.Backends[i] = unlisted{b}
	}
	result, err := f.r.Reconcile(t.Context(), "old-sandbox")
	if err != nil || result != (reconcile.Result{}) {
		t.Errorf("result %+v, %v; expected none", result, err)
	}
	var records v1alpha1.IPAllocationList
	if err := f.Truth.List(t.Context(), &records); err != nil || len(records.Items) > 0 {
		t.Errorf("recorded %v, %v; expected no record", records.Items, err)
	}
}
