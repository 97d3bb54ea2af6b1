// SPDX-License-Identifier: Apache-2.0

package metrics

// What a node's agent sees and reports. Only agents report it.
var (
	// AgentListings counts looks at the container runtime by result: AgentListed, or the reason for which there is no list.
	AgentListings = counters("agent_listings_total",
		"Looks at the container runtime, by result (Listed, RuntimeUnreachable, ListFailed).", "result")

	// AgentListingDuration is how long a complete list of the runtime takes.
	AgentListingDuration = histogram("agent_listing_duration_seconds",
		"Time of one look at the container runtime, failed ones included.", []float64{.003, .01, .03, .1, .3, 1, 3, 10, 30})

	// AgentSandboxes is the number of sandboxes that the agent remembers.
	AgentSandboxes = gauge("agent_sandboxes_remembered", "Sandboxes that the agent has seen listed and remembers, live and removed ones.")

	// AgentOpenQueries is the number of queries that stand before the agent without a final response.
	AgentOpenQueries = gauge("agent_open_queries", "Queries to this node that have no ReadyForRelease yet.")

	// AgentWithoutResponse is the number of queries to which the agent does not respond now, by why.
	AgentWithoutResponse = gauges("agent_queries_without_response",
		"Queries to which the agent does not respond now, by reason (RuntimeUnreachable, ListFailed, UIDConflict, NotThisMachine).", "reason")

	// AgentResponses counts responses that were written.
	AgentResponses = counters("agent_responses_total",
		"Responses of the agent that were written into its GuardedNode, by verdict and reason.", "verdict", "reason")

	// AgentWriteFailures counts writes that failed and are tried again.
	AgentWriteFailures = counter("agent_write_failures_total", "Writes of the status of the node's GuardedNode that failed and are tried again.")

	// AgentAcknowledgements counts responses to the queries to all nodes.
	AgentAcknowledgements = counter("agent_acknowledgements_total",
		"Responses to the queries to all nodes that the agent wrote into its GuardedNode.")
)

// AgentListed is the result of a look that gave a complete list.
const AgentListed = "Listed"
