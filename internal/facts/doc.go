// SPDX-License-Identifier: Apache-2.0

// Package facts puts objects that were read into the terms of the decision tables, purely. Controllers, admission and the plugin read in different
// ways: from caches or live, of one pod or of all. What they have read means the same here, so that a command explains what the manager decides.
package facts
