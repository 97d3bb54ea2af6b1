// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// TestI3I10ASandboxThatIsDisownedBecomesAnOrphan: its ADD was seen after the pod was bound, and the pod's node never had it. It is that of an
// earlier pod of the name, which lives on another node.
func TestI3I10ASandboxThatIsDisownedBecomesAnOrphan(t *testing.T) {
	record := recordOfOld(oldMachine())
	record.Spec.Sandboxes[0].Attribution = v1alpha1.AttributionObservedAdd
	record.Spec.Marks = []v1alpha1.Mark{{SandboxID: "old-sandbox", NodeUID: "node-1", BootID: "m1-boot", Epoch: 1, Time: metav1.NewTime(lateNow.Add(-30 * time.Minute))}}
	record.Status.Answers = []v1alpha1.Answer{{SandboxID: "old-sandbox", NodeUID: "node-1", BootID: "m1-boot", Epoch: 1,
		Verdict: v1alpha1.VerdictReadyForRelease, Reason: string(v1alpha1.ReasonSandboxNeverListed), Time: metav1.NewTime(lateNow)}}
	pod := deletedPod()
	pod.Annotations, pod.Labels = nil, map[string]string{v1alpha1.GuardedLabel: "true"}
	f := newFate(t, record, pod, nodeObject("node", "node-1", "m1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	f.r.options.Evidence = release.EvidenceAgent
	f.clock.SetTime(lateNow.Add(-2 * time.Hour))
	f.r.tracker.see(pod)
	f.pool.entries[0].SeenSince, f.pool.entries[0].AddObserved = lateNow.Add(-time.Hour), true
	before := f.pool.entries[0].Key
	for _, d := range []time.Duration{0, time.Second, time.Minute} {
		if err := f.after(d); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.pool.entries) != 1 || f.pool.entries[0].Key != before {
		t.Fatalf("the pool has %v; expected the entry as it was", f.pool.entries)
	}
	left := f.record()
	if len(left.Spec.Addresses) > 0 || left.Spec.Sandboxes[0].Attribution != v1alpha1.AttributionNone {
		t.Errorf("the pod's record has addresses %v and sandboxes %v; expected none, and the sandbox as disowned", left.Spec.Addresses, left.Spec.Sandboxes)
	}
	f.clock.SetTime(lateNow.Add(time.Hour))
	if _, err := orphansOf(f).Reconcile(t.Context(), "old-sandbox"); err != nil {
		t.Fatal(err)
	}
	var records v1alpha1.IPAllocationList
	if err := f.truth.List(t.Context(), &records); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range records.Items {
		names = append(names, records.Items[i].Name)
	}
	if diff := cmp.Diff([]string{"old", v1alpha1.OrphanPrefix + "old-sandbox"}, names); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
