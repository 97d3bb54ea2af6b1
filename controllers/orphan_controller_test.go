// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestI2AnOrphanWhoseAddressWasTakenOverIsLookedAtAgain: no event of the other sandbox leads to the orphan's record, which as long
// as it stands is a rival of everybody who has the address later.
func TestI2AnOrphanWhoseAddressWasTakenOverIsLookedAtAgain(t *testing.T) {
	record := recordOfOld(nil)
	record.Name, record.Spec.NodeName = v1alpha1.OrphanPrefix+"old-sandbox", ""
	f := newFate(t, record)
	f.pool.entries[0].SandboxID = "next-sandbox"
	r := orphansOf(f)

	result, err := r.Reconcile(t.Context(), "old-sandbox")
	if err != nil {
		t.Fatal(err)
	}
	if result.RequeueAfter <= 0 {
		t.Errorf("result %+v: nothing would ever look at the record again", result)
	}
	var stored v1alpha1.IPAllocation
	if err := f.truth.Get(t.Context(), client.ObjectKeyFromObject(record), &stored); err != nil || stored.Status.State != v1alpha1.StateConflict {
		t.Errorf("state %q, %v; expected Conflict", stored.Status.State, err)
	}
}

// TestI10AnOrphanThatOnlyALatePoolCacheHasIsNotRecorded: its address was released with proof. A record of it would stand as a conflict
// against the next pod at that address.
func TestI10AnOrphanThatOnlyALatePoolCacheHasIsNotRecorded(t *testing.T) {
	f := newFate(t)
	f.pool.entries[0].SeenSince = lateNow.Add(-time.Hour)
	f.pool.onLive = func() { f.pool.entries = nil }
	result, err := orphansOf(f).Reconcile(t.Context(), "old-sandbox")
	if err != nil {
		t.Fatal(err)
	}
	if result.RequeueAfter <= 0 {
		t.Errorf("result %+v: nothing would look again once the cache has caught up", result)
	}
	var records v1alpha1.IPAllocationList
	if err := f.truth.List(t.Context(), &records); err != nil || len(records.Items) > 0 {
		t.Errorf("recorded %v, %v; expected no record", records.Items, err)
	}
}

// TestI10AnEntryOfAPodThatEndedUnguardedIsAnOrphan: the pod is not guarded any more and its object may be kept for good, so no record of a pod
// and no deletion leads to the entry.
func TestI10AnEntryOfAPodThatEndedUnguardedIsAnOrphan(t *testing.T) {
	for name, tc := range map[string]struct {
		phase   corev1.PodPhase
		records int
	}{
		"it has ended": {corev1.PodSucceeded, 1},
		"it lives":     {corev1.PodRunning, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pod := finishedNamesake()
			pod.Labels, pod.Finalizers, pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = nil, nil, nil, nil
			pod.Status.Phase = tc.phase
			f := newFate(t, pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
			f.pool.entries[0].SeenSince = lateNow.Add(-time.Hour)
			f.clock.SetTime(lateNow.Add(time.Hour))
			f.r.client = interceptor.NewClient(f.truth, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
				into client.Object, opts ...client.GetOption) error {
				if _, isPod := into.(*corev1.Pod); isPod { // the cache selects by the label
					return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
				}
				return c.Get(ctx, key, into, opts...)
			}})
			if _, err := orphansOf(f).Reconcile(t.Context(), "old-sandbox"); err != nil {
				t.Fatal(err)
			}
			var records v1alpha1.IPAllocationList
			if err := f.truth.List(t.Context(), &records); err != nil || len(records.Items) != tc.records {
				t.Errorf("recorded %v, %v; expected %d", records.Items, err, tc.records)
			}
		})
	}
}

func orphansOf(f *fate) *OrphanReconciler {
	r := &OrphanReconciler{core: f.r.core, known: newOrphanSet(), keeper: newOrphanKeeper(f.r.core)}
	r.keeper.orphans = r
	return r
}
