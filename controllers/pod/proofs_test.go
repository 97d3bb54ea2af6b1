// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

const (
	takesFinalizerOff = "patch v1.pod"
	deletesRecord     = "delete v1alpha1.ipallocation"
	explainsOnPod     = "patch v1.pod/status"
	explainsOnRecord  = "patch v1alpha1.ipallocation/status"
)

// TestTheObjectWithTheProofIsWrittenLast: a failure between the two writes leaves the proof to the next pass.
func TestTheObjectWithTheProofIsWrittenLast(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	shared := onepod.FinishedPod() // of k3s
	shared.DeletionGracePeriodSeconds, shared.CreationTimestamp = new(int64(0)), metav1.NewTime(onepod.Now.Add(-2*time.Minute))
	shared.ManagedFields[0].Manager = "k3s"
	shared.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{"f:status":{"f:phase":{},"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{"f:reason":{},"f:status":{}}}}}`)
	shared.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "PodCompleted"}}
	shared.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(onepod.Now)}}}}
	cases := map[string]struct {
		objects []client.Object
		want    []string
	}{
		"a pod that its kubelet ended proves its own end": {
			[]client.Object{onepod.FinishedPod(), onepod.RecordOfOld(onepod.OldMachine()), node}, []string{deletesRecord, takesFinalizerOff}},
		"so does one that a process of both kubelet and PodGC ended": {
			[]client.Object{shared, onepod.RecordOfOld(onepod.OldMachine()), node}, []string{deletesRecord, takesFinalizerOff}},
		"of a pod on a node that is gone, the record has the proof": {
			[]client.Object{onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine())}, []string{takesFinalizerOff, deletesRecord}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, tc.objects...)
			if slices.Contains(tc.objects, client.Object(shared)) {
				f.r.options.Evidence, f.JudgedSince = release.EvidenceAgent, onepod.Now.Add(-time.Hour)
			}
			f.absence.Since = onepod.Now.Add(-time.Hour)
			f.Pool.Entries = nil
			f.FailWrites = tc.want[0]
			if err := f.after(0); err == nil {
				t.Error("a write failed, and there is no retry")
			}
			if len(f.Writes) > 0 {
				t.Errorf("%v came before %s", f.Writes, tc.want[0])
			}
			f.FailWrites = ""
			if err := f.after(time.Second); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, f.Writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestI3ALivePassRecordsNothingForAPodThatWasDeletedMeanwhile: the pod was deleted between the read of it and of its
// entries, and a successor with the same name got the same address.
func TestI3ALivePassRecordsNothingForAPodThatWasDeletedMeanwhile(t *testing.T) {
	f := newWorld(t, onepod.FinishedPod(), onepod.Node("node", "node-1", "m1"))
	f.Pool.Entries = onepod.HeldByOld()
	f.Pool.OnLive = func() {
		f.Pool.OnLive = nil
		var gone corev1.Pod
		if err := f.Truth.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web-1"}, &gone); err != nil {
			t.Fatal(err)
		}
		gone.Finalizers = nil
		if err := f.Truth.Update(t.Context(), &gone); err != nil {
			t.Fatal(err)
		}
		f.Apply(onepod.PodOf("new", "10.0.0.5"))
		f.Pool.Entries[0].SandboxID = "new-sandbox"
	}
	for _, later := range []time.Duration{0, time.Second, time.Hour} {
		_ = f.after(later) // the first one may ask for another try
	}
	var records v1alpha1.IPAllocationList
	if err := f.Truth.List(t.Context(), &records); err != nil || len(records.Items) > 0 {
		t.Errorf("a dead pod was given its successor's sandbox: %v, %v", records.Items, err)
	}
	if len(f.Pool.Released) > 0 {
		t.Errorf("a running pod's address was released: %v", f.Pool.Released)
	}
}

