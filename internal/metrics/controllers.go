// SPDX-License-Identifier: Apache-2.0

package metrics

// What the controllers decide and do.
var (
	// Decisions counts the results of the decision table, one for each observation of a pod.
	Decisions = counters("decisions_total",
		"Decisions about guarded pods, by decision (Wait, Confirm, Release, Unprotect) and reason.", "decision", "reason")

	// Unclassified counts observations that no row of the decision table fits. It must stay zero.
	Unclassified = counter("unclassified_total",
		"Observations that no row of the decision table fits; any increase is a bug in Holdfast, and the address is held.")

	// Releases counts addresses that Holdfast released.
	Releases = counters("releases_total", "Addresses that Holdfast released, by backend and reason.", "backend", "reason")

	// ReleaseFailures counts releases that failed and will be tried again.
	ReleaseFailures = counters("release_failures_total",
		"Releases that failed and are tried again, by backend and the reason of the release.", "backend", "reason")

	// Unprotects counts pods that were unprotected, by finalizer.Way.
	Unprotects = counters("unprotect_total",
		"Removals of the finalizer from pods, by way: patch, status where another webhook makes pod updates impossible, or gone where there was no finalizer left.", "way")

	// HeldPods is the number of terminating pods that are held now, by why.
	HeldPods = gauges("held_pods", "Terminating pods that are held now, by the reason of the wait. Only the leader reports it.", "reason")

	// LateProtections counts pods that were protected by the controller because the webhook had missed them.
	LateProtections = counter("late_protections_total",
		"Pods that hold an address, were not protected at their creation, and got the finalizer afterwards.")

	// Conflicts is the number of addresses that two pod UIDs claim.
	Conflicts = gauge("conflicts",
		"Pod UIDs with an address that another pod UID claims too, neither of them proven gone. Only the leader reports it.")

	// Orphans is the number of IPAM entries of unknown owner.
	Orphans = gauge("orphans", "IPAM entries with an unknown owner; they are held and recorded. Only the leader reports it.")

	// MalformedEntries is the number of IPAM entries and pools that cannot be read.
	MalformedEntries = gauge("malformed_ipam_entries", "IPAM entries and whole pools that cannot be read; they are reported and never written.")
)
