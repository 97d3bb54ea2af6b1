// SPDX-License-Identifier: Apache-2.0

// Package orphan decides, purely, about the entries of a sandbox that no pod UID can be shown to own. Nobody knows the node of
// such a sandbox, so every node is asked, and only when each of them is known not to have it may its addresses go back.
//
// Decide tries these rows in order; the first that fits decides:
//
//	0   a fact that the row being tried needs is Unknown            Wait
//	1   somebody owns the sandbox after all                          Drop
//	2   no pool holds anything of it                                 Drop
//	3   nobody's for less than releaseDelay                          Wait
//	4   not on record                                                Adopt
//	5   a pool holds an entry of it that the record lacks            Adopt, and ask anew
//	7   a node has claimed it: the record has a node name            as internal/release says of a pod that is gone
//	8   the ID is none that a container runtime makes, or the
//	    kubelet is the only evidence                                 Wait
//	9   nodes have claimed it that contradict each other, or one
//	    that nobody knows                                            Wait
//	10  not asked, or nobody knows the version of the question       Ask, if there is room; not within 30 s of a question of this
//	                                                                 process that another one replaced
//	11  asked for less than nodeGoneDelay and releaseDelay           Wait
//	12  a node ever seen has not acknowledged, and is not gone
//	    (see Node)                                                   Wait
//	13  the facts are from caches                                    Reread
//	14  a node has claimed it with the UID of a live pod, and no
//	    tombstone of this very record stands                         Attribute: the entries are that pod's
//	15  one node has claimed it                                      Address: ask that node alone
//	16  all are silent                                               Release
//
// A claim does not shorten the question to the other nodes. Whoever claims is believed later about the sandbox, so its claim alone must
// not take the sandbox away from a node that has it: from row 13 on every node has said that it has or had it, or that it does not.
//
// Nothing is released while the network-status of a live pod shows an address of it, or while a record holds one of its addresses
// for another sandbox: those hold in rows 7 and 16.
//
// There is no row 6. A tombstone of the record says that a release was begun, or that a pod disowned the entry, which proves nothing: what was
// interrupted is decided again (docs/decisions/0132).
//
// Row 11 is for Nodes that were never seen because they were deleted while no manager ran: they have then been gone for as long as
// row 6 of internal/release asks.
package orphan
