// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The reasons of a wait for a response of a node's agent, beside ReasonAwaitingNodeResponse and ReasonSandboxRunning.
const (
	// ReasonAgentNotResponding: the Node is Ready, but its agent does not respond, or reports why it cannot.
	ReasonAgentNotResponding Reason = "AgentNotResponding"
)
