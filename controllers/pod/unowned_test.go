// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"net/netip"
	"strings"
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

// TestI3NoPodInheritsAnUnownedEntry: the kubelet reported termination before the network-status was written, while the sandbox was being created.
// The entry has the pod's name, and no pod UID can be shown to own it.
func TestI3NoPodInheritsAnUnownedEntry(t *testing.T) {
	sandbox := strings.Repeat("0a", 32)
	for name, tc := range map[string]struct {
		evidence    release.Evidence
		addObserved bool
		earlier     bool
		dies        bool
	}{
		"an earlier pod of the name is on record":                 {release.EvidenceAgent, true, true, false},
		"the same without agents":                                 {release.EvidenceKubelet, true, true, false},
		"no manager ran when the ADD came":                        {release.EvidenceAgent, false, false, false},
		"no manager ran when the ADD came, and there is no agent": {release.EvidenceKubelet, false, false, false},
		"the manager dies while it disowns the entry":             {release.EvidenceAgent, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := onepod.FinishedPod()
			pod.Annotations, pod.CreationTimestamp = nil, metav1.NewTime(onepod.Now.Add(-20*time.Minute))
			objects := []client.Object{pod, onepod.Node("node", "node-1", "m1")}
			if tc.earlier {
				earlier := onepod.RecordOfOld(onepod.OldMachine())
				earlier.Name = "earlier"
				earlier.Spec.Addresses[0].IP, earlier.Spec.Addresses[0].SandboxID, earlier.Spec.Sandboxes[0].ID = "10.0.0.6", "earlier-sandbox", "earlier-sandbox"
				objects = append(objects, earlier)
			}
			f := newWorld(t, objects...)
			f.r.options.Evidence = tc.evidence
			f.Clock.SetTime(onepod.Now.Add(-2 * time.Hour))
			alive := onepod.PodOf("old", "10.0.0.5")
			alive.Annotations = nil
			f.r.options.Witness.Handler().OnAdd(alive, false)
			e := &f.Pool.Entries[0]
			e.SandboxID, e.AddObserved, e.SeenSince = sandbox, tc.addObserved, onepod.Now.Add(-time.Hour)
			if f.Pool.Refuses = tc.dies; tc.dies && f.after(0) == nil {
				t.Fatal("the tombstone failed, and no other try is due")
			}
			if got := f.reasonOnPod(); (got == v1alpha1.ReasonReleaseFailed) != tc.dies {
				t.Errorf("the reason of the pod is %q", got)
			}
			f.Writes = nil
			f.Pool.Refuses = false
			for _, d := range []time.Duration{0, time.Second} {
				if err := f.after(d); err != nil {
					t.Fatal(err)
				}
			}
			orphan := v1alpha1.OrphanPrefix + sandbox
			if len(f.Pool.Entries) != 1 || f.Pool.Entries[0].Releasing != orphan {
				t.Errorf("the pool has %v; expected the tombstone of the orphan's record", f.Pool.Entries)
			}
			if diff := cmp.Diff([]string{"10.0.0.5 default/web-1"}, f.Addresses()[orphan]); diff != "" {
				t.Errorf("the orphan's record (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{takesFinalizerOff}, f.Writes); diff != "" {
				t.Errorf("writes besides those of the record (-want +got):\n%s", diff)
			}
		})
	}
}

