// SPDX-License-Identifier: Apache-2.0

// Package audit compares, purely, what the IPAM has recorded with the pods, with Holdfast's records and the responses of agents, and with
// the objects of nodes. It says what contradicts what, and of each entry of a pool whether two audits that agree on it may lead to its
// release.
//
// The classes:
//
//	Duplicate   one address is used, or recorded, twice
//	Leak        an entry has nobody behind it any more
//	Unrecorded  a pod uses what nobody has written down for it
//	Stale       something written down is no longer so
//	Conflict    two claims exclude each other, and neither is proven wrong
//	Unreadable  data that cannot be read: reported, never taken for an absence
//
// Pools are read before pods, and pods before records: an entry that was there before its pod was not found is one whose pod is gone,
// and not one whose pod was yet to come. A pod that is starting or ending while it is being read can still look like a contradiction
// once; hence two reports, and a third look before anything is released.
package audit
