// SPDX-License-Identifier: Apache-2.0

// Package byhand judges, purely, whether a person may release one entry of a pool: what speaks against it, and which of that a person
// who knows better may override. Breaking the glass must never be easier than waiting: while time alone, or the manager by itself,
// would do it, that is an objection like a sandbox that is known to live.
package byhand
