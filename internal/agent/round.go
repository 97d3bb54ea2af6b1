// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

const (
	// identityRetry is the interval of reads of the identity while the agent has none, or its GuardedNode shows another machine or boot.
	identityRetry = 15 * time.Second
	// listTimeout bounds a list of the runtime. A longer one would break the sequence of lists.
	listTimeout = handshake.MaxGap
)

// seen is the content of the watches at one moment.
type seen struct {
	// node is the GuardedNode of the node, and all the AllNodesQuery; nil if it does not exist.
	node *v1alpha1.GuardedNode
	all  *v1alpha1.AllNodesQuery
	// synced is false until both were listed.
	synced bool
	// queries are those to this node, and orphans those to all nodes.
	queries []evaluation
	orphans []evaluation
}

// evaluation is a standing query with its outcome.
type evaluation struct {
	// spec is set for a query to this node, orphan for one to all nodes.
	spec   v1alpha1.SandboxQuery
	orphan v1alpha1.OrphanQuery
	query  handshake.Query
	handshake.Outcome
	// given is the response in the status, of any epoch; nil for none.
	given *v1alpha1.SandboxResponse
	// final: ReadyForRelease was written for this query.
	final bool
}

// round reads the queries, lists the runtime, and writes the responses.
func (a *Agent) round(ctx context.Context) {
	a.began = a.clock.Now()
	a.health.last.Store(new(a.began))
	me := a.currentIdentity(ctx)
	a.follow(ctx, me.nodeUID)
	s := a.see(me)
	look := a.look(ctx, s, me)
	a.health.last.Store(new(a.clock.Now()))
	for i := range s.queries {
		a.judge(&s.queries[i], look, me)
	}
	for i := range s.orphans {
		s.orphans[i].Outcome = a.outcomeOf(s.orphans[i].query, look, me)
	}
	a.report(s, look, me)
	if me.nodeUID != "" && s.node != nil {
		a.writeStatus(ctx, s, look, me)
	}
	a.health.last.Store(new(a.clock.Now()))
	a.health.ready.Store(s.synced && look.Listing != nil && me.nodeUID != "")
}

// see takes a snapshot of the watches and prepares each query for its evaluation.
func (a *Agent) see(me self) *seen {
	s := &seen{}
	node, exists, since, nodeSynced := a.own.snapshot()
	if exists {
		s.node = node
		for i := range node.Spec.Queries {
			q := &node.Spec.Queries[i]
			s.queries = append(s.queries, prepare(node, q, since[keyOf(node, q)], me))
		}
	}
	all, exists, since, allSynced := a.all.snapshot()
	if exists {
		s.all = all
		for i := range all.Spec.Queries {
			q := &all.Spec.Queries[i]
			query := handshake.Query{SandboxID: q.SandboxID, DisownedBy: q.DisownedBy, CreationDone: q.CreationDone, Seen: since[keyOfAll(all, q)], Ended: true,
				Affirmed: claimedWith(s.node, q.SandboxID, me)}
			s.orphans = append(s.orphans, evaluation{orphan: *q, query: query})
		}
	}
	s.synced = nodeSynced && allSynced
	return s
}

// prepare makes the evaluation of a query to this node, without its outcome.
func prepare(node *v1alpha1.GuardedNode, q *v1alpha1.SandboxQuery, at time.Time, me self) evaluation {
	query := handshake.Query{SandboxID: q.SandboxID, DisownedBy: q.DisownedBy, NodeUID: me.nodeUID, Seen: at, Ended: q.Purpose == v1alpha1.PurposeRelease && !q.OutOfService,
		Affirmed: claimedWith(node, q.SandboxID, me)}
	if !strings.HasPrefix(q.Record, v1alpha1.OrphanPrefix) {
		query.RecordUID = types.UID(q.Record)
	}
	e := evaluation{spec: *q, given: responseTo(&node.Status, q)}
	if given := e.given; given != nil {
		if given.BootID == me.bootID && me.bootID != "" && given.PodUID != "" {
			query.Affirmed = given.PodUID
		}
		e.final = handshake.Final(*q, *given) && handshake.Foreign(*q, me.bootID) == ""
	}
	e.query = query
	return e
}

// responseTo is the response in a status about the sandbox of a query, of any epoch; nil without one.
func responseTo(status *v1alpha1.GuardedNodeStatus, q *v1alpha1.SandboxQuery) *v1alpha1.SandboxResponse {
	for i := range status.Responses {
		if given := &status.Responses[i]; given.Record == q.Record && given.SandboxID == q.SandboxID {
			return given
		}
	}
	return nil
}

