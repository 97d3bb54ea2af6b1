// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// What the sweeps of node-scoped resources find and do. Only the leader reports it. The label "policy" is the name of a
// NodeResourcePolicy; ForgetNodeSweeps removes the series of a deleted one.
var (
	// NodeObjects is the number of objects by what they are (NodeObjectOwned, ...Stale, ...Unowned, ...Unknown).
	NodeObjects = gauges("node_objects",
		"Objects that speak for a node at the last complete sweep, by policy and state (owned, stale, unowned, unknown). Only the leader reports it.", "policy", "state")

	// NodeObjectsHeld is the number of stale objects that are being deleted and that finalizers keep.
	NodeObjectsHeld = gauges("node_objects_held",
		"Stale objects that are being deleted and that only finalizers keep, at the last complete sweep, by policy. Only the leader reports it.", "policy")

	// NodeAddressConflicts is the number of pairs of objects of different live Nodes that hold one address.
	NodeAddressConflicts = gauges("node_address_conflicts",
		"Pairs of objects of different live Nodes that hold one address or overlapping prefixes, by policy. Anything but zero is an outage to come. "+
			"Only the leader reports it.", "policy")

	// NodeObjectsDeleted counts stale objects that the sweep deleted, those that finalizers then keep included.
	NodeObjectsDeleted = counters("node_objects_deleted_total",
		"Stale objects that were deleted because their policy asks for it, by policy.", "policy")

	// NodeSweepDuration is how long a sweep over every object of a resource took.
	NodeSweepDuration = histograms("node_sweep_duration_seconds",
		"Time of one sweep over every object of a policy's resource, failed ones included, by policy.",
		// One page of 500 takes some ten milliseconds; 5,000 objects that all need a live read of their Node take minutes.
		[]float64{.01, .03, .1, .3, 1, 3, 10, 30, 100, 300}, "policy")

	// NodeSweeps counts sweeps by the reason that condition Swept then had.
	NodeSweeps = counters("node_sweeps_total",
		"Sweeps over every object of a policy's resource, by policy and result (SweepCompleted, SweepFailed, SweepForbidden, ResourceNotServed).", "policy", "result")
)

// The values of the label "state" of NodeObjects.
const (
	NodeObjectOwned   = "owned"
	NodeObjectStale   = "stale"
	NodeObjectUnowned = "unowned"
	NodeObjectUnknown = "unknown"
)

// ForgetNodeSweeps removes every series of a deleted policy.
func ForgetNodeSweeps(policy string) {
	series := prometheus.Labels{"policy": policy}
	NodeObjects.DeletePartialMatch(series)
	NodeObjectsHeld.DeletePartialMatch(series)
	NodeAddressConflicts.DeletePartialMatch(series)
	NodeObjectsDeleted.DeletePartialMatch(series)
	NodeSweepDuration.DeletePartialMatch(series)
	NodeSweeps.DeletePartialMatch(series)
}