// TestI3NoPodInheritsAnUnownedEntryOfOneThatIsGone: its finalizer was removed by force, and its node created another sandbox for it. The cache of
// records is late, so that nothing can be released yet.
func TestI3NoPodInheritsAnUnownedEntryOfOneThatIsGone(t *testing.T) {
	sandbox := strings.Repeat("0a", 32)
	unbound := onepod.PodOf("new", "10.0.0.6")
	unbound.Annotations, unbound.Spec.NodeName = nil, ""
	bound := onepod.PodOf("new", "10.0.0.6")
	for name, tc := range map[string]struct {
		next     *corev1.Pod
		disowned bool
	}{
		"no pod has the name":             {nil, true},
		"the next pod is not bound yet":   {unbound, true},
		"the entry may be the next pod's": {bound, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1")}
			if tc.next != nil {
				objects = append(objects, tc.next.DeepCopy())
			}
			f := newWorld(t, objects...)
			late := onepod.RecordOfOld(onepod.OldMachine())
			late.ResourceVersion = "1"
			f.r.client = lateRecords{f.r.client, late}
			later := onepod.HeldByOld()[0]
			later.IP, later.SandboxID = netip.MustParseAddr("10.0.0.7"), sandbox
			f.Pool.Late, f.Pool.Entries = f.Pool.Entries, append(f.Pool.Entries, later)
			if _, err := f.r.Reconcile(t.Context(), "old"); err != nil {
				t.Fatal(err)
			}
			want := ""
			if tc.disowned {
				want = v1alpha1.OrphanPrefix + sandbox
			}
			if got := f.Pool.Entries[1].Releasing; got != want {
				t.Errorf("the entry has the tombstone of record %q, expected %q", got, want)
			}
			if _, recorded := f.Addresses()[v1alpha1.OrphanPrefix+sandbox]; recorded != tc.disowned {
				t.Errorf("an orphan's record has the sandbox: %t, expected %t", recorded, tc.disowned)
			}
		})
	}
}

// TestI10APodThatWasMissedUntilItsDeletionGetsARecord: it cannot get the finalizer any more, and only a record keeps its address from the
// next pod of its name.
func TestI10APodThatWasMissedUntilItsDeletionGetsARecord(t *testing.T) {
	for name, tc := range map[string]struct {
		holds, optedOut, want bool
	}{
		"it holds an address":                    {holds: true, want: true},
		"it holds an address, and has opted out": {holds: true, optedOut: true},
		"it holds none":                          {},
	} {
		t.Run(name, func(t *testing.T) {
			pod := onepod.PodOf("old", "10.0.0.5")
			pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: onepod.Now}, []string{"example.com/other"}
			if tc.optedOut {
				pod.Annotations[v1alpha1.GuardAnnotation] = v1alpha1.GuardAnnotationOff
			}
			f := newWorld(t, pod, onepod.Node("node", "node-1", "m1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
			if !tc.holds {
				f.Pool.Entries = nil
			}
			if err := f.after(0); err != nil {
				t.Fatal(err)
			}
			err := f.Truth.Get(t.Context(), client.ObjectKey{Name: "old"}, &v1alpha1.IPAllocation{})
			if got := err == nil; got != tc.want {
				t.Errorf("has a record: %t (%v), expected %t", got, err, tc.want)
			}
		})
	}
}

// TestI2AnEntryThatComesAfterTheDeletionIsRecordedForItsPod: the pod was deleted while its containers were created, and the ADD's entry
// came after that. Only the observed ADD ties it to the UID, which a live read of the pools does not have.
func TestI2AnEntryThatComesAfterTheDeletionIsRecordedForItsPod(t *testing.T) {
	pod := onepod.PodOf("old", "10.0.0.5")
	pod.Annotations = nil
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: onepod.Now.Add(30 * time.Second)}, new(int64(30))
	pod.Status.Phase = corev1.PodPending
	f := newWorld(t, pod, onepod.Node("node", "node-1", "m1"))
	f.r.options.Witness.Handler().OnAdd(pod, false)
	f.Pool.Entries[0].AddObserved, f.Pool.Entries[0].SeenSince = true, onepod.Now.Add(time.Second)
	if err := f.after(2 * time.Second); err != nil {
		t.Fatal(err)
	}
	var record v1alpha1.IPAllocation
	if err := f.Truth.Get(t.Context(), client.ObjectKey{Name: "old"}, &record); err != nil {
		t.Fatalf("no record has the entry, and the orphan's look leaves it to the pod: %v", err)
	}
	if len(record.Spec.Addresses) != 1 || record.Spec.Addresses[0].SandboxID != "old-sandbox" {
		t.Errorf("the record holds %+v", record.Spec.Addresses)
	}
}
