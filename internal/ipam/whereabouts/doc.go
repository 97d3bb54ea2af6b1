// SPDX-License-Identifier: Apache-2.0

// Package whereabouts reads and releases what the whereabouts IPAM recorded: v0.9, IPPools and
// OverlappingRangeIPReservations, node slices included. Nothing outside this folder sees its types.
//
// # Reading
//
// An IPPool maps offsets to {container ID, podref, interface}; offset 0 is the range's network address
// (pkg/storage/kubernetes/ipam.go, pkg/iphelpers). What cannot be read as an address is a Problem: reported, never
// written, never treated as absent. The cache is an index over one informer; Live bypasses it and reads in full
// only the pools whose resourceVersion the cache does not have. Reservations are not cached: only a release needs
// them, and it reads them live.
//
// # Releasing, beside an allocator that knows nothing of us
//
// A release is three writes: the entry's podref becomes a tombstone, "holdfast-releasing/<record>"; the reservation is removed;
// the entry is removed. The first and the last are JSON patches that test what they change, so they need no lease: the API
// server applies each at once or not at all. whereabouts' own writes test the pool's resourceVersion and are made
// again after a 422, so ours cost it one more turn of its loop.
//
// Between the writes the tombstone keeps the address taken. ADD gives an address to a pod that holds an entry with its
// podref and interface, and otherwise the lowest free one: no pod has the tombstone's podref, and its offset is not
// free. DEL matches container ID and interface and may remove a tombstone: then the address is free and the last
// write finds nothing to do. An entry with a tombstone is never inherited, so a reservation that is removed while it
// stands cannot belong to a successor in the same pool.
package whereabouts
