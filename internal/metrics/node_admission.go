// SPDX-License-Identifier: Apache-2.0

package metrics

// Admission decisions about writes of node-scoped resources. The label "policy" is the name of a NodeResourcePolicy, of which
// there is one for each guarded resource; it is empty for a call on a path that no policy has.
var (
	// NodeResourceWrites counts writes that reached the webhook, by policy, decision (NodeResourceAllowed, …) and reason.
	NodeResourceWrites = counters("node_resource_writes_total",
		"Writes of node-scoped objects that reached admission, by policy, decision (allowed, warned, audited, refused, undecided) and reason. "+
			"undecided writes could not be judged; the policy's failurePolicy decided.", "policy", "decision", "reason")

	// NodeResourceLiveReads counts reads of a Node past the cache, by policy.
	NodeResourceLiveReads = counters("node_resource_live_reads_total",
		"Nodes that admission read from the API server to judge a write of a node-scoped object, by policy. "+
			"A write that changes no reference and fits the cached Node needs none.", "policy")

	// NodeResourceDuration is how long the webhook took, live reads included, by policy.
	NodeResourceDuration = histograms("node_resource_duration_seconds",
		"Time to judge one write of a node-scoped object, live reads included, by policy.",
		// A cached response takes well under a millisecond, a live read a few; a policy's timeout is 1 to 3 seconds.
		[]float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2}, "policy")
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
