// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/liveness"
	"github.com/holdfast-dev/holdfast/controllers/orphan"
	"github.com/holdfast-dev/holdfast/controllers/pod"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// disowned is a pod with the controllers that look at its sandbox.
type disowned struct {
	*onepod.World
	pods    *pod.Reconciler
	orphans *orphan.Reconciler
}

// after lets the controller of pods look that long after the beginning.
func (f *disowned) after(d time.Duration) error { return f.After(d, f.pods.Reconcile) }

// disownedByOld is a pod that is being deleted. The agent of its node reports that it never listed the sandbox of the pod's entry.
func disownedByOld(t *testing.T) *disowned {
	t.Helper()
	record := onepod.RecordOfOld(onepod.OldMachine())
	record.Spec.Sandboxes[0].Attribution = v1alpha1.AttributionObservedAdd
	guarded := onepod.Gone()
	guarded.Status.Responses[0].Reason = string(v1alpha1.ReasonSandboxNeverListed)
	old := onepod.DeletedPod()
	old.Annotations, old.Labels = nil, map[string]string{v1alpha1.GuardedLabel: "true"}
	w := onepod.New(t, record, guarded, old, onepod.Node("node", "node-1", "m1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	wanted := queries.NewWanted()
	w.Wants(wanted)
	seen, observer := witness.New(w.Clock), liveness.New(w.Live, w.Clock, w.PoliciesSince)
	backends := []ipam.Backend{w.Pool}
	f := &disowned{w, pod.New(w.Client, w.Live, w.Recorder, w.Clock, pod.Options{Backends: backends, Evidence: release.EvidenceAgent, Settings: onepod.Settings, Queries: wanted,
		PoliciesSince: w.PoliciesSince, Witness: seen, Liveness: observer}),
		orphan.New(w.Client, w.Live, w.Recorder, w.Clock, orphan.Options{Backends: backends, Evidence: release.EvidenceAgent, Settings: onepod.Settings, Queries: wanted,
			PoliciesSince: w.PoliciesSince, Witness: seen, Liveness: observer})}
	f.Clock.SetTime(onepod.Now.Add(-2 * time.Hour))
	seen.Handler().OnAdd(old, false)
	f.Pool.Entries[0].SeenSince, f.Pool.Entries[0].AddObserved = onepod.Now.Add(-time.Hour), true
	return f
}

const orphanOfOld = v1alpha1.OrphanPrefix + "old-sandbox"

// TestI3I10ASandboxThatIsDisownedBecomesAnOrphan: its ADD was seen after the pod was bound, and the pod's node never had it. It is that of an
// earlier pod of the name, which lives on another node. No pod of the name may inherit it meanwhile.
func TestI3I10ASandboxThatIsDisownedBecomesAnOrphan(t *testing.T) {
	f := disownedByOld(t)
	for _, d := range []time.Duration{0, time.Second, time.Minute} {
		if err := f.after(d); err != nil {
			t.Fatal(err)
		}
	}
	f.keepsAsOrphan()
}

// TestI3I10AManagerThatDiesWhileItDisowns: the next one does the rest, and the orphan's record has the podref from before, which finds the reservation.
func TestI3I10AManagerThatDiesWhileItDisowns(t *testing.T) {
	for fails, want := range map[string]string{"create v1alpha1.ipallocation": "", "tombstone": "", "update v1alpha1.ipallocation": orphanOfOld} {
		t.Run(fails, func(t *testing.T) {
			f := disownedByOld(t)
			f.FailWrites, f.Pool.Refuses = fails, fails == "tombstone"
			if err := f.after(0); err == nil {
				t.Fatal("a write failed, and no other try is due")
			}
			if got := f.Pool.Entries[0].Releasing; got != want {
				t.Fatalf("the entry has the tombstone of %q; expected %q", got, want)
			}
			if got := f.Addresses()["old"]; len(got) != 1 {
				t.Fatalf("the pod's record has %v; expected the address until all else is written", got)
			}
			f.FailWrites, f.Pool.Refuses = "", false
			if _, err := f.orphans.Reconcile(t.Context(), "old-sandbox"); err != nil {
				t.Fatal(err)
			}
			for _, d := range []time.Duration{time.Second, time.Minute} {
				if err := f.after(d); err != nil {
					t.Fatal(err)
				}
			}
			f.Clock.SetTime(onepod.Now.Add(time.Hour))
			if _, err := f.orphans.Reconcile(t.Context(), "old-sandbox"); err != nil {
				t.Fatal(err)
			}
			f.keepsAsOrphan()
		})
	}
}

// TestI10TheTombstoneSaysWhichRecordOwnsAnEntry, also if the record of a pod has its sandbox. That of the pod which disowned it is about to be replaced.
func TestI10TheTombstoneSaysWhichRecordOwnsAnEntry(t *testing.T) {
	for name, tc := range map[string]struct {
		record     string
		disownedBy types.UID
		kept       bool
	}{
		"that of the orphan":               {orphanOfOld, "", true},
		"that of the pod that disowned it": {"old", "old", true},
		"that of a pod that did not":       {"old", "another", false},
		"that of a pod, and none did yet":  {"old", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := disownedByOld(t)
			e := &f.Pool.Entries[0]
			e.PodRef, e.Releasing, e.Owner = v1alpha1.TombstonePrefix+"/"+tc.record, tc.record, nil
			orphan := records.OfOrphan("old-sandbox", metav1.NewTime(onepod.Now))
			orphan.Spec.Addresses, orphan.Spec.DisownedBy = f.Record().Spec.Addresses, tc.disownedBy
			if err := f.Truth.Create(t.Context(), orphan); err != nil {
				t.Fatal(err)
			}
			if _, err := f.orphans.Reconcile(t.Context(), "old-sandbox"); err != nil {
				t.Fatal(err)
			}
			if _, kept := f.Addresses()[orphanOfOld]; kept != tc.kept {
				t.Errorf("the record %s was kept: %t; expected %t", orphanOfOld, kept, tc.kept)
			}
		})
	}
}

// TestI10ALatePoolCacheDoesNotEndTheRecordOfATombstone: only that record has the podref from before, which finds the reservation.
func TestI10ALatePoolCacheDoesNotEndTheRecordOfATombstone(t *testing.T) {
	f := disownedByOld(t)
	orphan := records.OfOrphan("old-sandbox", metav1.NewTime(onepod.Now))
	orphan.Spec.Addresses = f.Record().Spec.Addresses
	if err := f.Truth.Create(t.Context(), orphan); err != nil {
		t.Fatal(err)
	}
	f.Pool.Late = slices.Clone(f.Pool.Entries)
	e := &f.Pool.Entries[0]
	e.PodRef, e.Releasing, e.Owner = v1alpha1.TombstonePrefix+"/"+orphanOfOld, orphanOfOld, nil
	if _, err := f.orphans.Reconcile(t.Context(), "old-sandbox"); err != nil {
		t.Fatal(err)
	}
	if _, kept := f.Addresses()[orphanOfOld]; !kept {
		t.Errorf("the record %s is gone, and its tombstone stands", orphanOfOld)
	}
}

// TestI2AFurtherAddressOfADisownedSandboxKeepsItsPodRef: the orphan's record was created before the pool had it.
func TestI2AFurtherAddressOfADisownedSandboxKeepsItsPodRef(t *testing.T) {
	f := disownedByOld(t)
	orphan := records.OfOrphan("old-sandbox", metav1.NewTime(onepod.Now))
	orphan.Spec.PodNamespace, orphan.Spec.PodName, orphan.Spec.DisownedBy = "default", "web-1", "old"
	if err := f.Truth.Create(t.Context(), orphan); err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{0, time.Second} {
		if err := f.after(d); err != nil {
			t.Fatal(err)
		}
	}
	f.keepsAsOrphan()
}

// TestI1APodThatVanishedGivesNothingAwayWhileItsSandboxIsDisowned: no finalizer keeps the next pod of the name away, so that the tombstone comes first.
func TestI1APodThatVanishedGivesNothingAwayWhileItsSandboxIsDisowned(t *testing.T) {
	f := disownedByOld(t)
	var old corev1.Pod
	if err := f.Truth.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web-1"}, &old); err != nil {
		t.Fatal(err)
	}
	old.Finalizers = nil
	if err := f.Truth.Update(t.Context(), &old); err != nil {
		t.Fatal(err)
	}
	f.FailWrites = "create v1alpha1.ipallocation"
	if err := f.after(0); err == nil {
		t.Fatal("a write failed, and no other try is due")
	}
	if f.Pool.Entries[0].Releasing != "old" {
		t.Fatalf("the pool has %v; expected a tombstone before any record is written", f.Pool.Entries)
	}
	f.FailWrites = ""
	for _, d := range []time.Duration{time.Second, time.Minute} {
		if err := f.after(d); err != nil {
			t.Fatal(err)
		}
	}
	f.keepsAsOrphan()
}