// TestI3ANetworkStatusIsNoEvidenceForTheNextSandbox: the first sandbox died and the next one's ADD inherited its address; the annotation still
// shows the address, written for the first, when the kubelet, which does not list the next one yet, reports termination.
func TestI3ANetworkStatusIsNoEvidenceForTheNextSandbox(t *testing.T) {
	cases := map[string]struct {
		record *v1alpha1.IPAllocation
	}{
		"the record has the address for the first sandbox":                                  {onepod.RecordOfOld(onepod.OldMachine())},
		"the record lost the first sandbox, whose entry had gone while the pod was deleted": {emptiedRecord()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := onepod.FinishedPod()
			pod.CreationTimestamp = metav1.NewTime(onepod.Now.Add(-20 * time.Minute))
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(onepod.Now)}}}}
			f := newWorld(t, pod, tc.record, onepod.Node("node", "node-1", "m1"))
			f.Pool.Entries[0].SandboxID = "next-sandbox"
			f.holdsUntil(0, time.Minute, 9*time.Minute)
			f.releasesAfter(10*time.Minute + 2*time.Second)
		})
	}
}

// TestI3ANetworkStatusDoesNotShowThatTheKubeletKnewTheSandbox: the kubelet, which did not list the sandbox yet, reported termination. Multus writes the
// status while the sandbox is being created, and so may any client that may change the pod.
func TestI3ANetworkStatusDoesNotShowThatTheKubeletKnewTheSandbox(t *testing.T) {
	pod := onepod.FinishedPod()
	pod.CreationTimestamp = metav1.NewTime(onepod.Now.Add(-20 * time.Minute))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(onepod.Now)}}}}
	record := onepod.RecordOfOld(onepod.OldMachine())
	record.Spec.Sandboxes[0].Attribution = v1alpha1.AttributionObservedAdd
	record.Spec.Addresses[0].ObservedTime = metav1.NewTime(onepod.Now)
	f := newWorld(t, pod, record, onepod.Node("node", "node-1", "m1"))
	f.r.options.Witness.Handler().OnUpdate(onepod.PodOf("old", "10.0.0.5"), pod)
	f.holdsUntil(0, time.Minute, 9*time.Minute)
	f.releasesAfter(10*time.Minute + 2*time.Second)
}

func emptiedRecord() *v1alpha1.IPAllocation {
	record := onepod.RecordOfOld(onepod.OldMachine())
	record.Spec.Sandboxes, record.Spec.Addresses = []v1alpha1.SandboxRecord{}, []v1alpha1.AddressRecord{}
	return record
}

// TestI5APodThatCannotBeReadIsNotGone: its record stays, although its kubelet reported termination and no pool has an entry for it.
func TestI5APodThatCannotBeReadIsNotGone(t *testing.T) {
	record := onepod.RecordOfOld(onepod.OldMachine())
	record.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, Node: onepod.OldMachine()}
	f := newWorld(t, record, onepod.Node("node", "node-1", "m1"))
	f.Pool.Entries = nil
	f.FailReads = "pods"
	if err := f.after(0); err == nil {
		t.Error("the pod could not be read, and there is no retry")
	}
	if len(f.Writes) > 0 {
		t.Errorf("written on an unread pod: %v", f.Writes)
	}
	f.FailReads = ""
	if err := f.after(time.Second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{deletesRecord}, f.Writes); diff != "" {
		t.Errorf("once the pod is known to be gone, writes (-want +got):\n%s", diff)
	}
}

// TestAFailedReadIsReportedOnceItLasts, and then once, also if the error changes.
func TestAFailedReadIsReportedOnceItLasts(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.goneUnread = errors.New("the API server is away")
	for _, later := range []time.Duration{0, reportUnreadAfter / 2, reportUnreadAfter, 2 * reportUnreadAfter, 3 * reportUnreadAfter} {
		if err := f.after(later); err == nil {
			t.Fatalf("after %s: it could not be read since when the node is gone, and there is no retry", later)
		}
		want := []string{explainsOnPod, explainsOnRecord}
		if later < reportUnreadAfter {
			want = nil
		}
		if diff := cmp.Diff(want, f.Writes); diff != "" {
			t.Fatalf("after %s, writes (-want +got):\n%s", later, diff)
		}
	}
}

