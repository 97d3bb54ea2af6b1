// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// turnAgain is how soon a question that has to wait for its turn looks again.
const turnAgain = 5 * time.Second

// confirm asks the agent of the node that was read live, and holds on with what there is to wait for then.
func (r *Reconciler) confirm(ctx context.Context, v *view, d release.Decision) (result reconcile.Result, err error) {
	if err := r.mayAsk(ctx, v, d); err != nil {
		return result, err
	}
	if turn, waits := r.outOfTurn(v, d); waits {
		return r.hold(ctx, v, turn)
	}
	record := v.record
	if record == nil {
		record = records.OfPod(v.pod)
	}
	questions := records.QuestionsTo(v.node.Get(), d.Sandboxes, d.Fence)
	for i := range questions {
		questions[i].Living = d.Row == release.RowPodInUse
	}
	asked, err := records.Ask(ctx, r.client, r.clock.Now(), record, questions)
	if err != nil {
		return result, err
	}
	v.record = asked
	metrics.Decisions.WithLabelValues(string(d.Action), string(d.Reason)).Inc()
	r.flights.sent(v.uid, asked, questions)
	return r.hold(ctx, v, *d.Then)
}

// mayAsk stands before a query to a node. A pod that the guard holds is asked about, also in a shadow, because nothing else may end
// its wait; no other is, nor one that lives on.
func (r *Reconciler) mayAsk(ctx context.Context, v *view, d release.Decision) error {
	if v.hasFinalizer() && v.pod.DeletionTimestamp != nil {
		return nil
	}
	return r.options.Shadow.Withhold(ctx, shadow.Ask, "about the sandboxes of "+v.podName(), d.Message)
}

// outOfTurn is the wait of a question that would be one too many. It is asked before the facts are read live, and again after.
func (r *Reconciler) outOfTurn(v *view, d release.Decision) (release.Decision, bool) {
	if d.Then == nil || r.flights.room(v.node.Get().NodeUID, len(d.Sandboxes)) {
		return release.Decision{}, false
	}
	const jitter = 0.5
	turn := *d.Then
	turn.Reason, turn.After, turn.Asking = v1alpha1.ReasonHandshakesInFlight, wait.Jitter(turnAgain, jitter), true
	turn.Message = fmt.Sprintf("as many questions as may be open at once (%d, of one node %d) wait for the answers of agents: its node is asked after them",
		r.options.Handshakes.MaxInFlight, r.options.Handshakes.MaxInFlightPerNode)
	return turn, true
}

// hear counts what was said to the questions that stand, and those to which nothing was said.
func (r *Reconciler) hear(v *view) {
	if v.record == nil || !v.node.IsKnown() || r.options.Evidence != release.EvidenceAgent {
		return
	}
	for i := range v.record.Spec.Marks {
		asked := release.AskedOf(v.record, v.record.Spec.Marks[i].SandboxID)
		if word, said := asked.Word(v.node.Get()); said {
			r.flights.heard(v.uid, word)
		} else {
			r.flights.stands(v.uid, asked.Mark.Get())
		}
	}
}

// rewrite gives the entries of sandboxes that are gone to those that came in their place, as far as the pod, which lives, shows their
// addresses. The view is live, and the backend compares each entry once more. False says that there was nothing to rewrite.
func (r *Reconciler) rewrite(ctx context.Context, v *view, d release.Decision) (bool, error) {
	metrics.Decisions.WithLabelValues(string(d.Action), string(d.Reason)).Inc()
	var failures []error
	var rewritten []string
	tried := false
	for _, backend := range r.options.Backends {
		requests := v.rewrites(backend.Name(), d)
		if len(requests) == 0 {
			continue
		}
		tried = true
		for _, result := range backend.Rewrite(ctx, requests) {
			switch {
			case errors.Is(result.Err, ipam.ErrChanged): // the next pass sees it
			case result.Err != nil:
				failures = append(failures, result.Err)
			default:
				metrics.Rewrites.WithLabelValues(backend.Name()).Inc()
				rewritten = append(rewritten, result.Rewrite.IP.String())
			}
		}
	}
	if len(rewritten) > 0 {
		r.event(v, d, d.Reason, "gave the entries of "+strings.Join(rewritten, ", ")+" to the pod's present sandbox: "+d.Message)
	}
	return tried, errors.Join(failures...)
}

func (v *view) rewrites(backend string, d release.Decision) []ipam.Rewrite {
	var requests []ipam.Rewrite
	sandboxes := sets.New(d.Sandboxes...)
	for i := range v.held {
		held := &v.held[i]
		if held.Backend == backend && held.Releasing == "" && !held.Conflict && sandboxes.Has(held.SandboxID) && facts.Shows(v.pod, held) {
			requests = append(requests, ipam.Rewrite{Key: held.Key, Successor: d.Successors[held.SandboxID]})
		}
	}
	return requests
}

// dropVoidQueries takes the queries back to which the decision needs no answer.
func (r *Reconciler) dropVoidQueries(ctx context.Context, v *view, d release.Decision) error {
	void := func(m v1alpha1.Mark) bool { return v.isVoid(d, m) }
	if v.record == nil || !slices.ContainsFunc(v.record.Spec.Marks, void) {
		return nil
	}
	record := v.record.DeepCopy()
	records.DropMarks(record, void)
	return r.writeRecord(ctx, v, record)
}

// isVoid: the pod lives, and no query about it is still to be answered; or the query is one for any sandbox, and the pod lives or holds something
// after all that is not only withheld.
func (v *view) isVoid(d release.Decision, m v1alpha1.Mark) bool {
	lives := v.podFact.IsKnown() && !v.podFact.Get().Deleting
	holds := slices.ContainsFunc(v.held, func(held facts.Held) bool {
		return d.Withheld == nil || !slices.Contains(d.Withheld.Sandboxes, held.SandboxID)
	})
	return (d.Action == release.Keep && !d.Asking) || (m.SandboxID == v1alpha1.AnySandbox && (lives || holds))
}
