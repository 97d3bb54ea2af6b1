// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// say hands what differs from what the records have to the writer.
func (a *Agent) say(records map[string]*v1alpha1.IPAllocation, words []word, me self) {
	statements := map[string]*statement{}
	changed := map[string]bool{}
	for i := range words {
		w := &words[i]
		s, ok := statements[w.record.Name]
		if !ok {
			s = newStatement(w.record, me)
			statements[s.name] = s
		}
		if s.add(w) {
			changed[s.name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(records)) {
		record := records[name]
		s, ok := statements[name]
		if !ok {
			s = newStatement(record, me)
		}
		conditionChanged := s.settle(a.clock.Now())
		if (changed[name] || conditionChanged || s.drops(record)) && a.writer.put(s) {
			a.pace.news()
		}
	}
}

// report counts what is left unanswered and says once what begins or ends.
func (a *Agent) report(words []word, claims []claim, look handshake.Look, me self) {
	counts := map[v1alpha1.Reason]int{}
	first := map[v1alpha1.Reason]string{}
	if look.Listing == nil {
		counts[look.Failure.Reason], first[look.Failure.Reason] = 0, look.Failure.Message
	}
	if me.reason != "" {
		counts[me.reason], first[me.reason] = 0, me.message
	}
	count := func(w *handshake.Word) {
		if w.Kind != handshake.Silence {
			return
		}
		counts[w.Reason]++
		if first[w.Reason] == "" {
			first[w.Reason] = w.Message
		}
	}
	for i := range words {
		count(&words[i].Word)
	}
	for i := range claims {
		count(&claims[i].Word)
	}
	a.silences.update(counts, first, me)
}

// respond writes what the node claims of the queries to all nodes, and up to which of them it was asked.
func (a *Agent) respond(ctx context.Context, all *v1alpha1.AllNodesQuery, claims []claim, listed time.Time) {
	queries := handshake.Queries{UID: all.UID, Generation: all.Generation}
	for i := range claims {
		queries.Findings = append(queries.Findings, handshake.Finding{SandboxID: claims[i].SandboxID, Epoch: claims[i].Epoch, Word: claims[i].Word})
	}
	if err := a.responder.respond(ctx, all, &queries, listed, a.identity); err != nil {
		metrics.AgentWriteFailures.WithLabelValues(metrics.AgentWroteAcknowledgement).Inc()
		a.log.Error(err, "Responding to the queries to all nodes; trying again")
	}
}
