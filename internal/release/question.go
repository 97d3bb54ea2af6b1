// SPDX-License-Identifier: Apache-2.0

package release

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Mark is a question to the agent of a Node, as it stands in the record.
type Mark struct {
	// SandboxID is the sandbox that is asked about, or v1alpha1.AnySandbox.
	SandboxID string
	// NodeUID and BootID are the Node that is asked, and the boot in which it is asked.
	NodeUID types.UID
	BootID  string
	// Epoch tells this question from every other one about the same sandbox.
	Epoch int64
	// Time is when it was asked, by the controller's clock; persisted.
	Time time.Time
	// Fence: the Node was tainted out-of-service and not Ready when it was asked.
	Fence bool
	// Living: the pod used its addresses when it was asked (row PodInUse).
	Living bool
}

// Answer is an agent's word on one sandbox, as it stands in the record. Whether it counts is Counts' question.
type Answer struct {
	SandboxID string
	// NodeUID and BootID are the Node for which the agent speaks, and the boot in which it does.
	NodeUID types.UID
	BootID  string
	// Epoch is that of the question.
	Epoch   int64
	Verdict v1alpha1.Verdict
	// Reason explains the verdict in one word.
	Reason string
	// Time is when the agent read its runtime, by the clock of the node: for people only.
	Time time.Time
	// PodUID is the pod UID with which the agent has seen the sandbox; empty if it never saw it.
	PodUID types.UID
	// SuccessorID is another sandbox of the pod UID, not gone, that the runtime lists in place of the one asked about.
	SuccessorID string
}

// Counts says whether an answer is one to this mark, given by the machine that was asked, which is still the one that answers to the
// node's name. The node has to be read after the answer (docs/decisions/0073).
func Counts(mark Mark, answer Answer, node Node) bool {
	return answer.SandboxID == mark.SandboxID && answer.Epoch == mark.Epoch && mark.Epoch > 0 &&
		mark.NodeUID != "" && answer.NodeUID == mark.NodeUID && node.NodeUID == mark.NodeUID &&
		mark.BootID != "" && answer.BootID == mark.BootID && node.BootID == mark.BootID
}

// Asked is a question and what was said to it: Absent where nobody was asked, or nobody has answered.
type Asked struct {
	Mark   Fact[Mark]
	Answer Fact[Answer]
}

// during leaves a question out that was asked in another part of the pod's life. What its node said of a sandbox while the pod
// lived releases nothing after its end: since then the kubelet may have made it another sandbox, with the same address.
func (q Asked) during(living bool) Asked {
	if q.Mark.IsKnown() && q.Mark.Get().Living != living {
		return Asked{Mark: Absent[Mark](), Answer: Absent[Answer]()}
	}
	return q
}

// Word is the answer that counts; false while there is none.
func (q Asked) Word(node Node) (Answer, bool) {
	if !q.Mark.IsKnown() || !q.Answer.IsKnown() || !Counts(q.Mark.Get(), q.Answer.Get(), node) {
		return Answer{}, false
	}
	return q.Answer.Get(), true
}

// gone: the word that gives an address away.
func (a Answer) gone() bool { return a.Verdict == v1alpha1.VerdictReadyForRelease }

// unread says why the question or its answer is not known; empty if both were read.
func (q Asked) unread() string {
	switch {
	case !q.Mark.IsRead():
		return "the mark could not be read: " + q.Mark.Why()
	case !q.Answer.IsRead():
		return "the answer could not be read: " + q.Answer.Why()
	}
	return ""
}

// stands says whether the mark asks what is to be known now: of this Node, in this boot, and with or without a fence, as it is.
func (q Asked) stands(node Node, fence bool, now time.Time) bool {
	if !q.Mark.IsKnown() {
		return false
	}
	mark := q.Mark.Get()
	if fence && mark.Time.Before(node.OutOfServiceSince) && !node.OutOfServiceSince.After(now) {
		return false // it was asked at an earlier taint
	}
	return mark.NodeUID == node.NodeUID && mark.BootID == node.BootID && mark.Fence == fence
}

// Silence is why the node's agent gives no answer, as it says itself in the record; zero if it does not say.
type Silence struct {
	Reason  v1alpha1.Reason
	Message string
}

// AskedOf is what a record has of one sandbox: the mark, and what the asked Node's agent said last about it; without a mark what any
// agent said.
func AskedOf(record *v1alpha1.IPAllocation, sandboxID string) Asked {
	asked := Asked{Mark: Absent[Mark](), Answer: Absent[Answer]()}
	if record == nil {
		return asked
	}
	for _, m := range record.Spec.Marks {
		if m.SandboxID == sandboxID {
			asked.Mark = Known(Mark{SandboxID: m.SandboxID, NodeUID: m.NodeUID, BootID: m.BootID, Epoch: m.Epoch, Time: m.Time.Time, Fence: m.Fence, Living: m.Living})
		}
	}
	for _, a := range record.Status.Answers {
		if a.SandboxID == sandboxID && (a.NodeUID == asked.Mark.Get().NodeUID || asked.Mark.IsAbsent()) {
			asked.Answer = Known(Answer{SandboxID: a.SandboxID, NodeUID: a.NodeUID, BootID: a.BootID, Epoch: a.Epoch, Verdict: a.Verdict,
				Reason: a.Reason, Time: a.Time.Time, PodUID: a.PodUID, SuccessorID: a.SuccessorID})
		}
	}
	return asked
}

// SilenceOf is why the agent of a record's node gives no answer, where it has said so.
func SilenceOf(record *v1alpha1.IPAllocation) Silence {
	if record == nil {
		return Silence{}
	}
	if c := meta.FindStatusCondition(record.Status.Conditions, v1alpha1.AnsweredCondition); c != nil && c.Status == metav1.ConditionFalse {
		return Silence{Reason: v1alpha1.Reason(c.Reason), Message: c.Message}
	}
	return Silence{}
}
