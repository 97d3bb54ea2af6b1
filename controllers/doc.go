// SPDX-License-Identifier: Apache-2.0

// Package controllers observes, decides and acts: it is the only writer of pods and of IPAM objects. What to do is decided by
// internal/release; the controllers collect the facts and carry the decision out.
//
//	PodReconciler        one pod UID: record, release, unprotect, explain
//	LateStampReconciler  pods that hold an address and were never stamped
//	OrphanReconciler     entries that no pod UID can be shown to own
//
// The other stories are packages below this one; Setup wires them.
package controllers
