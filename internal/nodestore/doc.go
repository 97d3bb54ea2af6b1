// SPDX-License-Identifier: Apache-2.0

// Package nodestore audits, purely, what the IPAMs of a node keep on the node itself: which address is recorded for which
// sandbox ID, held against complete lists of the container runtime.
//
//	parse      ParseHostLocal, ParseCheckpoint: the content of a store's files, as its IPAM writes it, to entries; anything
//	           else is a defect, which is reported and never touched
//	compare    Audit: a series of readings of the stores, each followed by a look at the runtime, to findings
//
// What an entry's sandbox is, decides internal/handshake, with its own memory and its own rules:
//
//	no list of an unbroken row of complete lists, longer than
//	SandboxCreationMax, shows the sandbox                        AddressLeaked
//	the list shows it as not ready                               AddressOfStoppedSandbox
//	anything else, a list that failed above all                  nothing is known to be wrong
//
// The stores are read before the runtime is listed: a sandbox that is starting while they are read would otherwise look
// like one that is gone. A finding stands until a reading and a look show that it does not: a failed look changes nothing.
package nodestore
