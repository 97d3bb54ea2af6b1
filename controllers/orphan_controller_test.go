// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

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

func orphansOf(f *fate) *OrphanReconciler {
	r := &OrphanReconciler{core: f.r.core, known: newOrphanSet(), keeper: newOrphanKeeper(f.r.core)}
	r.keeper.orphans = r
	return r
}
