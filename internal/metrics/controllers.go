// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// What the controllers decide and do.
var (
	// Decisions counts the results of the decision table, one for each observation of a pod.
	Decisions = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "decisions_total",
		Help: "Decisions about guarded pods, by decision (Wait, Confirm, Release, Unprotect) and reason.",
	}, []string{"decision", "reason"}))

	// Unclassified counts observations that no row of the decision table fits. It must stay zero.
	Unclassified = register(prometheus.NewCounter(prometheus.CounterOpts{
		Name: Prefix + "unclassified_total",
		Help: "Observations that no row of the decision table fits; any increase is a bug in Holdfast, and the address is held.",
	}))

	// Releases counts addresses that Holdfast released.
	Releases = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "releases_total",
		Help: "Addresses that Holdfast released, by backend and reason.",
	}, []string{"backend", "reason"}))

	// ReleaseFailures counts releases that failed and will be tried again.
	ReleaseFailures = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "release_failures_total",
		Help: "Releases that failed and are tried again, by backend and the reason of the release.",
	}, []string{"backend", "reason"}))

	// Unprotects counts pods that were unprotected, by finalizer.Way.
	Unprotects = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "unprotect_total",
		Help: "Pods whose finalizer was removed, by way: patch, status where another webhook makes pod updates impossible, or gone where there was no finalizer left.",
	}, []string{"way"}))

	// HeldPods is the number of terminating pods that are held now, by why.
	HeldPods = register(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: Prefix + "held_pods",
		Help: "Terminating pods that are held now, by the reason of the wait. Only the leader reports it.",
	}, []string{"reason"}))

	// LateProtections counts pods that were protected by the controller because the webhook had missed them.
	LateProtections = register(prometheus.NewCounter(prometheus.CounterOpts{
		Name: Prefix + "late_protections_total",
		Help: "Pods that hold an address, were not protected at their creation, and got the finalizer afterwards.",
	}))

	// Conflicts is the number of addresses that two pod UIDs claim.
	Conflicts = register(prometheus.NewGauge(prometheus.GaugeOpts{
		Name: Prefix + "conflicts",
		Help: "Pod UIDs with an address that another pod UID claims too, neither of them proven gone. Only the leader reports it.",
	}))

	// Orphans is the number of IPAM entries of unknown owner.
	Orphans = register(prometheus.NewGauge(prometheus.GaugeOpts{
		Name: Prefix + "orphans",
		Help: "IPAM entries whose owner is unknown; they are held and recorded. Only the leader reports it.",
	}))

	// MalformedEntries is the number of IPAM entries and pools that cannot be read.
	MalformedEntries = register(prometheus.NewGauge(prometheus.GaugeOpts{
		Name: Prefix + "malformed_ipam_entries",
		Help: "IPAM entries and whole pools that cannot be read; they are reported and never written.",
	}))
)
