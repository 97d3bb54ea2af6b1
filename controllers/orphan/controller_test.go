// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// TestI2AnOrphanWithATakenOverAddressIsReconciledAgain: no event of the other sandbox queues the orphan, whose record holds the address against
// every later pod.
func TestI2AnOrphanWithATakenOverAddressIsReconciledAgain(t *testing.T) {
	record := onepod.RecordOfOld(nil)
	record.Name, record.Spec.NodeName = v1alpha1.OrphanPrefix+"old-sandbox", ""
	f := newWorld(t, record)
	f.Pool.Entries[0].SandboxID = "next-sandbox"
	r := f.r

	result, err := r.Reconcile(t.Context(), "old-sandbox")
	if err != nil {
		t.Fatal(err)
	}
	if result.RequeueAfter <= 0 {
		t.Errorf("result %+v: nothing would reconcile the record again", result)
	}
	var stored v1alpha1.IPAllocation
	if err := f.Truth.Get(t.Context(), client.ObjectKeyFromObject(record), &stored); err != nil || stored.Status.State != v1alpha1.StateConflict {
		t.Errorf("state %q, %v; expected Conflict", stored.Status.State, err)
	}
}

// TestI10AnOrphanThatOnlyALatePoolCacheHasIsNotRecorded: its address was released with proof. A record would be a conflict for the next pod with
// that address.
func TestI10AnOrphanThatOnlyALatePoolCacheHasIsNotRecorded(t *testing.T) {
	f := newWorld(t)
	f.Pool.Entries[0].SeenSince = onepod.Now.Add(-time.Hour)
	f.Pool.OnLive = func() { f.Pool.Entries = nil }
	result, err := f.r.Reconcile(t.Context(), "old-sandbox")
	if err != nil {
		t.Fatal(err)
	}
	if result.RequeueAfter <= 0 {
		t.Errorf("result %+v: nothing would reconcile again once the cache has caught up", result)
	}
	var records v1alpha1.IPAllocationList
	if err := f.Truth.List(t.Context(), &records); err != nil || len(records.Items) > 0 {
		t.Errorf("recorded %v, %v; expected no record", records.Items, err)
	}
}

// TestI10AnOrphanIsRecordedWithWhatThePoolsHold: an address that only a late pool cache shows for it may belong to another pod by now.
func TestI10AnOrphanIsRecordedWithWhatThePoolsHold(t *testing.T) {
	f := newWorld(t)
	f.Pool.Entries[0].SeenSince = onepod.Now.Add(-time.Hour)
	further := f.Pool.Entries[0]
	further.IP = netip.MustParseAddr("10.0.0.6")
	f.Pool.Entries = append(f.Pool.Entries, further)
	f.Pool.OnLive = func() { f.Pool.Entries = f.Pool.Entries[1:2] }
	if _, err := f.r.Reconcile(t.Context(), "old-sandbox"); err != nil {
		t.Fatal(err)
	}
	var records v1alpha1.IPAllocationList
	if err := f.Truth.List(t.Context(), &records); err != nil || len(records.Items) != 1 {
		t.Fatalf("recorded %v, %v; expected one record", records.Items, err)
	}
	if got := records.Items[0].Spec.Addresses; len(got) != 1 || got[0].IP != "10.0.0.6" {
		t.Errorf("recorded %v; expected 10.0.0.6 alone, which the pool holds", got)
	}
}

