// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
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
		"a list after a lost watch has the next pod in the place of the one before": {func(q uidQueue) {
			before := pod.DeepCopy()
			before.UID = "before"
			events.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: before, ObjectNew: pod}, q)
		}, []types.UID{"before", "next", "old"}},
		"a pod of another name is deleted": {func(q uidQueue) {
			events.Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{Object: elsewhere}, q)
		}, []types.UID{"next"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.UID]())
			defer q.ShutDown()
			tc.happen(q)
			if got := drain(q); !slices.Equal(got, tc.want) {
				t.Errorf("looks at %v, expected %v", got, tc.want)
			}
		})
	}
}

// TestAConflictWithAPodThatIsJustEndingIsNotReported: its CNI DEL has run, and another pod may have its address.
func TestAConflictWithAPodThatIsJustEndingIsNotReported(t *testing.T) {
	ended := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodSucceeded
			p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", APIVersion: "v1",
				Time: new(metav1.NewTime(onepod.Now.Add(-ago))), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
		}
	}
	deleted := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = new(metav1.NewTime(onepod.Now.Add(-ago))), []string{v1alpha1.Finalizer}
		}
	}
	const slack = time.Minute
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"it runs":                      {func(*corev1.Pod) {}, false},
		"it has just ended":            {ended(slack / 2), true},
		"it ended a while ago":         {ended(2 * slack), false},
		"its grace period is over now": {deleted(slack / 2), true},
		"it was over a while ago":      {deleted(2 * slack), false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := onepod.PodOf("other", "10.0.0.5")
			tc.change(pod)
			f := newWorld(t, pod)
			f.r.options.Settings.GracePeriodSlack = slack
			if got := f.r.leaving(t.Context(), "other"); got != tc.want {
				t.Errorf("leaving: %t, expected %t", got, tc.want)
			}
		})
	}
}

// TestAConflictWithASandboxThatThePodDisownedIsNotReported: it comes after a CNI ADD that failed, and every node is queried about it.
func TestAConflictWithASandboxThatThePodDisownedIsNotReported(t *testing.T) {
	for name, tc := range map[string]struct {
		disownedBy types.UID
		ago        time.Duration
		node       string
		quiet      bool
	}{
		"just now":                  {"old", time.Minute, "", true},
		"for longer than usual":     {"old", 15 * time.Minute, "", false},
		"and a node has claimed it": {"old", time.Minute, "node", false},
		"by another pod":            {"other", time.Minute, "", false},
		"by none":                   {"", time.Minute, "", false},
	} {
		orphan := onepod.RecordOfOld(nil)
		orphan.Name, orphan.Spec.DisownedBy, orphan.Spec.NodeName = v1alpha1.OrphanPrefix+"s9", tc.disownedBy, tc.node
		orphan.Spec.Sandboxes[0].ID, orphan.Spec.Addresses[0].SandboxID = "s9", "s9"
		orphan.CreationTimestamp = metav1.NewTime(onepod.Now.Add(-tc.ago))
		f := newWorld(t, orphan)
		v := &view{uid: "old", held: []facts.Held{{Entry: f.Pool.Entries[0]}}}
		if err := f.r.markConflicts(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		if got := v.held[0]; !got.Conflict || got.Quiet != tc.quiet || v.disowning != (tc.disownedBy == "old") {
			t.Errorf("disowned %s: conflict %t, quiet %t, disowning %t", name, got.Conflict, got.Quiet, v.disowning)
		}
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

// TestAFirstListQueuesEachPodAndRecordOnce: every pod and record is in a first list, so that a start needs no look-up for each of them or for their Node.
// Without a cache a look-up panics.
func TestAFirstListQueuesEachPodAndRecordOnce(t *testing.T) {
	q := priorityqueue.New[types.UID]("")
	defer q.ShutDown()
	held := onepod.PodOf("terminating", "10.0.0.5")
	held.DeletionTimestamp = new(metav1.Now())
	podEvents(nil).Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: held, IsInInitialList: true}, q)
	record := onepod.RecordOfOld(nil)
	orphan := record.DeepCopy()
	orphan.Name = v1alpha1.OrphanPrefix + "sandbox"
	for _, r := range []*v1alpha1.IPAllocation{record, orphan} {
		recordEvents(nil).Create(t.Context(), event.TypedCreateEvent[*v1alpha1.IPAllocation]{Object: r, IsInInitialList: true}, q)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	nodeEvents(nil).Create(t.Context(), event.TypedCreateEvent[*corev1.Node]{Object: node, IsInInitialList: true}, q)
	for _, want := range []types.UID{"terminating", "old"} {
		if uid, priority, _ := q.GetWithPriority(); uid != want || priority != handler.LowPriority {
			t.Errorf("%s with priority %d, want %s with %d", uid, priority, want, handler.LowPriority)
		}
	}
	if q.Len() != 0 {
		t.Errorf("%d more are queued", q.Len())
	}
}

// TestANewNodeOrRecordQueuesWhatItMayEnd: after the first list, a Node queues its held records, and a record those with its address.
func TestANewNodeOrRecordQueuesWhatItMayEnd(t *testing.T) {
	f := newWorld(t, onepod.RecordOfOld(nil))
	other := onepod.RecordOfOld(nil)
	other.Name = "new"
	for name, tc := range map[string]struct {
		happen func(uidQueue)
		want   []types.UID
	}{
		"a Node": {func(q uidQueue) {
			nodeEvents(f.r.client).Create(t.Context(), event.TypedCreateEvent[*corev1.Node]{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}}, q)
		}, []types.UID{"old"}},
		"a record": {func(q uidQueue) {
			recordEvents(f.r.client).Create(t.Context(), event.TypedCreateEvent[*v1alpha1.IPAllocation]{Object: other}, q)
		}, []types.UID{"new", "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.UID]())
			defer q.ShutDown()
			tc.happen(q)
			if got := drain(q); !slices.Equal(got, tc.want) {
				t.Errorf("looks at %v, expected %v", got, tc.want)
			}
		})
	}
}

func drain(q uidQueue) []types.UID {
	var uids []types.UID
	for q.Len() > 0 {
		uid, _ := q.Get()
		q.Done(uid)
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return uids
}
