// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/release"
)

var askedAt = time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)

func asker(t *testing.T, records ...client.Object) *core {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return &core{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(records...).Build(), clock: clocktesting.NewFakePassiveClock(askedAt),
		options: Options{Evidence: release.EvidenceAgent}}
}

func askable(change ...func(*v1alpha1.IPAllocation)) *v1alpha1.IPAllocation {
	record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "uid", Generation: 3},
		Spec: v1alpha1.IPAllocationSpec{PodNamespace: "ns", PodName: "web", NodeName: "node"}}
	for _, c := range change {
		c(record)
	}
	return record
}

func TestAskSetsAllMarksInOneWriteWithEpochsOfTheirOwn(t *testing.T) {
	record := askable(func(r *v1alpha1.IPAllocation) {
		r.Spec.Marks = []v1alpha1.Mark{{SandboxID: "a", NodeUID: "old", Epoch: 9}, {SandboxID: "stays", NodeUID: "old", Epoch: 2}}
		r.Status.Answers = []v1alpha1.Answer{{SandboxID: "b", NodeUID: "old", Epoch: 7}}
	})
	c := asker(t, record)
	if err := c.client.Get(context.Background(), client.ObjectKeyFromObject(record), record); err != nil {
		t.Fatal(err)
	}
	before := record.DeepCopy()
	written, err := c.ask(context.Background(), record, questionsTo(release.Node{Machine: release.Machine{NodeUID: "node-1", BootID: "boot-1"}}, []string{"a", "b", "c"}, true))
	if err != nil {
		t.Fatal(err)
	}
	at := metav1.NewTime(askedAt.Truncate(time.Second).Add(time.Second)) // never earlier than it was asked
	want := []v1alpha1.Mark{
		{SandboxID: "a", NodeUID: "node-1", BootID: "boot-1", Epoch: 10, Time: at, Fence: true},
		{SandboxID: "stays", NodeUID: "old", Epoch: 2},
		{SandboxID: "b", NodeUID: "node-1", BootID: "boot-1", Epoch: 8, Time: at, Fence: true},
		{SandboxID: "c", NodeUID: "node-1", BootID: "boot-1", Epoch: 4, Time: at, Fence: true},
	}
	if diff := cmp.Diff(want, written.Spec.Marks); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, record); diff != "" {
		t.Errorf("the record that was given changed:\n%s", diff)
	}
	if written.ResourceVersion == "" || written.ResourceVersion == record.ResourceVersion {
		t.Errorf("the version of the write is missing: %q after %q", written.ResourceVersion, record.ResourceVersion)
	}
	if _, err := c.ask(context.Background(), record, questionsTo(release.Node{}, []string{"a"}, false)); !errors.Is(err, errStale) {
		t.Errorf("a record that was overtaken: %v, want errStale", err)
	}
}

func TestAskMakesARecordThatIsNotThere(t *testing.T) {
	c := asker(t)
	written, err := c.ask(context.Background(), askable(func(r *v1alpha1.IPAllocation) { r.Generation = 0 }), []question{{sandboxID: v1alpha1.AnySandbox, nodeUID: "node-1"}})
	if err != nil || written.ResourceVersion == "" || written.Spec.Marks[0].Epoch != 1 {
		t.Errorf("ask = %+v, %v", written, err)
	}
	if _, err := c.ask(context.Background(), askable(), []question{{sandboxID: "a"}}); !errors.Is(err, errStale) {
		t.Errorf("a record that is there by now: %v, want errStale", err)
	}
}

func TestEpochsGrowThoughNothingIsLeftOfTheLastQuestion(t *testing.T) {
	asked := askable(func(r *v1alpha1.IPAllocation) { r.Generation = 4 })
	first := nextEpoch(asked, "a")
	asked.Generation += 2 // the write that asked, and the one that took the question back
	if again := nextEpoch(asked, "a"); again <= first {
		t.Errorf("asked anew at epoch %d after %d: an answer that is under way would count for both", again, first)
	}
}