// TestI10AnEntryOfAPodThatEndedUnguardedIsAnOrphan: no record and perhaps never a deletion of the pod leads to the entry.
func TestI10AnEntryOfAPodThatEndedUnguardedIsAnOrphan(t *testing.T) {
	optsOut := func(p *corev1.Pod) { p.Annotations[v1alpha1.GuardAnnotation] = v1alpha1.GuardAnnotationOff }
	for name, tc := range map[string]struct {
		phase   corev1.PodPhase
		change  func(*corev1.Pod)
		records int
	}{
		"it terminated":                       {corev1.PodSucceeded, func(*corev1.Pod) {}, 1},
		"it lives":                            {corev1.PodRunning, func(*corev1.Pod) {}, 0},
		"it is exempt, and terminated":        {corev1.PodSucceeded, optsOut, 1},
		"it is exempt, and shows the address": {corev1.PodRunning, optsOut, 0},
		"it is exempt, and shows none yet":    {corev1.PodRunning, func(p *corev1.Pod) { p.Annotations = map[string]string{}; optsOut(p) }, 0},
		"it is exempt, and shows another":     {corev1.PodRunning, func(p *corev1.Pod) { p.Annotations = onepod.PodOf("old", "10.0.0.9").Annotations; optsOut(p) }, 1},
		"it is exempt, by its node's network": {corev1.PodRunning, func(p *corev1.Pod) { p.Annotations, p.Spec.HostNetwork = nil, true }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			pod := onepod.FinishedPod()
			pod.Labels, pod.Finalizers, pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = nil, nil, nil, nil
			pod.Status.Phase = tc.phase
			tc.change(pod)
			f := newWorld(t, pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
			f.Pool.Entries[0].SeenSince = onepod.Now.Add(-time.Hour)
			f.Clock.SetTime(onepod.Now.Add(time.Hour))
			f.r.client = interceptor.NewClient(f.Truth, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
				into client.Object, opts ...client.GetOption) error {
				if _, isPod := into.(*corev1.Pod); isPod { // the cache selects by the label
					return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
				}
				return c.Get(ctx, key, into, opts...)
			}})
			if _, err := f.r.Reconcile(t.Context(), "old-sandbox"); err != nil {
				t.Fatal(err)
			}
			var records v1alpha1.IPAllocationList
			if err := f.Truth.List(t.Context(), &records); err != nil || len(records.Items) != tc.records {
				t.Errorf("recorded %v, %v; expected %d", records.Items, err, tc.records)
			}
		})
	}
}

// TestI10OneRuleFindsTheOwnerOfAnEntry: the orphan controller attributes an entry to a pod only if the pod controller does.
func TestI10OneRuleFindsTheOwnerOfAnEntry(t *testing.T) {
	alive := onepod.PodOf("old", "10.0.0.5")
	alive.Annotations = nil
	earlier := onepod.RecordOfOld(onepod.OldMachine())
	earlier.Name, earlier.Spec.Sandboxes[0].ID, earlier.Spec.Addresses[0].SandboxID = "earlier", "earlier-sandbox", "earlier-sandbox"
	for name, objects := range map[string][]client.Object{"no earlier pod": {alive}, "an earlier pod of the name is on record": {alive, earlier}} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, append(objects, onepod.Node("node", "node-1", "m1"))...)
			f.Clock.SetTime(onepod.Now.Add(-2 * time.Hour))
			f.r.options.Witness.Handler().OnAdd(alive, false)
			entry := f.Pool.Entries[0]
			entry.AddObserved, entry.SeenSince = true, onepod.Now.Add(-time.Hour)
			if _, got := f.r.ownerOf(t.Context(), &entry); got != (len(objects) == 1) {
				t.Errorf("the pod owns the entry: %t; expected %t", got, !got)
			}
		})
	}
}

func TestAShadowQueriesNoNodeAboutAnOrphan(t *testing.T) {
	r := &Reconciler{options: Options{Shadow: shadow.NewReporter()}} // without a client and a reclaimer: a write or a want would panic
	node := release.Known(release.Node{Machine: release.Machine{NodeUID: "node-1", BootID: "boot"}})
	v := &view{id: "x", record: &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OrphanPrefix + "x"}},
		facts: orphan.Facts{Addressed: &release.Observation{Node: node}}, claimed: &facts.Read{}}
	for name, query := range map[string]func(context.Context, *view, orphan.Decision) error{"all nodes": func(ctx context.Context, v *view, _ orphan.Decision) error { return r.queryAll(ctx, v) }, "one node": r.confirm} {
		if err := query(t.Context(), v, orphan.Decision{}); !errors.Is(err, shadow.ErrWithheld) {
			t.Errorf("%s: got %v, expected %v", name, err, shadow.ErrWithheld)
		}
	}
}
