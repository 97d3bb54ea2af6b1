// SPDX-License-Identifier: Apache-2.0

// Package nodeidentity decides whether an object of a node-scoped resource speaks for the live Node (invariant I4): it does
// when every Node UID that it carries is the UID of the Node that has the name of the object's node. It is pure: whoever
// calls it has read the facts.
//
// Assess compares one object with one Node. Judge answers a write, and knows what is always let through: deletions,
// objects that are being deleted, writes that only let go, and repairs, which are writes whose new object speaks for the
// live Node. Reap says whether a stale object may be deleted. Conflicts finds addresses that two objects hold.
//
// Only owner references to kind Node of apiVersion v1 count (or, where the policy says so, one annotation). The order of the
// rules, the first that fits decides:
//
//	speaks for no node                        NamesNoNode       allowed
//	Node not read, or unreadable              ObservationFailed could not tell
//	no UID, presence IfPresent                NodeUIDMatches    allowed, unless there is no Node and the policy denies that
//	a reference with another name             NodeNameMismatch  refused
//	no Node of the name                       NodeMissing       as the policy says
//	no UID, presence Required                 NodeUIDMissing    refused
//	a UID that is not the live Node's         StaleNodeUID      refused, also when another reference is right
//	every UID is the live Node's              NodeUIDMatches    allowed
package nodeidentity
