// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Handshakes says how agents are asked about the sandboxes of pods. It has no effect with evidence Kubelet.
type Handshakes struct {
	// MaxInFlight is how many questions may be unanswered at once, 1 to 10000. One that was not answered within AnswerWithin stands
	// on, but no longer counts. Default: 500.
	MaxInFlight *int32 `json:"maxInFlight,omitempty"`
	// MaxInFlightPerNode is the same for one node. Default: 100.
	MaxInFlightPerNode *int32 `json:"maxInFlightPerNode,omitempty"`
	// AnswerWithin is how long the agent of a Ready node may take to answer before it is called silent; 1s or more. Nothing is
	// released or given up because of it. Default: 1m.
	AnswerWithin *metav1.Duration `json:"answerWithin,omitempty"`
}

// The defaults of Handshakes: an agent answers within a second or two, all questions of a record at once.
const (
	DefaultMaxInFlight        int32 = 500
	DefaultMaxInFlightPerNode int32 = 100
	DefaultAnswerWithin             = time.Minute

	maxMaxInFlight  = 10_000
	minAnswerWithin = time.Second
)

func setHandshakesDefaults(h *Handshakes) {
	h.MaxInFlight = orDefault(h.MaxInFlight, new(DefaultMaxInFlight))
	h.MaxInFlightPerNode = orDefault(h.MaxInFlightPerNode, new(DefaultMaxInFlightPerNode))
	h.AnswerWithin = orDefault(h.AnswerWithin, &metav1.Duration{Duration: DefaultAnswerWithin})
}

func validateHandshakes(h *Handshakes, path *field.Path) field.ErrorList {
	errs := asErrors(path.Child("maxInFlight"), *h.MaxInFlight, validation.IsInRange(int(*h.MaxInFlight), 1, maxMaxInFlight))
	errs = append(errs, asErrors(path.Child("maxInFlightPerNode"), *h.MaxInFlightPerNode, validation.IsInRange(int(*h.MaxInFlightPerNode), 1, maxMaxInFlight))...)
	return append(errs, atLeast(path.Child("answerWithin"), h.AnswerWithin, minAnswerWithin)...)
}
