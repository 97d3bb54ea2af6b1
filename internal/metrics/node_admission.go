// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// Admission decisions about writes of node-scoped resources. The label "policy" is the name of a NodeResourcePolicy, of which
// there is one for each guarded resource; it is empty for a call on a path that no policy has.
var (
	// NodeResourceWrites counts writes that reached the webhook, by policy, decision (NodeResourceAllowed, …) and reason.
	NodeResourceWrites = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "node_resource_writes_total",
		Help: "Writes of node-scoped objects that reached admission, by policy, decision (allowed, warned, audited, refused, undecided) and reason. " +
			"undecided writes could not be judged; the policy's failurePolicy decided.",
	}, []string{"policy", "decision", "reason"}))

	// NodeResourceLiveReads counts reads of a Node past the cache, by policy.
	NodeResourceLiveReads = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "node_resource_live_reads_total",
		Help: "Nodes that admission read from the API server to judge a write of a node-scoped object, by policy. " +
			"A write that changes no reference and fits the cached Node needs none.",
	}, []string{"policy"}))

	// NodeResourceDuration is how long the webhook took, live reads included, by policy.
	NodeResourceDuration = register(prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: Prefix + "node_resource_duration_seconds",
		Help: "Time to judge one write of a node-scoped object, live reads included, by policy.",
		// A cached response takes well under a millisecond, a live read a few; a policy's timeout is 1 to 3 seconds.
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2},
	}, []string{"policy"}))
)

// The values of the label "decision" of NodeResourceWrites.
const (
	// NodeResourceAllowed: the policy has no objection.
	NodeResourceAllowed = "allowed"
	// NodeResourceWarned: the policy objects, and its action is Warn.
	NodeResourceWarned = "warned"
	// NodeResourceAudited: the policy objects, and its action is Audit.
	NodeResourceAudited = "audited"
	// NodeResourceRefused: the policy objects, and its action is Deny.
	NodeResourceRefused = "refused"
	// NodeResourceUndecided: it could not be judged.
	NodeResourceUndecided = "undecided"
)
