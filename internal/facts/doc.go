// SPDX-License-Identifier: Apache-2.0

// Package facts converts objects into the facts of the decision tables, purely. Controllers, admission and the plugin read in different ways, from
// caches or live, one pod or all. They share this conversion, so that a command explains what the manager decides.
package facts
