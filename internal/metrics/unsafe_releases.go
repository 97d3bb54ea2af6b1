// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// Admission decisions about removals by other clients than the manager.
var (
	// UnsafeReleases counts removals that reached the webhook, one for each entry or reservation, by resource, decision
	// (UnsafeReleaseAllowed, UnsafeReleaseDeferred, UnsafeReleaseWarned, UnsafeReleaseRefused) and reason.
	UnsafeReleases = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "unsafe_releases_total",
		Help: "Removals of pool entries and reservations that reached admission, by resource, decision (allowed, deferred, warned, refused) and reason. " +
			"What is warned or refused was not proven safe.",
	}, []string{"resource", "decision", "reason"}))

	// UnsafeReleaseDuration is how long the webhook took. The call sits inside whereabouts' cluster-wide lease.
	UnsafeReleaseDuration = register(prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: Prefix + "unsafe_release_duration_seconds",
		Help: "Time to judge one write of a pool or reservation, live reads included, by resource. The IPAM waits for it inside its lease.",
		// The reads are a few milliseconds each; the webhook's timeout is one second.
		Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .4, .7, 1},
	}, []string{"resource"}))
)

// The values of the label "decision" of UnsafeReleases.
const (
	UnsafeReleaseAllowed  = "allowed"
	UnsafeReleaseDeferred = "deferred"
	UnsafeReleaseWarned   = "warned"
	UnsafeReleaseRefused  = "refused"
)
