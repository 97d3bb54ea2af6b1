// SPDX-License-Identifier: Apache-2.0

package metrics

// What becomes of the slices that an IPAM gives to nodes.
var (
	// TakenSlices counts slices that a write was to take from a node, by outcome (SliceKept, SliceUnknown, SliceLetGo).
	TakenSlices = counters("taken_slices_total",
		"Slices that a write was to take from a node, by outcome: kept because entries remain, unknown where that could not be read "+
			"and it was kept too, or let_go.", "outcome")

	// ClearedSlices counts slices that the controller took from deleted nodes.
	ClearedSlices = counter("cleared_slices_total", "Slices that were taken from a deleted node after the last entry had left its pool.")

	// HeldSlices is how many slices wait for that.
	HeldSlices = gauge("held_slices", "Slices of deleted nodes, kept because entries remain in their pools. Only the leader reports it.")

	// NodesWithoutSlice is how many nodes have no slice, one for each network.
	NodesWithoutSlice = gauge("nodes_without_slice",
		"Nodes without a slice, counted once for each network that is divided among nodes: its pods do not start there. Only the leader reports it.")
)

// The values of the label "outcome" of TakenSlices.
const (
	// SliceKept: entries remain.
	SliceKept = "kept"
	// SliceUnknown: it is unknown whether entries remain; it was kept.
	SliceUnknown = "unknown"
	// SliceLetGo: the pool is empty.
	SliceLetGo = "let_go"
)
