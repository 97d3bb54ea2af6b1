// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// statement is all that this agent has to say in one record, as it is to stand there.
type statement struct {
	name    string
	record  types.UID
	nodeUID types.UID
	answers []v1alpha1.Answer
	// standing is the condition Answered that the record has, and condition the one that it is to have; nil for none.
	standing, condition *metav1.Condition
	// version is that of the record from which the statement was made.
	version uint64
}

// say hands what differs from what the records have to the writer.
func (a *Agent) say(words []word, me self) {
	statements := map[string]*statement{}
	changed := map[string]bool{}
	for i := range words {
		w := &words[i]
		s, ok := statements[w.record.Name]
		if !ok {
			s = &statement{name: w.record.Name, record: w.record.UID, nodeUID: me.nodeUID}
			s.version, _ = parseVersion(w.record.ResourceVersion)
			s.standing = meta.FindStatusCondition(w.record.Status.Conditions, v1alpha1.AnsweredCondition)
			statements[w.record.Name] = s
		}
		if s.add(w, me) {
			changed[s.name] = true
		}
	}
	for name, s := range statements {
		if conditionChanged := s.settle(a.clock.Now()); (changed[name] || conditionChanged) && a.writer.put(s) {
			a.pace.news()
		}
	}
}

// add puts a word into the statement; true if the record does not have it.
func (s *statement) add(w *word, me self) bool {
	given := answerOf(w.record, w.mark.SandboxID, me.nodeUID)
	if w.Kind == handshake.Answer {
		said := v1alpha1.Answer{SandboxID: w.mark.SandboxID, NodeUID: me.nodeUID, Epoch: w.mark.Epoch, Verdict: w.Verdict,
			Reason: string(w.Reason), Time: metav1.NewTime(w.Time), PodUID: w.PodUID, BootID: me.bootID}
		if given == nil || !same(*given, said) {
			s.answers = append(s.answers, said)
			return true
		}
	}
	if given != nil && given.Epoch == w.mark.Epoch {
		s.answers = append(s.answers, *given)
	}
	if w.Kind == handshake.Silence && w.mark.NodeUID == me.nodeUID && s.condition == nil {
		s.condition = &metav1.Condition{Type: v1alpha1.AnsweredCondition, Status: metav1.ConditionFalse, Reason: string(w.Reason), Message: w.Message}
	}
	return false
}

// same: the time of the list behind an answer is no news.
func same(a, b v1alpha1.Answer) bool {
	a.Time, b.Time = metav1.Time{}, metav1.Time{}
	return a == b
}

// settle completes the condition; true if it is not what the record has. Once a record has it, it is written for ever: to leave
// it out would not take away what an agent of an earlier Node UID wrote.
func (s *statement) settle(now time.Time) bool {
	switch {
	case s.condition == nil && s.standing == nil:
		return false
	case s.condition == nil:
		s.condition = &metav1.Condition{Type: v1alpha1.AnsweredCondition, Status: metav1.ConditionTrue,
			Reason: string(v1alpha1.ReasonAnswered), Message: "the agent of the node answers"}
	}
	if s.standing != nil && s.standing.Status == s.condition.Status && s.standing.Reason == s.condition.Reason {
		s.condition = s.standing
		return false
	}
	s.condition.LastTransitionTime = metav1.NewTime(now)
	return true
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

// acknowledge says on the Lease up to which version this node's silence about marks to all counts.
func (a *Agent) acknowledge(ctx context.Context, words []word, version uint64, look handshake.Look, me self) {
	if len(words) == 0 || look.Listing == nil {
		return
	}
	var pending []handshake.Pending
	for i := range words {
		w := &words[i]
		if w.mark.NodeUID == "" {
			pending = append(pending, handshake.Pending{After: w.after, By: w.by, Settled: settled(w, me)})
		}
	}
	err := a.ledger.acknowledge(ctx, pending, version, look.Listing.Began, a.identity)
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
	return w.Kind == handshake.Answer && given != nil && given.Epoch == w.mark.Epoch
}

// describe is a short text for the log.
func (s *statement) describe() string {
	parts := make([]string, 0, len(s.answers)+1)
	for _, given := range s.answers {
		parts = append(parts, given.SandboxID+" "+string(given.Verdict)+" ("+given.Reason+")")
	}
	if s.condition != nil && s.condition.Status == metav1.ConditionFalse {
		parts = append(parts, "no answer ("+s.condition.Reason+")")
	}
	return strings.Join(parts, ", ")
}

// equal: the same answers, whatever the times of their lists, and the same condition.
func (s *statement) equal(o *statement) bool {
	if s.record != o.record || s.nodeUID != o.nodeUID || (s.condition == nil) != (o.condition == nil) || !slices.EqualFunc(s.answers, o.answers, same) {
		return false
	}
	return s.condition == nil || (s.condition.Status == o.condition.Status && s.condition.Reason == o.condition.Reason)
}