// TestAFailedStatusWriteIsRetried long before the wait is over, and never later than its end.
func TestAFailedStatusWriteIsRetried(t *testing.T) {
	cases := map[string]struct {
		lastRetry time.Duration
		wantErr   bool
	}{
		"by the queue's back-off where that is shorter than the wait":  {time.Second, true},
		"after a moment where the back-off could outlast what is left": {time.Hour, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
			f.r.options.LastRetry = tc.lastRetry
			f.FailWrites = explainsOnPod
			result, err := f.reconcile(t.Context(), "old")
			if (err != nil) != tc.wantErr {
				t.Errorf("error %v, expected one: %t", err, tc.wantErr)
			}
			if err == nil && result.RequeueAfter != explainAgain {
				t.Errorf("tried again after %s, expected %s", result.RequeueAfter, explainAgain)
			}
		})
	}
}

// TestAPodWithoutItsLabelIsReconciledAgain: its events are not watched.
func TestAPodWithoutItsLabelIsReconciledAgain(t *testing.T) {
	pod := onepod.PodOf("old", "10.0.0.5")
	delete(pod.Labels, v1alpha1.GuardedLabel)
	f := newWorld(t, pod, onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1"))
	f.FailWrites = takesFinalizerOff // which is the name of any patch of the pod
	if _, _, err := f.r.pass(t.Context(), "old", true); err == nil {
		t.Error("the label could not be put back, and there is no retry")
	}
	f.FailWrites = ""
	if _, _, err := f.r.pass(t.Context(), "old", true); err != nil {
		t.Error(err)
	}
}

// TestI6ALateCacheOfRecordsShowsNoRivals: the cache needs the UID's own record in the version of the live read.
func TestI6ALateCacheOfRecordsShowsNoRivals(t *testing.T) {
	cases := map[string]struct {
		cached, read string
		want         bool
	}{
		"the cache has none":      {"", "7", true},
		"the cache has an older":  {"6", "7", true},
		"the cache has the same":  {"7", "7", false},
		"the cache has a younger": {"10", "7", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			record := onepod.RecordOfOld(onepod.OldMachine())
			var objects []client.Object
			if tc.cached != "" {
				cached := record.DeepCopy()
				cached.ResourceVersion = tc.cached
				objects = append(objects, cached)
			}
			record.ResourceVersion = tc.read
			f := newWorld(t, objects...)
			v := &view{uid: "old", record: record}
			if err := f.r.noteRecords(t.Context(), v); err != nil {
				t.Fatal(err)
			}
			late, err := v.recordsLate()
			if err != nil || late != tc.want {
				t.Errorf("late: %t, %v; expected %t", late, err, tc.want)
			}
		})
	}
}

// TestI6ACacheOfRecordsThatCatchesUpLaterShowedNoRivals: the lookup was before, so the pass cannot rest on it.
func TestI6ACacheOfRecordsThatCatchesUpLaterShowedNoRivals(t *testing.T) {
	record := onepod.RecordOfOld(onepod.OldMachine())
	cached := record.DeepCopy()
	cached.ResourceVersion = "6"
	f := newWorld(t, cached)
	read := record.DeepCopy()
	read.ResourceVersion = "6"
	v := &view{uid: "old", record: read}
	if err := f.r.noteRecords(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if late, err := v.recordsLate(); late || err != nil {
		t.Fatalf("late: %t, %v, before anything was written", late, err)
	}
	v.record.ResourceVersion = "8" // the pass wrote it, and perhaps it has the address only since then
	if err := f.Truth.Update(t.Context(), cached.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if late, err := v.recordsLate(); !late || err != nil {
		t.Errorf("late: %t, %v; expected true: the cache was looked into before the write", late, err)
	}
}
