// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"maps"
	"slices"

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
func (a *Agent) report(words []word, look handshake.Look, me self) {
	counts := map[v1alpha1.Reason]int{}
	first := map[v1alpha1.Reason]string{}
	if look.Listing == nil {
		counts[look.Failure.Reason], first[look.Failure.Reason] = 0, look.Failure.Message
	}
	if me.reason != "" {
		counts[me.reason], first[me.reason] = 0, me.message
	}
	for i := range words {
		if w := &words[i]; w.Kind == handshake.Silence {
			counts[w.Reason]++
			if first[w.Reason] == "" {
				first[w.Reason] = w.Message
			}
		}
	}
	a.silences.update(counts, first, me)
}

// acknowledge says on the Lease up to which version this node's silence about marks to all counts. A mark of the view that was not
// judged, because the record is another by now, is not settled.
func (a *Agent) acknowledge(ctx context.Context, all sights, words []word, look handshake.Look, me self) {
	if look.Listing == nil {
		return
	}
	done := map[markKey]bool{}
	for i := range words {
		w := &words[i]
		done[keyOf(w.record, w.mark)] = settled(w, me)
	}
	var pending []handshake.Pending
	for _, m := range all.marks {
		if m.mark.NodeUID == "" {
			pending = append(pending, handshake.Pending{After: m.after, By: m.by, Settled: done[keyOf(m.record, m.mark)]})
		}
	}
	err := a.acknowledger.acknowledge(ctx, pending, all.version, look.Listing.Began, a.identity)
	if err != nil {
		metrics.AgentWriteFailures.WithLabelValues(metrics.AgentWroteAcknowledgement).Inc()
		a.log.Error(err, "Acknowledging the marks that ask all nodes; trying again")
	}
}

// settled: there is nothing to claim, or the record that was read has the claim.
func settled(w *word, me self) bool {
	if w.Kind == handshake.Nothing {
		return true
	}
	given := answerOf(w.record, w.mark.SandboxID, me.nodeUID)
	return w.Kind == handshake.Answer && given != nil && given.Epoch == w.mark.Epoch && given.BootID == me.bootID
}
