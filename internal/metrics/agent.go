// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// What a node's agent sees and reports. Only agents report it.
var (
	// AgentListings counts looks at the container runtime by result: AgentListed, or the reason for which there is no list.
	AgentListings = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "agent_listings_total",
		Help: "Looks at the container runtime, by result (Listed, RuntimeUnreachable, ListFailed).",
	}, []string{"result"}))

	// AgentListingDuration is how long a complete list of the runtime takes.
	AgentListingDuration = register(prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    Prefix + "agent_listing_duration_seconds",
		Help:    "Time of one look at the container runtime, failed ones included.",
		Buckets: []float64{.003, .01, .03, .1, .3, 1, 3, 10, 30},
	}))

	// AgentSandboxes is the number of sandboxes that the agent remembers.
	AgentSandboxes = register(prometheus.NewGauge(prometheus.GaugeOpts{
		Name: Prefix + "agent_sandboxes_remembered",
		Help: "Sandboxes that the agent has seen listed and remembers, live and removed ones.",
	}))

	// AgentOpenQueries is the number of queries that stand before the agent without a final response.
	AgentOpenQueries = register(prometheus.NewGauge(prometheus.GaugeOpts{
		Name: Prefix + "agent_open_queries",
		Help: "Queries to this node that have no ReadyForRelease yet.",
	}))

	// AgentWithoutResponse is the number of queries to which the agent does not respond now, by why.
	AgentWithoutResponse = register(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: Prefix + "agent_queries_without_response",
		Help: "Queries to which the agent does not respond now, by reason (RuntimeUnreachable, ListFailed, UIDConflict, NotThisMachine).",
	}, []string{"reason"}))

	// AgentResponses counts responses that were written.
	AgentResponses = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "agent_responses_total",
		Help: "Responses of the agent that were written into its GuardedNode, by verdict and reason.",
	}, []string{"verdict", "reason"}))

	// AgentWriteFailures counts writes that failed and are tried again.
	AgentWriteFailures = register(prometheus.NewCounter(prometheus.CounterOpts{
		Name: Prefix + "agent_write_failures_total",
		Help: "Writes of the status of the node's GuardedNode that failed and are tried again.",
	}))

	// AgentAcknowledgements counts responses to the queries to all nodes.
	AgentAcknowledgements = register(prometheus.NewCounter(prometheus.CounterOpts{
		Name: Prefix + "agent_acknowledgements_total",
		Help: "Responses to the queries to all nodes that the agent wrote into its GuardedNode.",
	}))
)

// AgentListed is the result of a look that gave a complete list.
const AgentListed = "Listed"
