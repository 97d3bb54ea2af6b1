// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// Stamps counts the answers of the webhook that stamps pods, by StampOutcome values.
var Stamps = register(prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: Prefix + "stamps_total",
	Help: "Pod creations that reached the stamping webhook, by outcome (stamped, unguarded, skipped, undecidable, failed). " +
		"undecidable pods were stamped because a network could not be resolved.",
}, []string{"outcome"}))

// The values of the label "outcome" of Stamps.
const (
	// StampOutcomeStamped: a network is guarded.
	StampOutcomeStamped = "stamped"
	// StampOutcomeUndecidable: stamped, because a network could not be resolved.
	StampOutcomeUndecidable = "undecidable"
	// StampOutcomeUnguarded: every network is provably outside what the backends manage.
	StampOutcomeUnguarded = "unguarded"
	// StampOutcomeSkipped: host network, mirror pod, excluded namespace or opt-out.
	StampOutcomeSkipped = "skipped"
	// StampOutcomeFailed: the webhook could not tell and the call failed; failurePolicy decides.
	StampOutcomeFailed = "failed"
)
