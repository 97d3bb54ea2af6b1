// SPDX-License-Identifier: Apache-2.0

// Package orphan decides, purely, about the entries of a sandbox that no pod UID can be shown to own. The node of such a sandbox is not
// known, so every node is queried, and only when each of them is known not to have it may its addresses be released.
//
// Decide tries these rows in order; the first that fits decides:
//
//	OwnerFound            a pod UID owns the sandbox after all           Drop
//	ObservationFailed     a fact that the row being tried needs is       Wait
//	                      Unknown
//	NoAddresses           no pool holds anything of it                   Drop
//	AwaitOwner            without an owner for less than releaseDelay    Wait
//	NotRecorded           there is no record of it                       Adopt
//	EntryNotRecorded      a pool holds an entry that the record lacks    Adopt
//	ClaimedByNode         a node has claimed it: the record has a node   as internal/release decides about a deleted pod
//	                      name
//	NotQueried            no container runtime makes the ID, or the      Wait
//	                      kubelet is the only evidence
//	ConflictingClaims     the claims of nodes contradict each other, or  Wait
//	                      one is of an unknown node
//	QueryAllNodes         not queried                                    QueryAll, if there is capacity
//	AwaitDeletedNodes     queried for less than nodeGoneDelay and        Wait
//	                      releaseDelay
//	AwaitAcknowledgments  a node ever seen has not acknowledged, and is  Wait
//	                      not gone (see Node)
//	OwnerNamedByNode      a node has claimed it with the UID of a live   Attribute: the entries are that pod's
//	                      pod, and no tombstone of this record stands
//	QueryOneNode          one node has claimed it                        Address: query that node alone
//	AbsentOnAllNodes      no node has it                                 Release
//
// From OwnerNamedByNode on, facts from caches lead to Reread.
//
// A claim does not shorten the query to the other nodes. A node that claims is trusted later about the sandbox, so its claim alone must
// not take the sandbox away from a node that has it: from OwnerNamedByNode on every node has reported that it has or had it, or that it does not.
//
// Nothing is released while the network-status of a live pod shows one of the addresses, or while a record holds one for another sandbox. This
// applies in ClaimedByNode and AbsentOnAllNodes.
//
// A tombstone of the record shows that a release was begun, or that a pod disowned the entry. It proves nothing: an interrupted release is
// decided again (docs/decisions/0132).
//
// AwaitDeletedNodes is for Nodes that were never seen because they were deleted while no manager ran: they have then been gone for as long
// as NodeDeleted of internal/release requires.
package orphan
