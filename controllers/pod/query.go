// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// rewriteAgain is the retry interval for a rewrite of entries that had changed.
const rewriteAgain = 5 * time.Second

// observeQueries reads the queries about the record and the responses. For a pod with addresses that is terminated, being deleted or deleted, a live
// pass also reads the last report on each sandbox without a cached query, since that report may hold the address (R11).
func (r *Reconciler) observeQueries(ctx context.Context, v *view) (err error) {
	v.queries.Record = string(v.uid)
	switch {
	case r.options.Evidence != release.EvidenceAgent:
	case !v.live:
		v.queries, err = r.options.Queries.Cached(ctx, r.client, string(v.uid))
	default:
		v.queries, err = r.options.Queries.Live(ctx, r.client, r.live, string(v.uid), v.queriedNodes())
	}
	return err
}

// queriedNodes are the Node UIDs of the pod's sandboxes, if a report on them may hold an address.
func (v *view) queriedNodes() []types.UID {
	lives := v.podFact.IsKnown() && !v.podFact.Get().Deleting && !facts.Ending(v.podFact, v.record).ByKubelet()
	if lives || len(v.held) == 0 || v.record == nil {
		return nil
	}
	var nodes []types.UID
	for i := range v.record.Spec.Sandboxes {
		if node := v.record.Spec.Sandboxes[i].Node; node != nil {
			nodes = append(nodes, node.UID)
		}
	}
	return nodes
}

// confirm queries the agent of the node that was read live, and then waits for its response.
func (r *Reconciler) confirm(ctx context.Context, v *view, d release.Decision) (result reconcile.Result, err error) {
	if err := r.mayQuery(ctx, v, d); err != nil {
		return result, err
	}
	if v.record == nil { // a query is about a record
		if err := r.writeRecord(ctx, v, records.OfPod(v.pod)); err != nil {
			return result, err
		}
	}
	node, purpose := v.node.Get(), v1alpha1.PurposeRelease
	if d.Row == release.RowPodInUse {
		purpose = v1alpha1.PurposeRewrite
	}
	for _, id := range d.Sandboxes {
		r.options.Queries.Make(&v.queries, node.NodeUID, v1alpha1.SandboxQuery{SandboxID: id, BootID: node.BootID, Purpose: purpose, OutOfService: d.OutOfService})
	}
	log.FromContext(ctx).Info("Querying the node", "nodeUID", node.NodeUID, "sandboxes", len(d.Sandboxes), "outOfService", d.OutOfService)
	// The last report of the recorded Node is kept: it holds the address if the Node proves to be of another machine.
	r.withdraw(v, func(q facts.QueryKey) bool {
		return slices.Contains(d.Sandboxes, q.SandboxID) && q.NodeUID != node.NodeUID && q.NodeUID != facts.Machine(v.record, q.SandboxID).Get().NodeUID
	})
	metrics.Decisions.WithLabelValues(string(d.Action), string(d.Reason)).Inc()
	return r.hold(ctx, v, r.afterQuery(v, d, node.NodeUID))
}

// afterQuery is the wait for the response, and why the query is not written yet.
func (r *Reconciler) afterQuery(v *view, d release.Decision, node types.UID) release.Decision {
	then := *d.Then
	if then.Reason != v1alpha1.ReasonAwaitingNodeResponse {
		return then
	}
	if why := r.options.Queries.Failure(node); why != "" {
		then.Reason, then.Message = v1alpha1.ReasonObservationFailed, why
	} else if r.options.Queries.IsFull(node) && slices.ContainsFunc(d.Sandboxes, func(id string) bool { return v.queries.Epoch(node, id) == 0 }) {
		then.Message = fmt.Sprintf("the agent of its node is not queried yet: it has %d queries, as many as fit, and this one follows when one of them is done", queries.Capacity)
	}
	return then
}

// mayQuery precedes a query to a node. In mode Shadow only pods with the finalizer that are not live are queried, because otherwise their wait might
// not end; any other query is only reported.
func (r *Reconciler) mayQuery(ctx context.Context, v *view, d release.Decision) error {
	if v.hasFinalizer() && v.pod.DeletionTimestamp != nil {
		return nil
	}
	return r.options.Shadow.Withhold(ctx, shadow.Query, "about the sandboxes of "+v.podName(), d.Message)
}

// withdraw withdraws queries. Those about sandboxes that the record no longer has are withdrawn by controllers/node.
func (r *Reconciler) withdraw(v *view, over func(facts.QueryKey) bool) {
	for _, q := range v.queries.All() {
		if over(q) {
			r.options.Queries.Withdraw(&v.queries, q)
		}
	}
}

// rewrite gives the entries of replaced sandboxes to their successors, if the live pod shows the addresses. The view is live, and the backend
// compares each entry again. It gives false if there was nothing to rewrite.
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

// isVoid says whether a query is no longer needed: the pod is live and the decision needs no response, or the query is about any sandbox, and the pod
// is live or has an entry that is not only withheld.
func (v *view) isVoid(d release.Decision, q facts.QueryKey) bool {
	lives := v.podFact.IsKnown() && !v.podFact.Get().Deleting
	holds := slices.ContainsFunc(v.held, func(held facts.Held) bool {
		return d.Withheld == nil || !slices.Contains(d.Withheld.Sandboxes, held.SandboxID)
	})
	return (d.Action == release.Keep && !d.Queried) || (q.SandboxID == v1alpha1.AnySandbox && (lives || holds))
}

// withdrawsReports says whether a decision withdraws a query that may hold an address by its response: a cache may still show the pod alive (R11).
func (v *view) withdrawsReports(d release.Decision) bool {
	return slices.ContainsFunc(v.queries.All(), func(q facts.QueryKey) bool {
		return v.isVoid(d, q) && !v.queries.About(q.SandboxID, q.NodeUID).Query.Get().Rewrite
	})
}
