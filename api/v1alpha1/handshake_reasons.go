// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The reasons of a wait for a node's word, beside ReasonAwaitingNodeAnswer and ReasonSandboxRunning.
const (
	// ReasonAgentNotResponding: the Node is Ready, but its agent gives no answer, or says why it can give none.
	ReasonAgentNotResponding Reason = "AgentNotResponding"
)
