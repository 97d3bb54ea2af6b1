// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// What a node's agent sees and says. Only agents report it.
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
		Help: "Sandboxes that the agent has seen listed and remembers, living and gone.",
	}))

	// AgentQuestions is the number of marks that stand before the agent without a final answer.
	AgentQuestions = register(prometheus.NewGauge(prometheus.GaugeOpts{
		Name: Prefix + "agent_open_questions",
		Help: "Marks that ask this node and have no ReadyForRelease yet.",
	}))

	// AgentSilences is the number of marks to which the agent gives no answer now, by why.
	AgentSilences = register(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: Prefix + "agent_silences",
		Help: "Marks to which the agent gives no answer now, by reason (RuntimeUnreachable, ListFailed, UIDConflict, NotThisMachine).",
	}, []string{"reason"}))

	// AgentAnswers counts answers that were written.
	AgentAnswers = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "agent_answers_total",
		Help: "Answers of the agent to marks that were written into a record, by verdict and reason.",
	}, []string{"verdict", "reason"}))

	// AgentWriteFailures counts writes that failed and are tried again.
	AgentWriteFailures = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "agent_write_failures_total",
		Help: "Writes of the agent that failed and are tried again, by what was written (answer, acknowledgement).",
	}, []string{"what"}))

	// AgentAcknowledgements counts responses to the queries to all nodes.
	AgentAcknowledgements = register(prometheus.NewCounter(prometheus.CounterOpts{
		Name: Prefix + "agent_acknowledgements_total",
		Help: "Responses to the queries to all nodes that the agent wrote into its GuardedNode.",
	}))
)

// AgentListed is the result of a look that gave a complete list.
const AgentListed = "Listed"

// The values of the label "what" of AgentWriteFailures.
const (
	AgentWroteAnswer          = "answer"
	AgentWroteAcknowledgement = "acknowledgement"
)