// keepsAsOrphan demands that the entry is in the orphan's record alone, and that no pod inherits it.
func (f *disowned) keepsAsOrphan() {
	f.Helper()
	if len(f.Pool.Entries) != 1 || f.Pool.Entries[0].Releasing != orphanOfOld || f.Pool.Entries[0].SandboxID != "old-sandbox" {
		f.Fatalf("the pool has %v; expected the tombstone of the orphan's record", f.Pool.Entries)
	}
	for name, addresses := range f.Addresses() {
		if (name == orphanOfOld) != (len(addresses) == 1) {
			f.Errorf("record %s has %v; expected the address in %s alone", name, addresses, orphanOfOld)
		}
	}
	if diff := cmp.Diff([]string{"10.0.0.5 default/web-1"}, f.Addresses()[orphanOfOld]); diff != "" {
		f.Errorf("the orphan's record, which needs the podref from before to find the reservation (-want +got):\n%s", diff)
	}
}

// TestI2WhatCannotStandInAPoolIsDisownedToo: the manager was restarted while the pod was deleted, so that nothing but its ADD ties the sandbox to it.
func TestI2WhatCannotStandInAPoolIsDisownedToo(t *testing.T) {
	for name, tc := range map[string]struct {
		pool func(*onepod.Pool)
		want string
	}{
		"another pod has the address": {func(p *onepod.Pool) {
			e := &p.Entries[0]
			e.SandboxID, e.PodRef, e.PoolResourceVersion = "next-sandbox", "default/web-2", "101"
			e.Owner = &ipam.PodRef{Namespace: "default", Name: "web-2"}
			p.Cached = "101"
		}, "default/web-2 next-sandbox"},
		"its release was begun": {func(p *onepod.Pool) {
			p.Entries[0].PodRef, p.Entries[0].Releasing = v1alpha1.TombstonePrefix+"/old", "old"
		}, v1alpha1.TombstonePrefix + "/" + orphanOfOld + " old-sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			f := disownedByOld(t)
			tc.pool(f.Pool)
			for _, d := range []time.Duration{0, time.Second, time.Minute} {
				if err := f.after(d); err != nil {
					t.Fatal(err)
				}
			}
			if got := f.Pool.Entries[0].PodRef + " " + f.Pool.Entries[0].SandboxID; got != tc.want {
				t.Errorf("the pool has %s; expected %s", got, tc.want)
			}
			addresses := f.Addresses()
			if diff := cmp.Diff([]string{"10.0.0.5 default/web-1"}, addresses[orphanOfOld]); diff != "" {
				t.Errorf("the orphan's record (-want +got):\n%s", diff)
			}
			if len(addresses["old"]) > 0 {
				t.Errorf("the pod's record still has %v", addresses["old"])
			}
		})
	}
}

