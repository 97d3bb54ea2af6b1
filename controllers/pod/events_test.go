// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// report is what reconciles wrote about a hold: the reasons of events, and how often the condition of the pod and of the record was written.
type report struct {
	Events       []string
	Pod, Records int
}

// reportOf reconciles ten times, a second apart, and returns what was written. Errors are expected where something fails on purpose.
func (f *world) reportOf(from time.Duration) report {
	f.Helper()
	f.Writes = nil
	for i := range time.Duration(10) {
		if err := f.after(from + i*time.Second); err != nil && f.FailWrites == "" && f.Pool.FailsRelease == nil {
			f.Fatal(err)
		}
	}
	var got report
	for len(f.Recorder.Events) > 0 {
		got.Events = append(got.Events, strings.Fields(<-f.Recorder.Events)[1])
	}
	for _, write := range f.Writes {
		switch write {
		case "patch v1.pod/status":
			got.Pod++
		case "patch v1alpha1.ipallocation/status":
			got.Records++
		}
	}
	return got
}

// TestAHoldIsReportedOnce: ten passes about one hold emit one event and write each condition once. Another reason is reported once more.
func TestAHoldIsReportedOnce(t *testing.T) {
	lost := onepod.Node("node", "node-1", "m1")
	lost.Status.Conditions[0].Status = corev1.ConditionUnknown
	type step struct {
		change func(*world)
		want   report
	}
	once := func(reason v1alpha1.Reason) report {
		return report{Events: []string{string(reason)}, Pod: 1, Records: 1}
	}
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		node  client.Object
		steps []step
	}{
		"the node does not respond, and is deleted": {onepod.DeletedPod(), lost, []step{
			{func(*world) {}, once(v1alpha1.ReasonNodeUnreachable)},
			{func(f *world) { f.delete(lost) }, once(v1alpha1.ReasonNodeGone)},
			{func(*world) {}, report{}},
		}},
		"a release that fails": {finishedAfter(time.Minute), onepod.Node("node", "node-1", "m1"), []step{
			{func(f *world) { f.Pool.FailsRelease = errors.New("the pool is refused") }, once(v1alpha1.ReasonReleaseFailed)},
			{func(*world) {}, report{}},
		}},
		"a finalizer that cannot be removed": {finishedAfter(time.Minute), onepod.Node("node", "node-1", "m1"), []step{
			{func(f *world) { f.FailWrites, f.Pool.Entries = "patch v1.pod", nil }, report{Events: []string{string(v1alpha1.ReasonUnprotectFailed)}, Pod: 1}}, // the record is deleted first
			{func(*world) {}, report{}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, tc.pod, tc.node, onepod.RecordOfOld(onepod.OldMachine()))
			for i, step := range tc.steps {
				step.change(f)
				if diff := cmp.Diff(step.want, f.reportOf(time.Duration(i+1)*time.Minute)); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i+1, diff)
				}
			}
		})
	}
}

func (f *world) delete(o client.Object) {
	f.Helper()
	if err := f.Truth.Delete(f.Context(), o); err != nil {
		f.Fatal(err)
	}
}

// TestAReadThatKeepsFailingIsReported: the facts are read one by one, and a pass that cannot read one of them before it decides has nothing else to report.
func TestAReadThatKeepsFailingIsReported(t *testing.T) {
	f := newWorld(t, terminatingPod(time.Minute))
	f.FailReads = "node"
	for i := range time.Duration(5) {
		if err := f.after(i * time.Second); err == nil {
			t.Error("the read did not fail")
		}
	}
	if len(f.Recorder.Events) != 1 {
		t.Fatalf("%d events, want 1", len(f.Recorder.Events))
	}
	if event := <-f.Recorder.Events; !strings.Contains(event, string(v1alpha1.ReasonObservationFailed)) || !strings.Contains(event, "reading node") {
		t.Errorf("event %q", event)
	}
}

// TestPoolsOfWhichNoVersionCanBeReadAreReadLive: else the pass would end, at each try, before anything is known of the pod.
func TestPoolsOfWhichNoVersionCanBeReadAreReadLive(t *testing.T) {
	f := newWorld(t, terminatingPod(time.Minute), onepod.Node("node", "node-1", "m1"))
	read := 0
	f.Pool.FailsVersions, f.Pool.OnLive = errors.New("no response"), func() { read++ }
	for _, wait := range []time.Duration{time.Minute, time.Minute + reportUnreadAfter} {
		if err := f.after(wait); err != nil || (read > 0) != (wait > time.Minute) {
			t.Errorf("after %s read live %d times, error %v", wait, read, err)
		}
	}
}
