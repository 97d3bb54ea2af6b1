// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

var askedAt = time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)

func asker(t *testing.T, records ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(records...).Build()
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
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(record), record); err != nil {
		t.Fatal(err)
	}
	before := record.DeepCopy()
	written, err := Ask(context.Background(), c, askedAt, record, QuestionsTo(release.Node{Machine: release.Machine{NodeUID: "node-1", BootID: "boot-1"}}, []string{"a", "b", "c"}, true))
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
	if _, err := Ask(context.Background(), c, askedAt, record, QuestionsTo(release.Node{}, []string{"a"}, false)); !errors.Is(err, ErrStale) {
		t.Errorf("a record that was overtaken: %v, want ErrStale", err)
	}
}

func TestAskMakesARecordThatIsNotThere(t *testing.T) {
	c := asker(t)
	written, err := Ask(context.Background(), c, askedAt, askable(func(r *v1alpha1.IPAllocation) { r.Generation = 0 }), []Question{{SandboxID: v1alpha1.AnySandbox, NodeUID: "node-1"}})
	if err != nil || written.ResourceVersion == "" || written.Spec.Marks[0].Epoch != 1 {
		t.Errorf("ask = %+v, %v", written, err)
	}
	if _, err := Ask(context.Background(), c, askedAt, askable(), []Question{{SandboxID: "a"}}); !errors.Is(err, ErrStale) {
		t.Errorf("a record that is there by now: %v, want ErrStale", err)
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

func TestQuestionsNameTheNodeThatWasRead(t *testing.T) {
	got := QuestionsTo(release.Node{Machine: release.Machine{NodeUID: "node-1", BootID: "boot-1"}}, []string{"a"}, false)
	want := []Question{{SandboxID: "a", NodeUID: "node-1", BootID: "boot-1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("QuestionsTo (-want +got):\n%s", diff)
	}
}
