// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// TestAPodOfAGoneNodeIsExplainedAfterAllElse, and its next look comes before all releases, so that these can be ordered.
func TestAPodOfAGoneNodeIsExplainedAfterAllElse(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	result, err := f.r.Reconcile(t.Context(), "old")
	if err != nil || result.RequeueAfter != turnBegins || result.Priority == nil || *result.Priority != handler.LowPriority {
		t.Fatalf("%+v, %v; expected a turn with the lowest priority", result, err)
	}
	if len(f.Writes) > 0 {
		t.Errorf("wrote %v before its turn", f.Writes)
	}
	result, err = f.r.Reconcile(t.Context(), "old")
	if err != nil || result.Priority == nil || *result.Priority != 0 {
		t.Fatalf("%+v, %v; expected the next look to have the priority of other pods", result, err)
	}
	if !slices.Contains(f.Writes, explainsOnPod) || !slices.Contains(f.Writes, explainsOnRecord) {
		t.Errorf("wrote %v in its turn, expected the explanation", f.Writes)
	}
}

func TestPodsOfGoneNodesAreReleasedPoolByPool(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.holdsUntil(0)
	var result reconcile.Result
	err := f.After(onepod.NodeGoneDelay, func(ctx context.Context, uid types.UID) (_ reconcile.Result, err error) {
		result, err = f.r.Reconcile(ctx, uid)
		return result, err
	})
	if err != nil || len(f.Pool.Released) > 0 {
		t.Fatalf("released %v, %v; expected it to wait for its turn", f.Pool.Released, err)
	}
	if want := turnOfPool(f.Record().Spec.Addresses[0].Pool); result.RequeueAfter != turnBegins || result.Priority == nil || *result.Priority != want {
		t.Errorf("%+v; expected a turn with the priority of its pool, %d", result, want)
	}
	f.releasesAfter(onepod.NodeGoneDelay)
	if _, known := f.r.turns.Load(types.UID("old")); known {
		t.Error("the turn of a released pod is kept")
	}
}

func TestATurnIsThatOfThePool(t *testing.T) {
	turns := map[int]bool{}
	for _, pool := range []string{"kube-system/10.0.0.0-16", "kube-system/10.1.0.0-16", "kube-system/10.2.0.0-16", "kube-system/fd00---64"} {
		turn := turnOfPool(pool)
		if turn >= 0 || turn <= handler.LowPriority {
			t.Errorf("the turn of pool %s is %d, expected one between that of a replay (%d) and that of ordinary pods (0)", pool, turn, handler.LowPriority)
		}
		turns[turn] = true
	}
	if len(turns) != 4 {
		t.Errorf("four pools have %d turns", len(turns))
	}
}

// TestAWaitOfSomeSecondsIsExplainedIfItComesTwice: live reads confirm the end of a delay within them, or fail for longer.
func TestAWaitOfSomeSecondsIsExplainedIfItComesTwice(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.absence.Since = f.Clock.Now().Add(nodelife.ConfirmAgain - onepod.NodeGoneDelay)
	for _, want := range []reconcile.Result{{RequeueAfter: nodelife.ConfirmAgain, Priority: new(turnOfAll)}, {RequeueAfter: turnBegins, Priority: new(turnOfExplanations)}} {
		result, err := f.r.Reconcile(t.Context(), "old")
		if err != nil || len(f.Writes) > 0 {
			t.Fatalf("wrote %v, %v; expected no explanation yet", f.Writes, err)
		}
		if diff := cmp.Diff(want, result); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if _, err := f.r.Reconcile(t.Context(), "old"); err != nil || !slices.Contains(f.Writes, explainsOnPod) {
		t.Errorf("wrote %v, %v; expected the explanation", f.Writes, err)
	}
}