// claimedWith is the pod UID in the claim of a sandbox by this node in this boot; empty if there is none.
func claimedWith(node *v1alpha1.GuardedNode, sandboxID string, me self) types.UID {
	if node == nil || node.Status.AllNodes == nil {
		return ""
	}
	for i := range node.Status.AllNodes.Claims {
		if c := &node.Status.AllNodes.Claims[i]; c.SandboxID == sandboxID && c.BootID == me.bootID {
			return c.PodUID
		}
	}
	return ""
}

// currentIdentity is the identity that was read last. It is read again, at most every identityRetry, while the agent may not respond and while
// its GuardedNode is absent or shows another Node UID or boot of this machine (R8).
func (a *Agent) currentIdentity(ctx context.Context) self {
	me, at := a.identity.known()
	a.identityDue = me.nodeUID == "" || a.isOutdated(me)
	if !a.identityDue || (!at.IsZero() && a.clock.Now().Sub(at) < identityRetry) {
		return me
	}
	found, err := a.identity.fresh(ctx)
	if err != nil {
		a.log.Error(err, "Reading the identity of the agent failed; trying again")
		return me
	}
	if found != me {
		a.log.Info("Identity", "nodeUID", found.nodeUID, "bootID", found.bootID, "podUID", found.podUID, "refused", found.message)
	}
	return found
}

// isOutdated says whether the GuardedNode of the watch is not about this boot of this machine.
func (a *Agent) isOutdated(me self) bool {
	node, exists, _, synced := a.own.snapshot()
	if !synced {
		return false
	}
	if !exists || len(node.Spec.Machines) == 0 {
		return true
	}
	newest := &node.Spec.Machines[0]
	if newest.SuccessorUID != "" || newest.Gone != nil || newest.BootID != me.bootID {
		return true
	}
	for i := range node.Spec.Queries {
		if handshake.Foreign(node.Spec.Queries[i], me.bootID) != "" {
			return true
		}
	}
	return false
}

// look lists the runtime and adds the list to the memory.
func (a *Agent) look(ctx context.Context, s *seen, me self) handshake.Look {
	queries := make([]handshake.Query, 0, len(s.queries)+len(s.orphans))
	for i := range s.queries {
		if !s.queries[i].final {
			queries = append(queries, s.queries[i].query)
		}
	}
	for i := range s.orphans {
		queries = append(queries, s.orphans[i].query)
	}
	about := sandbox.Queried{IDs: sets.New[string](), Pods: sets.New[types.UID]()}
	for _, q := range queries {
		about.IDs.Insert(q.SandboxID)
		about.Pods.Insert(q.Pods(a.memory.Recall(q))...)
	}
	a.memory.Expect(queries)
	began := a.clock.Now()
	look := a.list(ctx, about, me)
	metrics.AgentListingDuration.Observe(a.clock.Now().Sub(began).Seconds())
	a.memory.Observe(look)
	metrics.AgentSandboxes.Set(float64(a.memory.Len()))
	metrics.AgentOpenQueries.Set(float64(len(queries)))
	a.pace.open = len(queries) > 0
	a.open.Store(a.pace.open)
	return look
}

func (a *Agent) list(ctx context.Context, about sandbox.Queried, me self) handshake.Look {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	listing, err := a.options.Lister.List(ctx, about)
	look := sandbox.LookOf(listing, err, me.podUID)
	result := metrics.AgentListed
	if look.Listing == nil {
		result = string(look.Failure.Reason)
	}
	metrics.AgentListings.WithLabelValues(result).Inc()
	return look
}

// judge fills in the outcome.
func (a *Agent) judge(e *evaluation, look handshake.Look, me self) {
	if e.final {
		return
	}
	if foreign := handshake.Foreign(e.spec, me.bootID); me.nodeUID != "" && foreign != "" {
		e.Outcome = handshake.Outcome{Kind: handshake.NoResponse, Reason: v1alpha1.ReasonNotThisMachine, Message: foreign}
		return
	}
	e.Outcome = a.outcomeOf(e.query, look, me)
}

// outcomeOf judges a query that is for this agent.
func (a *Agent) outcomeOf(q handshake.Query, look handshake.Look, me self) handshake.Outcome {
	switch {
	case me.nodeUID == "" && me.reason == "":
		return handshake.Outcome{Kind: handshake.Pending, Message: "the agent does not know yet for which Node it may respond"}
	case me.nodeUID == "":
		return handshake.Outcome{Kind: handshake.NoResponse, Reason: v1alpha1.ReasonNotThisMachine, Message: me.message}
	}
	return handshake.Judge(q, look, a.memory.Recall(q), a.options.Settings)
}
