// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
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
			pod := finishedNamesake()
			pod.Annotations, pod.CreationTimestamp = nil, metav1.NewTime(lateNow.Add(-20*time.Minute))
			objects := []client.Object{pod, nodeObject("node", "node-1", "m1")}
			if tc.earlier {
				earlier := recordOfOld(oldMachine())
				earlier.Name = "earlier"
				earlier.Spec.Addresses[0].IP, earlier.Spec.Addresses[0].SandboxID, earlier.Spec.Sandboxes[0].ID = "10.0.0.6", "earlier-sandbox", "earlier-sandbox"
				objects = append(objects, earlier)
			}
			f := newFate(t, objects...)
			f.r.options.Evidence = tc.evidence
			f.clock.SetTime(lateNow.Add(-2 * time.Hour))
			alive := namesake("old", "10.0.0.5")
			alive.Annotations = nil
			f.r.witness.Handler().OnAdd(alive, false)
			e := &f.pool.entries[0]
			e.SandboxID, e.AddObserved, e.SeenSince = sandbox, tc.addObserved, lateNow.Add(-time.Hour)
			if f.pool.refuses = tc.dies; tc.dies && f.after(0) == nil {
				t.Fatal("the tombstone failed, and no other try is due")
			}
			f.pool.refuses = false
			for _, d := range []time.Duration{0, time.Second} {
				if err := f.after(d); err != nil {
					t.Fatal(err)
				}
			}
			orphan := v1alpha1.OrphanPrefix + sandbox
			if len(f.pool.entries) != 1 || f.pool.entries[0].Releasing != orphan {
				t.Errorf("the pool has %v; expected the tombstone of the orphan's record", f.pool.entries)
			}
			if diff := cmp.Diff([]string{"10.0.0.5 default/web-1"}, f.addressesOf()[orphan]); diff != "" {
				t.Errorf("the orphan's record (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{takesFinalizerOff}, f.writes); diff != "" {
				t.Errorf("writes besides those of the record (-want +got):\n%s", diff)
			}
		})
	}
}

// TestI10OneRuleFindsTheOwnerOfAnEntry: the orphan controller attributes an entry to a pod only if the pod controller does.
func TestI10OneRuleFindsTheOwnerOfAnEntry(t *testing.T) {
	alive := namesake("old", "10.0.0.5")
	alive.Annotations = nil
	earlier := recordOfOld(oldMachine())
	earlier.Name, earlier.Spec.Sandboxes[0].ID, earlier.Spec.Addresses[0].SandboxID = "earlier", "earlier-sandbox", "earlier-sandbox"
	for name, objects := range map[string][]client.Object{"nobody before it": {alive}, "an earlier pod of the name is on record": {alive, earlier}} {
		t.Run(name, func(t *testing.T) {
			f := newFate(t, append(objects, nodeObject("node", "node-1", "m1"))...)
			f.clock.SetTime(lateNow.Add(-2 * time.Hour))
			f.r.witness.Handler().OnAdd(alive, false)
			entry := f.pool.entries[0]
			entry.AddObserved, entry.SeenSince = true, lateNow.Add(-time.Hour)
			if _, got := orphansOf(f).ownerOf(t.Context(), &entry); got != (len(objects) == 1) {
				t.Errorf("the pod owns the entry: %t; expected %t", got, !got)
			}
		})
	}
}

// TestI10APodThatWasMissedUntilItsDeletionGetsARecord: it takes no finalizer any more, and only a record keeps its address from the next pod
// of its name.
func TestI10APodThatWasMissedUntilItsDeletionGetsARecord(t *testing.T) {
	for name, tc := range map[string]struct {
		holds, optedOut, want bool
	}{
		"it holds an address":                    {holds: true, want: true},
		"it holds an address, and has opted out": {holds: true, optedOut: true},
		"it holds none":                          {},
	} {
		t.Run(name, func(t *testing.T) {
			pod := namesake("old", "10.0.0.5")
			pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: lateNow}, []string{"example.com/other"}
			if tc.optedOut {
				pod.Annotations[v1alpha1.GuardAnnotation] = v1alpha1.GuardAnnotationOff
			}
			f := newFate(t, pod, nodeObject("node", "node-1", "m1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
			if !tc.holds {
				f.pool.entries = nil
			}
			if err := f.after(0); err != nil {
				t.Fatal(err)
			}
			err := f.truth.Get(t.Context(), client.ObjectKey{Name: "old"}, &v1alpha1.IPAllocation{})
			if got := err == nil; got != tc.want {
				t.Errorf("has a record: %t (%v), expected %t", got, err, tc.want)
			}
		})
	}
}
