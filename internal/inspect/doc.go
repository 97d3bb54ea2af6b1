// SPDX-License-Identifier: Apache-2.0

// Package inspect is what the commands of kubectl holdfast have in common: the form of their reports, and how those are shown.
//
// Each command has a room below this one. A room takes facts that were read and gives a report, purely: no context, client, clock or
// logger. The facts are read by the package collect, the thin edge to the cluster. A report is a plain structure with JSON names, so
// that scripts and people read the same findings; its method Tables says how a terminal shows it.
//
// The rooms state what they conclude from what was read at one moment. They never write; the one room that leads to a write (byhand)
// only says whether it may be done, and why not.
package inspect
