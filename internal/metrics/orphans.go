// SPDX-License-Identifier: Apache-2.0

package metrics

// What becomes of the addresses of unknown owner.
var (
	// OrphanSandboxes is the number of sandboxes without an owner, by what they wait for.
	OrphanSandboxes = gauges("orphan_sandboxes",
		"Sandboxes on record with an unknown owner, by the reason of the wait. Only the leader reports it.", "reason")

	// OrphansReclaimed counts addresses of unknown owner that Holdfast released.
	OrphansReclaimed = counters("orphans_reclaimed_total",
		"Addresses of unknown owner that Holdfast released, by backend and by the reason that showed their sandbox to be gone.", "backend", "reason")

	// OrphanNodesMissing is the number of nodes without which no orphan of unknown node is reclaimed.
	OrphanNodesMissing = gauge("orphan_nodes_missing",
		"Nodes that have not responded yet about the orphan that has waited the longest; zero without a query to all nodes. Only the leader reports it.")

	// NodesSeen is the number of machines that have to report about orphans.
	NodesSeen = gauges("nodes_seen",
		"Machines that have to report about orphans, by whether a Node object reports them (live) or not (gone). Only the leader reports it.", "state")
)

// The states of NodesSeen.
const (
	NodeLive = "live"
	NodeGone = "gone"
)
