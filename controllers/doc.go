// SPDX-License-Identifier: Apache-2.0

// Package controllers wires the controllers, which alone write pods and IPAM objects. What to do is decided by internal/release and
// internal/orphan; the controllers collect the facts and carry the decision out. Each story is a package:
//
//	pod      one pod UID: record, release, unprotect, explain
//	orphan   entries that no pod UID can be shown to own
//	protect  pods that hold an address and were never protected
//
// audit, slice, relabel, poolusage and noderesource are the others. What stories share is below them; no story imports another.
package controllers
