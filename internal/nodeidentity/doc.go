// SPDX-License-Identifier: Apache-2.0

// Package nodeidentity decides whether an object of a node-scoped resource speaks for the live Node (invariant I4): it does
// when every Node UID that it carries is the UID of the Node that has the name of the object's node. It is pure: whoever
// calls it has read the facts.
//
// Assess compares one object with one Node. Judge answers a write, and knows what is always allowed: deletions, writes of
// objects that are being deleted and gain no address, writes that only let go, and repairs, which are writes whose new
// object speaks for the live Node. A write that adds an address to an object that is being deleted is judged like any
// other (docs/decisions/0108). Reap says whether a stale object may be deleted. Conflicts finds addresses that two objects hold.
//
// Only owner references to kind Node of apiVersion v1 count (or, where the policy says so, one annotation). The order of the
// rules, the first that fits decides:
//
//	speaks for no node                        NamesNoNode       allowed
//	Node not read, unreadable or without UID  ObservationFailed could not tell
//	a reference with another name             NodeNameMismatch  refused, at any presence
//	no Node of the name                       NodeMissing       as the policy says, with a UID or without
//	no UID, presence IfPresent                NodeUIDMatches    allowed
//	no UID, presence Required                 NodeUIDMissing    refused
//	a UID that is not the live Node's         StaleNodeUID      refused, also when another reference is right
//	every UID is the live Node's              NodeUIDMatches    allowed
//
// An update under presence IfPresent that drops every UID which the object carried, and does not only let go, is judged as
// if the object had kept them.
//
// A reference whose UID is empty carries a UID that is not the live Node's. A policy whose presence or missing-node action
// is none of those that there are is ObservationFailed as well: nothing is allowed by an unknown rule.
//
// What a cache says (invariants I5 and I6) allows one thing only: an update that changes neither the references nor the node's
// name, of an object that speaks for a Node that the cache has. That there is no such Node is never taken from a cache: a
// Node that has just come back under its name is the very case that the guard is for.
package nodeidentity
