// SPDX-License-Identifier: Apache-2.0

package metrics

// What the controllers query agents about, in the label "about".
const (
	// AboutSandbox is a query about one sandbox, AboutOutOfService the same to a node with the out-of-service taint, AboutAny one about every
	// sandbox of a pod, and AboutAll one to every node.
	AboutSandbox      = "sandbox"
	AboutOutOfService = "outOfService"
	AboutAny          = "any"
	AboutAll          = "all"
)

// The release handshake as the leader sees it.
var (
	// Queries counts queries that were written.
	Queries = counters("queries_total",
		"Queries to agents that were written into a GuardedNode or the AllNodesQuery, by what they are about (sandbox, outOfService, any, all).", "about")

	// Responses counts responses to queries that stand, once for each query and verdict.
	Responses = counters("responses_total",
		"Responses of agents to queries that stand, by verdict and reason, once for each query.", "verdict", "reason")

	// HandshakeDuration is the time from a query to its ReadyForRelease.
	HandshakeDuration = histogram("handshake_duration_seconds",
		"Time from a query about a sandbox to its ReadyForRelease.", []float64{.3, 1, 3, 10, 30, 60, 120, 300, 600, 900, 1800, 3600})

	// OpenQueries is the number of queries without a response.
	OpenQueries = gauge("open_queries", "Queries about the sandboxes of records that have no response yet. Only the leader reports it.")

	// Rewrites counts entries that were given to the sandbox that came in the place of theirs.
	Rewrites = counters("rewrites_total",
		"IPAM entries of pods that live which were given to the sandbox that came in the place of theirs, by backend.", "backend")
)
