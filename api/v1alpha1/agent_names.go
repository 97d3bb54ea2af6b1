// SPDX-License-Identifier: Apache-2.0

package v1alpha1

const (
	// AgentLeasePrefix starts the name of the Lease on which a node's agent acknowledges marks that ask all nodes:
	// "holdfast-agent-<node name>", in the namespace of the agents (holdfast-agent).
	AgentLeasePrefix = "holdfast-agent-"

	// AcknowledgedVersionAnnotation on that Lease is a resourceVersion of IPAllocations. The agent has compared every mark to
	// all that stood in a record at that version with its runtime, and what it claims was written before this was.
	AcknowledgedVersionAnnotation = "holdfast.dev/acknowledged-version"
	// AcknowledgedTimeAnnotation is when the runtime's list behind it began, by the node's clock (RFC 3339).
	AcknowledgedTimeAnnotation = "holdfast.dev/acknowledged-time"
	// AcknowledgedNodeUIDAnnotation is the UID of the Node for which it was said.
	AcknowledgedNodeUIDAnnotation = "holdfast.dev/acknowledged-node-uid"
	// AcknowledgedBootIDAnnotation is the boot of the machine on which it was said.
	AcknowledgedBootIDAnnotation = "holdfast.dev/acknowledged-boot-id"

	// AnsweredCondition is the type of a record's condition with which the agent of its node says, by status False and a
	// reason, why it gives no answer to a mark. It is absent until there is something to say, and True once the agent answers again.
	AnsweredCondition = "Answered"
)

// AgentLeaseName is the name of the Lease of a node's agent.
func AgentLeaseName(nodeName string) string { return AgentLeasePrefix + nodeName }
