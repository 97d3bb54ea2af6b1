// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"hash/fnv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	// turnBegins is the least wait that takes a pod out of its worker.
	turnBegins = time.Millisecond
	// turnOfAll is the priority of ordinary pods.
	turnOfAll = 0
	// turnOfExplanations follows all else.
	turnOfExplanations = handler.LowPriority
)

// takeTurn queues a pod of a gone Node again, by priority, before it is released and before its wait is explained. Thousands of them may come at once,
// and none of it changes what is decided (docs/decisions/0325).
func (r *Reconciler) takeTurn(v *view, d release.Decision) (wait bool, result reconcile.Result) {
	if !v.gone.IsKnown() {
		return false, result
	}
	before, _ := r.turns.Load(v.uid)
	turn, after := turnOfExplanations, turnBegins
	switch {
	case d.Action == release.Reread && len(v.held) > 0:
		turn = turnOfPool(v.held[0].Pool)
	case !r.isExplainedLater(v, d):
		return false, result
	case 0 < d.After && d.After <= nodelife.ConfirmAgain && before != turnOfAll && before != turnOfExplanations:
		turn, after = turnOfAll, d.After // live reads will have confirmed the end of the delay by then
	}
	if before == turn {
		return false, result
	}
	r.turns.Store(v.uid, turn)
	return true, reconcile.Result{RequeueAfter: after, Priority: new(turn)}
}

// isExplainedLater says whether the wait is to be explained in a turn. What live reads show is explained at once: with caches that differ the pod would
// have one turn after the other.
func (r *Reconciler) isExplainedLater(v *view, d release.Decision) bool {
	return !v.live && d.Action == release.Wait && !release.IsFailure(d.Reason) && !r.held.is(v.uid, d.Reason)
}

// turnOfPool is a priority between turnOfAll and turnOfExplanations: the pods of a pool follow each other, and so share its reads and writes.
func turnOfPool(pool string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(pool))
	return turnOfAll - 1 - int(hash.Sum32()%(turnOfAll-turnOfExplanations-1))
}
