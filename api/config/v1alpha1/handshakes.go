// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Handshakes defines how agents are queried about the sandboxes of pods. It has no effect with evidence Kubelet.
type Handshakes struct {
	// ResponseWithin is how long the agent of a Ready node may take to respond before it is reported as not responding; 1s or more. Nothing is
	// released or given up because of it. Default: 1m.
	ResponseWithin *metav1.Duration `json:"responseWithin,omitempty"`
}

// DefaultResponseWithin is the default of Handshakes: an agent responds within a second or two.
const DefaultResponseWithin = time.Minute

const minResponseWithin = time.Second
