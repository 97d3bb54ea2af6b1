// SPDX-License-Identifier: Apache-2.0

// Package nodewait waits until what a node's agent will read speaks for the live Node (invariant I4). Admission stops writes
// to an object of a Node that is gone, but an agent can still read one that was filled before its Node went: the window of a
// node that is replaced under its name while a finalizer keeps the old object.
//
// Every look rests on live reads, in this order: the policy, the objects, and last the Node. A Node that is replaced after
// its object was read is then seen with another UID; the other order would pair an old Node with its own old object. The
// first that fits decides:
//
//	something cannot be read, or is not served   wait
//	no Node of the name                          wait
//	the Node is being deleted                    wait
//	the Node shows another machine               wait (only where a machine ID was given)
//	no object                                    wait, or ready where the agent creates it
//	an object is being deleted                   wait
//	an object has not the live Node's UID        wait
//	every object has the live Node's UID         ready
//	it has none, and the policy accepts that     ready
//
// A watch only tells when to look again; a look follows at the latest after a few seconds without one.
package nodewait
