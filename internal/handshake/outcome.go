// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Kind says what follows from a query. The zero value is invalid.
type Kind uint8

// The kinds of outcomes.
const (
	// NoResponse: the agent does not respond, and reports the reason.
	NoResponse Kind = iota + 1
	// Decided: there is a verdict.
	Decided
	// NoClaim: this node has nothing to claim in response to a query to all nodes.
	NoClaim
	// Pending: the lists of the runtime so far decide nothing.
	Pending
)

// Outcome is what the agent concludes about one query.
type Outcome struct {
	Kind Kind
	// Verdict is set for Decided.
	Verdict v1alpha1.Verdict
	// Reason is set for Decided and NoResponse.
	Reason v1alpha1.Reason
	// PodUID is the pod UID with which the sandbox was seen; empty if it was never seen.
	PodUID types.UID
	// SuccessorID is another sandbox of the same pod UID that is not gone. It is set with ReasonSandboxReplaced, if it is the only one, and where a sandbox is the
	// reason for DoNotRelease in response to AnySandbox.
	SuccessorID string
	// Time is when the list began on which the verdict rests.
	Time time.Time
	// Message explains the outcome to the user.
	Message string
}

func noResponse(reason v1alpha1.Reason, message string) Outcome {
	return Outcome{Kind: NoResponse, Reason: reason, Message: message}
}

func decided(l *Listing, verdict v1alpha1.Verdict, reason v1alpha1.Reason, pod types.UID, message string) Outcome {
	return Outcome{Kind: Decided, Verdict: verdict, Reason: reason, PodUID: pod, Time: l.Began, Message: message}
}
