// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The reasons for which an orphan, an entry of an unknown owner, is held.
const (
	// ReasonOwnedByResourceClaim: the entry's ID is a UID, that of a ResourceClaim: its driver releases the address.
	ReasonOwnedByResourceClaim Reason = "OwnedByResourceClaim"
	// ReasonResourceClaimGone: no ResourceClaim has the UID in the entry any more, so that any client may remove it.
	ReasonResourceClaimGone Reason = "ResourceClaimGone"
	// ReasonOwnerKindUnknown: the entry's ID is none that a container runtime makes, so the owner of the address is unknown.
	ReasonOwnerKindUnknown Reason = "OwnerKindUnknown"
	// ReasonOrphanQueued: about as many orphans as may be at once all nodes are queried; this one is next.
	ReasonOrphanQueued Reason = "OrphanQueued"
	// ReasonAwaitingAllNodes: every node is queried about the orphan's sandbox, and at least one of those ever seen has neither
	// responded to the query nor is proven gone.
	ReasonAwaitingAllNodes Reason = "AwaitingAllNodes"
	// ReasonClaimedTwice: more than one node claims that it has, or had, the orphan's sandbox, so that one of them is wrong.
	ReasonClaimedTwice Reason = "ClaimedTwice"
	// ReasonClaimantUnknown: a node claims that it has, or had, the orphan's sandbox, and that Node is neither there nor remembered, or two
	// Nodes show the IDs of its machine.
	ReasonClaimantUnknown Reason = "ClaimantUnknown"
	// ReasonAddressShown: the network-status of a live pod shows the orphan's address.
	ReasonAddressShown Reason = "AddressShown"
)

// The reasons of what becomes of an orphan.
const (
	// ReasonNoNodeHasSandbox: every node ever seen has responded to the query about the orphan's sandbox without claiming it, or is
	// proven gone.
	ReasonNoNodeHasSandbox Reason = "NoNodeHasSandbox"
	// ReasonOwnerFound: a pod owns the entry after all, or a node has seen the sandbox with the UID of a live pod.
	ReasonOwnerFound Reason = "OwnerFound"
)
