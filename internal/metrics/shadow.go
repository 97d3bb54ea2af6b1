// SPDX-License-Identifier: Apache-2.0

package metrics

// Whether the manager acts, and what it would do if it did.
var (
	// Mode is 1 for the mode that the manager runs in, and 0 for the other.
	Mode = gauges("mode",
		"1 for the mode that the manager runs in (Guard, Shadow), 0 for the other. In Shadow nothing is protected, refused, released, repaired or deleted.", "mode")

	// Shadow counts what was only reported, because the mode is Shadow, by what would have been done (internal/shadow.Action).
	Shadow = counters("shadow_total",
		"What the manager would have done and only reported, because its mode is Shadow, by action. Each write is counted once however often it is decided on; "+
			"each response to an admission request is counted.", "action")

	// ShadowBlocked counts writes that were about to be made in Shadow and were stopped at the client. It must stay zero.
	ShadowBlocked = counters("shadow_blocked_total",
		"Writes that no mode Shadow may make and that the last barrier before the API server stopped, by verb and resource; any increase is a bug in Holdfast, and nothing was written.",
		"verb", "resource")
)
