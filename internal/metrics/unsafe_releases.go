// SPDX-License-Identifier: Apache-2.0

package metrics

// Admission decisions about removals by other clients than the manager.
var (
	// UnsafeReleases counts removals that reached the webhook, one for each entry or reservation, by resource, decision
	// (UnsafeReleaseAllowed, UnsafeReleaseDeferred, UnsafeReleaseWarned, UnsafeReleaseRefused) and reason.
	UnsafeReleases = counters("unsafe_releases_total",
		"Removals of pool entries and reservations that reached admission, by resource, decision (allowed, deferred, warned, refused) and reason. "+
			"What is warned or refused was not proven safe.", "resource", "decision", "reason")

	// UnsafeReleaseDuration is how long the webhook took. The call sits inside whereabouts' cluster-wide lease.
	UnsafeReleaseDuration = histograms("unsafe_release_duration_seconds",
		"Time to judge one write of a pool or reservation, live reads included, by resource. The IPAM waits for it inside its lease.",
		// The reads are a few milliseconds each; the webhook's timeout is one second.
		[]float64{.001, .002, .005, .01, .02, .05, .1, .2, .4, .7, 1}, "resource")
)

// The values of the label "decision" of UnsafeReleases.
const (
	UnsafeReleaseAllowed  = "allowed"
	UnsafeReleaseDeferred = "deferred"
	UnsafeReleaseWarned   = "warned"
	UnsafeReleaseRefused  = "refused"
)
