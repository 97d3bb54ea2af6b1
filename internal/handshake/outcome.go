// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Kind is what becomes of a query. The zero value is invalid on purpose.
type Kind uint8

// The kinds of words.
const (
	// NoResponse: no answer, for a reason that somebody has to see.
	NoResponse Kind = iota + 1
	// Answer: a verdict.
	Answer
	// Nothing: a query to all nodes, and this node has nothing to claim.
	Nothing
	// Later: the list that would answer has not been taken, or not often enough.
	Later
)

// Outcome is what the agent has to say to one query.
type Outcome struct {
	Kind Kind
	// Verdict is set for an Answer.
	Verdict v1alpha1.Verdict
	// Reason is set for an Answer and a NoResponse.
	Reason v1alpha1.Reason
	// PodUID is the pod UID with which the sandbox was seen; empty if it never was.
	PodUID types.UID
	// SuccessorID is another sandbox of the same pod UID that is not gone; set for ReasonSandboxReplaced, and for a DoNotRelease to
	// AnySandbox that rests on a sandbox.
	SuccessorID string
	// Time is when the list behind an Answer began.
	Time time.Time
	// Message is for people.
	Message string
}

func noResponse(reason v1alpha1.Reason, message string) Outcome {
	return Outcome{Kind: NoResponse, Reason: reason, Message: message}
}

func decided(l *Listing, verdict v1alpha1.Verdict, reason v1alpha1.Reason, pod types.UID, message string) Outcome {
	return Outcome{Kind: Decided, Verdict: verdict, Reason: reason, PodUID: pod, Time: l.Began, Message: message}
}
