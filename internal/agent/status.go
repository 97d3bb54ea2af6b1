// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// writeStatus writes the status if it differs from that of the GuardedNode, outside of the back-off after a failure.
func (a *Agent) writeStatus(ctx context.Context, s *seen, look handshake.Look, me self) {
	next := a.statusOf(s, look, me)
	if a.reporter.isWaiting() {
		return
	}
	err := a.confirmAll(ctx, s, next)
	switch {
	case err != nil:
	case !equality.Semantic.DeepEqual(*next, s.node.Status):
		var written bool
		if written, err = a.reporter.write(ctx, s.node, next, me); written {
			a.wrote(s, next)
		} else if err == nil {
			a.poke()
			err = a.checkStatus(ctx, s, me)
		}
	case len(s.queries)+len(s.orphans) > 0:
		err = a.checkStatus(ctx, s, me)
	}
	if err != nil {
		metrics.AgentWriteFailures.Inc()
		a.log.Error(err, "Responding to queries failed; trying again")
	}
}

// statusOf is the status that the GuardedNode has to have.
func (a *Agent) statusOf(s *seen, look handshake.Look, me self) *v1alpha1.GuardedNodeStatus {
	next := s.node.Status.DeepCopy()
	next.Responses = nil
	for i := range s.queries {
		if r := handshake.Response(s.queries[i].spec, s.queries[i].Outcome, s.queries[i].given, me.bootID, a.clock.Now()); r != nil {
			next.Responses = append(next.Responses, *r)
		}
	}
	next.AllNodes = allNodesOf(s, next.AllNodes, look, me)
	condition := responding(s, look)
	if stands := meta.FindStatusCondition(next.Conditions, condition.Type); stands == nil || stands.Status != condition.Status || stands.Reason != condition.Reason {
		condition.LastTransitionTime = metav1.NewTime(a.clock.Now())
		meta.SetStatusCondition(&next.Conditions, condition)
	}
	return next
}

// allNodesOf is the response to the queries to all nodes that the GuardedNode has to have.
func allNodesOf(s *seen, standing *v1alpha1.AllNodesResponse, look handshake.Look, me self) *v1alpha1.AllNodesResponse {
	if s.all == nil || look.Listing == nil || (len(s.orphans) == 0 && (standing == nil || len(standing.Claims) == 0)) {
		return standing
	}
	queries := handshake.AllNodesFindings{UID: s.all.UID, Generation: s.all.Generation}
	for i := range s.orphans {
		queries.Findings = append(queries.Findings, handshake.Finding{SandboxID: s.orphans[i].orphan.SandboxID, Epoch: s.orphans[i].orphan.Epoch, Outcome: s.orphans[i].Outcome})
	}
	response, due := queries.Respond(standing, me.bootID, look.Listing.Began)
	if !due {
		return standing
	}
	return &response
}

// responding is the condition Responding. It is written again only for another reason, since messages may differ at each try.
func responding(s *seen, look handshake.Look) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.RespondingCondition, Status: metav1.ConditionTrue, Reason: string(v1alpha1.ReasonResponding),
		Message: "the agent of the node lists its container runtime"}
	refuse := func(reason v1alpha1.Reason, message string) {
		const limit = 32768 // the API server refuses longer messages
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, string(reason), message[:min(len(message), limit)]
	}
	if look.Listing == nil {
		refuse(look.Failure.Reason, look.Failure.Message)
		return condition
	}
	for _, e := range slices.Concat(s.queries, s.orphans) {
		if e.Kind == handshake.NoResponse && condition.Status == metav1.ConditionTrue {
			refuse(e.Reason, e.Message)
		}
	}
	return condition
}

// confirmAll keeps the old response to the queries to all nodes unless a live read confirms the queries.
func (a *Agent) confirmAll(ctx context.Context, s *seen, next *v1alpha1.GuardedNodeStatus) error {
	if equality.Semantic.DeepEqual(next.AllNodes, s.node.Status.AllNodes) {
		return nil
	}
	stands, err := a.reporter.stands(ctx, s.all)
	if err == nil && !stands {
		next.AllNodes = s.node.Status.AllNodes
	}
	return err
}

// checkStatus reads the object live when that is due, and puts a version that the watch missed into its store.
func (a *Agent) checkStatus(ctx context.Context, s *seen, me self) error {
	response := cmp.Or(s.node.Status.AllNodes, &v1alpha1.AllNodesResponse{})
	live, err := a.reporter.reread(ctx, me, s.all != nil && s.all.Generation < response.Generation)
	if served.IsAbsent(err) {
		a.follow(ctx, "") // the next round begins another watch, with a list: this one would not show an object that was there all the time
		a.poke()
		return nil
	}
	if err != nil || live == nil || live.ResourceVersion == s.node.ResourceVersion {
		return err
	}
	return a.own.Replace([]any{live}, "")
}

// wrote counts and logs the responses that were written.
func (a *Agent) wrote(s *seen, next *v1alpha1.GuardedNodeStatus) {
	a.pace.news()
	for i := range s.queries {
		e := &s.queries[i]
		r := responseTo(next, &e.spec)
		if r != nil && (e.given == nil || *r != *e.given) {
			metrics.AgentResponses.WithLabelValues(string(r.Verdict), r.Reason).Inc()
			a.log.Info("Responded", "record", r.Record, "sandbox", r.SandboxID, "epoch", r.Epoch, "verdict", r.Verdict, "reason", r.Reason, "why", e.Message)
		}
	}
	if !equality.Semantic.DeepEqual(next.AllNodes, s.node.Status.AllNodes) {
		metrics.AgentAcknowledgements.Inc()
	}
}

// report reports which queries get no response, by reason.
func (a *Agent) report(s *seen, look handshake.Look, me self) {
	counts := map[v1alpha1.Reason]int{}
	first := map[v1alpha1.Reason]string{}
	if look.Listing == nil {
		counts[look.Failure.Reason], first[look.Failure.Reason] = 0, look.Failure.Message
	}
	if me.reason != "" {
		counts[me.reason], first[me.reason] = 0, me.message
	}
	for _, e := range slices.Concat(s.queries, s.orphans) {
		if e.Kind != handshake.NoResponse {
			continue
		}
		counts[e.Reason]++
		if first[e.Reason] == "" {
			first[e.Reason] = e.Message
		}
	}
	a.reasons.update(counts, first, me)
}