// TestI10AFailedWriteForgetsNoDisownedSandbox: another pod has the address, so that no tombstone leads to the sandbox.
func TestI10AFailedWriteForgetsNoDisownedSandbox(t *testing.T) {
	for _, fails := range []string{"create v1alpha1.ipallocation", "update v1alpha1.ipallocation"} {
		t.Run(fails, func(t *testing.T) {
			f := disownedByOld(t)
			e := &f.Pool.Entries[0]
			e.SandboxID, e.PodRef, e.PoolResourceVersion = "next-sandbox", "default/web-2", "101"
			e.Owner, f.Pool.Cached = &ipam.PodRef{Namespace: "default", Name: "web-2"}, "101"
			f.FailWrites = fails
			if err := f.after(0); err == nil {
				t.Fatal("a write failed, and no other try is due")
			}
			if got := f.Addresses()["old"]; len(got) != 1 {
				t.Fatalf("the pod's record has %v; expected the address until the orphan's record and this one are written", got)
			}
			f.FailWrites = ""
			before := f.Addresses()[orphanOfOld]
			if _, err := f.orphans.Reconcile(t.Context(), "old-sandbox"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, f.Addresses()[orphanOfOld]); diff != "" {
				t.Fatalf("the pod's record still has the sandbox, and the orphan's record changed (-before +after):\n%s", diff)
			}
			for _, d := range []time.Duration{time.Second, time.Minute} {
				if err := f.after(d); err != nil {
					t.Fatal(err)
				}
			}
			addresses := f.Addresses()
			if len(addresses["old"]) > 0 || len(addresses[orphanOfOld]) != 1 {
				t.Errorf("records %v; expected the address in %s alone", addresses, orphanOfOld)
			}
		})
	}
}