func TestMarksThatAreOverGo(t *testing.T) {
	marks := []v1alpha1.Mark{{SandboxID: "here"}, {SandboxID: "gone"}, {SandboxID: v1alpha1.AnySandbox}}
	tests := map[string]struct {
		evidence release.Evidence
		deleting bool
		held     int
		want     []string
	}{
		"of sandboxes that the record has no more":             {release.EvidenceAgent, true, 0, []string{"here", v1alpha1.AnySandbox}},
		"about any sandbox of a pod that holds something":      {release.EvidenceAgent, true, 1, []string{"here"}},
		"about any sandbox of a pod that is not deleted":       {release.EvidenceAgent, false, 0, []string{"here"}},
		"all of them where the kubelet's word is the only one": {release.EvidenceKubelet, true, 0, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			record := askable(func(r *v1alpha1.IPAllocation) {
				r.Spec.Marks, r.Spec.Sandboxes = append(r.Spec.Marks, marks...), []v1alpha1.SandboxRecord{{ID: "here"}}
			})
			c := &core{options: Options{Evidence: tc.evidence}}
			v := &view{podFact: release.Known(release.Pod{Deleting: tc.deleting}), held: make([]facts.Held, tc.held)}
			c.dropMarksOver(record)
			dropMarks(record, func(m v1alpha1.Mark) bool { return v.isVoid(release.Decision{}, m) })
			var left []string
			for _, m := range record.Spec.Marks {
				left = append(left, m.SandboxID)
			}
			if diff := cmp.Diff(tc.want, left); diff != "" {
				t.Errorf("marks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgentSeenNeedsTheAgentOfTheMachineThatRanTheSandbox(t *testing.T) {
	answer := v1alpha1.Answer{SandboxID: "a", NodeUID: "node-1", PodUID: "uid"}
	tests := map[string]struct {
		change func(*v1alpha1.Answer)
		known  v1alpha1.Attribution
		want   v1alpha1.Attribution
	}{
		"seen with this UID":        {func(*v1alpha1.Answer) {}, v1alpha1.AttributionObservedAdd, v1alpha1.AttributionAgentSeen},
		"better evidence stays":     {func(*v1alpha1.Answer) {}, v1alpha1.AttributionNetworkStatus, v1alpha1.AttributionNetworkStatus},
		"no evidence is none":       {func(*v1alpha1.Answer) {}, v1alpha1.AttributionNone, v1alpha1.AttributionNone},
		"seen with another UID":     {func(a *v1alpha1.Answer) { a.PodUID = "other" }, v1alpha1.AttributionObservedAdd, v1alpha1.AttributionObservedAdd},
		"never seen":                {func(a *v1alpha1.Answer) { a.PodUID = "" }, v1alpha1.AttributionObservedAdd, v1alpha1.AttributionObservedAdd},
		"seen by another node":      {func(a *v1alpha1.Answer) { a.NodeUID = "node-2" }, v1alpha1.AttributionObservedAdd, v1alpha1.AttributionObservedAdd},
		"of another sandbox's view": {func(a *v1alpha1.Answer) { a.SandboxID = "b" }, v1alpha1.AttributionObservedAdd, v1alpha1.AttributionObservedAdd},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			given := answer
			tc.change(&given)
			v := &view{uid: "uid", record: askable(func(r *v1alpha1.IPAllocation) {
				r.Spec.Sandboxes = []v1alpha1.SandboxRecord{{ID: "a", Node: &v1alpha1.NodeIdentity{UID: "node-1"}}}
				r.Status.Answers = []v1alpha1.Answer{given}
			})}
			if got := facts.Attributed(v.record, v.uid, "a", tc.known); got != tc.want {
				t.Errorf("attributed = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestFlightsKeepAPlaceUntilTheAnswerOrForAWhile(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(askedAt)
	f := newFlights(&core{clock: clock, options: Options{Handshakes: Handshakes{MaxInFlight: 3, MaxInFlightPerNode: 2},
		Settings: release.Settings{AnswerWithin: time.Minute}}})
	send := func(uid types.UID, node types.UID) {
		record := askable(func(r *v1alpha1.IPAllocation) {
			r.Spec.Marks = []v1alpha1.Mark{{SandboxID: "s", NodeUID: node, Epoch: 1}}
		})
		f.sent(uid, record, []question{{sandboxID: "s", nodeUID: node}})
	}
	expect := func(when string, node types.UID, questions int, want bool) {
		t.Helper()
		if got := f.room(node, questions); got != want {
			t.Errorf("%s: room for %d of %s = %t, want %t", when, questions, node, got, want)
		}
	}
	expect("nothing is open", "a", 9, true)
	send("1", "a")
	send("2", "a")
	expect("a node has as many as it may", "a", 1, false)
	expect("another node has none", "b", 1, true)
	send("3", "b")
	expect("all have as many as they may", "c", 1, false)
	f.heard("1", release.Answer{SandboxID: "s", NodeUID: "a", Epoch: 1, Verdict: v1alpha1.VerdictDoNotRelease})
	expect("one was answered", "c", 1, true)
	expect("one was answered", "a", 1, true)
	f.forget("2")
	send("4", "a")
	send("5", "c")
	expect("the places are taken again", "d", 1, false)
	clock.SetTime(askedAt.Add(time.Minute))
	expect("the silent ones gave their places up", "d", 3, true)
}

func TestQuestionsNameTheNodeThatWasRead(t *testing.T) {
	got := questionsTo(release.Node{Machine: release.Machine{NodeUID: "node-1", BootID: "boot-1"}}, []string{"a"}, false)
	want := []question{{sandboxID: "a", nodeUID: "node-1", bootID: "boot-1"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(question{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("questionsTo (-want +got):\n%s", diff)
	}
}
