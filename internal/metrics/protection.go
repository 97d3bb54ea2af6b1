// SPDX-License-Identifier: Apache-2.0

package metrics

// Protections counts the responses of the webhook that protects pods, by ProtectionOutcome values.
var Protections = counters("protections_total",
	"Pod creations that reached the protection webhook, by outcome (protected, unguarded, skipped, undecidable, failed). "+
		"undecidable pods were protected because a network could not be resolved.", "outcome")

// The values of the label "outcome" of Protections.
const (
	// ProtectionOutcomeProtected: a network is guarded.
	ProtectionOutcomeProtected = "protected"
	// ProtectionOutcomeUndecidable: protected, because a network could not be resolved.
	ProtectionOutcomeUndecidable = "undecidable"
	// ProtectionOutcomeUnguarded: every network is provably outside what the backends manage.
	ProtectionOutcomeUnguarded = "unguarded"
	// ProtectionOutcomeSkipped: host network, mirror pod, excluded namespace or opt-out.
	ProtectionOutcomeSkipped = "skipped"
	// ProtectionOutcomeFailed: the webhook could not decide and the call failed; failurePolicy decides.
	ProtectionOutcomeFailed = "failed"
)
