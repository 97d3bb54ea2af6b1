// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// newLife is the old pod, which lives and shows its address, on a node that is guarded by agents.
func newLife(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	f := newWorld(t, append(objects, onepod.PodOf("old", "10.0.0.5"))...)
	f.r.options.Evidence = release.EvidenceAgent
	return f
}

// readySince is a Node that became Ready that long before now.
func readySince(node *corev1.Node, before time.Duration) *corev1.Node {
	node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(onepod.Now.Add(-before))
	return node
}

// asked are the sandboxes that the record of the old pod has a question about.
func (f *world) asked() []string {
	f.Helper()
	var ids []string
	for _, mark := range f.Record().Spec.Marks {
		ids = append(ids, mark.SandboxID)
	}
	return ids
}

// TestAPodThatLivesIsAskedAboutThoughAReadFailed: the delay after a reboot is over once, and no event brings that moment again.
func TestAPodThatLivesIsAskedAboutThoughAReadFailed(t *testing.T) {
	for _, kind := range []string{"pods", "node"} {
		t.Run(kind, func(t *testing.T) {
			f := newLife(t, onepod.RecordOfOld(onepod.OldMachine()), rebooted(readySince(onepod.Node("node", "node-1", "m1"), time.Hour)))
			f.FailReads = kind
			if err := f.after(0); err == nil {
				t.Error("what was to be read before the question could not be, and there is no retry")
			}
			if asked := f.asked(); asked != nil {
				t.Errorf("asked about %v on what was not read", asked)
			}
			f.FailReads = ""
			if err := f.after(time.Second); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"old-sandbox"}, f.asked()); diff != "" {
				t.Errorf("asked about (-want +got):\n%s", diff)
			}
		})
	}
}

// TestI5ARecordLosesNothingOfAPodThatCannotBeRead: the pool is empty of its address, which the pod may still show.
func TestI5ARecordLosesNothingOfAPodThatCannotBeRead(t *testing.T) {
	f := newLife(t, onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1"))
	f.Pool.Entries = nil
	f.FailReads = "pods"
	if err := f.after(0); err == nil {
		t.Error("the pod could not be read, and there is no retry")
	}
	if diff := cmp.Diff(onepod.RecordOfOld(onepod.OldMachine()).Spec, f.Record().Spec); diff != "" {
		t.Errorf("the record, on an unread pod (-want +got):\n%s", diff)
	}
	f.FailReads = ""
	if err := f.after(time.Second); err != nil {
		t.Fatal(err)
	}
	if kept := len(f.Record().Spec.Addresses); kept != 1 {
		t.Errorf("%d addresses are left of the one that the pod shows", kept)
	}
}

func askable(change func(*v1alpha1.IPAllocation)) *v1alpha1.IPAllocation {
	record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "uid"}}
	change(record)
	return record
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
			c := &Reconciler{options: Options{Evidence: tc.evidence}}
			v := &view{podFact: release.Known(release.Pod{Deleting: tc.deleting}), held: make([]facts.Held, tc.held)}
			c.dropMarksOver(record)
			records.DropMarks(record, func(m v1alpha1.Mark) bool { return v.isVoid(release.Decision{}, m) })
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
