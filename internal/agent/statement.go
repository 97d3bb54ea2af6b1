// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// statement is all that this agent has to say in one record, as it is to stand there. What it leaves out goes, as far as it is the
// agent's: the field manager owns what it wrote.
type statement struct {
	name    string
	record  types.UID
	nodeUID types.UID
	bootID  string
	answers []v1alpha1.Answer
	// asked: a mark of the record asks the agent's Node by its UID. The condition is for that agent alone: of a record of unknown
	// node every agent would have its own opinion.
	asked bool
	// standing is the condition Answered that the record has, and condition the one that it is to have; nil for none.
	standing, condition *metav1.Condition
	// version is that of the record from which the statement was made, and the only one into which it may be written.
	version uint64
	// messages explain the answers, by sandbox ID, for the log.
	messages map[string]string
}

// newStatement begins one about a record.
func newStatement(record *v1alpha1.IPAllocation, me self) *statement {
	s := &statement{name: record.Name, record: record.UID, nodeUID: me.nodeUID, bootID: me.bootID, standing: answeredOf(record), messages: map[string]string{}}
	s.version, _ = parseVersion(record.ResourceVersion)
	return s
}

// answeredOf is the record's condition Answered; nil without one.
func answeredOf(record *v1alpha1.IPAllocation) *metav1.Condition {
	return meta.FindStatusCondition(record.Status.Conditions, v1alpha1.AnsweredCondition)
}

// add puts a word into the statement; true if the record does not have it. Without a new answer the one that was given stays, of
// whatever epoch: it is what a later agent knows of the sandbox.
func (s *statement) add(w *word) bool {
	given := answerOf(w.record, w.mark.SandboxID, s.nodeUID)
	mine := w.mark.NodeUID == s.nodeUID
	s.asked = s.asked || mine
	if w.Kind == handshake.Silence && mine && s.condition == nil {
		s.condition = &metav1.Condition{Type: v1alpha1.AnsweredCondition, Status: metav1.ConditionFalse, Reason: string(w.Reason), Message: w.Message}
	}
	if w.Kind == handshake.Answer {
		said := v1alpha1.Answer{SandboxID: w.mark.SandboxID, NodeUID: s.nodeUID, Epoch: w.mark.Epoch, Verdict: w.Verdict,
			Reason: string(w.Reason), Time: metav1.NewTime(w.Time), PodUID: w.PodUID, BootID: s.bootID, SuccessorID: w.SuccessorID}
		s.messages[said.SandboxID] = w.Message
		if given == nil || !same(*given, said) {
			s.answers = append(s.answers, said)
			return true
		}
	}
	if given != nil {
		s.answers = append(s.answers, *given)
	}
	return false
}

// same: the time of the list behind an answer is no news.
func same(a, b v1alpha1.Answer) bool {
	a.Time, b.Time = metav1.Time{}, metav1.Time{}
	return a == b
}

// settle completes the condition; true if it is not what the record has. Once a record has it, it is written for as long as this
// Node is asked: to leave it out would not take away what an agent of an earlier Node UID wrote.
func (s *statement) settle(now time.Time) bool {
	switch {
	case !s.asked || (s.condition == nil && s.standing == nil):
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

// drops: the record has something of this agent that it does not say any more, because no mark asks for it.
func (s *statement) drops(record *v1alpha1.IPAllocation) bool {
	owned := ownedBy(record, fieldManager(s))
	if s.condition == nil && s.standing != nil && owned.condition {
		return true
	}
	return owned.answers && slices.ContainsFunc(record.Status.Answers, func(given v1alpha1.Answer) bool {
		return given.NodeUID == s.nodeUID && !slices.ContainsFunc(s.answers, func(kept v1alpha1.Answer) bool { return kept.SandboxID == given.SandboxID })
	})
}

// owned is what of a record's status belongs to a field manager.
type owned struct{ answers, condition bool }

func ownedBy(record *v1alpha1.IPAllocation, manager string) owned {
	for _, entry := range record.ManagedFields {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Status struct {
				Answers    json.RawMessage `json:"f:answers"`
				Conditions json.RawMessage `json:"f:conditions"`
			} `json:"f:status"`
		}
		// What cannot be read is nobody's.
		_ = kjson.UnmarshalCaseSensitivePreserveInts(entry.FieldsV1.GetRawBytes(), &fields)
		return owned{answers: fields.Status.Answers != nil, condition: fields.Status.Conditions != nil}
	}
	return owned{}
}

// describe is a short text for the log.
func (s *statement) describe() string {
	parts := make([]string, 0, len(s.answers)+1)
	for _, given := range s.answers {
		text := given.SandboxID + " " + string(given.Verdict) + " (" + given.Reason
		if message := s.messages[given.SandboxID]; message != "" {
			text += ": " + message
		}
		parts = append(parts, text+")")
	}
	if s.condition != nil && s.condition.Status == metav1.ConditionFalse {
		parts = append(parts, "no answer ("+s.condition.Reason+")")
	}
	if len(parts) == 0 {
		return "nothing any more"
	}
	return strings.Join(parts, ", ")
}

// equal: the same answers, whatever the times of their lists, and the same condition.
func (s *statement) equal(o *statement) bool {
	if s.record != o.record || s.nodeUID != o.nodeUID || s.bootID != o.bootID || (s.condition == nil) != (o.condition == nil) || !slices.EqualFunc(s.answers, o.answers, same) {
		return false
	}
	return s.condition == nil || (s.condition.Status == o.condition.Status && s.condition.Reason == o.condition.Reason)
}
