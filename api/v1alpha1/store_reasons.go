// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// What the audit of a node's own IPAM stores finds, as reasons of events on the Node and kinds in metrics.
const (
	// ReasonAddressLeaked: a store of the node has an address for a sandbox that no complete list of the runtime showed for longer
	// than sandboxCreationMax.
	ReasonAddressLeaked Reason = "AddressLeaked"
	// ReasonAddressOfStoppedSandbox: a store of the node has an address for a sandbox that the runtime lists as not ready. Between
	// the end of a sandbox and its CNI DEL that is in order.
	ReasonAddressOfStoppedSandbox Reason = "AddressOfStoppedSandbox"
	// ReasonAddressDuplicated: one store has an address more than once.
	ReasonAddressDuplicated Reason = "AddressDuplicated"
	// ReasonAddressInTwoNetworks: two networks of a node have one address for sandboxes that both exist. It is in order only where the
	// networks share no link.
	ReasonAddressInTwoNetworks Reason = "AddressInTwoNetworks"
	// ReasonStoreUnreadable: a store of the node, or a part of it, could not be read.
	ReasonStoreUnreadable Reason = "StoreUnreadable"
	// ReasonStoreBroken: a store of the node has something in it that its IPAM does not write.
	ReasonStoreBroken Reason = "StoreBroken"
	// ReasonStoreVersionUnknown: a store of the node has a version that Holdfast does not support.
	ReasonStoreVersionUnknown Reason = "StoreVersionUnknown"
)

// What became of an address that was leaked and that was to be reclaimed.
const (
	// ReasonAddressReclaimed: the entry of a leaked address was removed from its store.
	ReasonAddressReclaimed Reason = "AddressReclaimed"
	// ReasonAddressChanged: the entry of a leaked address was gone, or another, when it was looked at again under the store's lock.
	ReasonAddressChanged Reason = "AddressChanged"
	// ReasonReclaimFailed: the entry of a leaked address could not be removed; it is tried again.
	ReasonReclaimFailed Reason = "ReclaimFailed"
)
