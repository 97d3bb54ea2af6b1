// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The reasons of events about the slices that an IPAM gives to nodes.
const (
	// ReasonSliceKept: a slice was to be taken from a node whose pool holds, or may hold, entries; the node keeps it.
	ReasonSliceKept Reason = "SliceKept"
	// ReasonSliceCleared: a slice was taken from a deleted node, because its pool is empty by now.
	ReasonSliceCleared Reason = "SliceCleared"
	// ReasonNodeWithoutSlice: nodes have no slice of a network, so their pods get no address of it.
	ReasonNodeWithoutSlice Reason = "NodeWithoutSlice"
)
