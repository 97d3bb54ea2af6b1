// SPDX-License-Identifier: Apache-2.0

// Package whereabouts08 has no code: its module requires whereabouts v0.8.0, so
// that the plugin's program can be built as it was released.
//
//	go build -o whereabouts github.com/k8snetworkplumbingwg/whereabouts/cmd
//
// hack/dev/test/shapes runs it, and the allocator of v0.9.4, through every shape of
// a network. What is different in 0.8.0, from its source and from what it did there:
//
//   - IPPools and OverlappingRangeIPReservations have the same definitions and
//     the same fields, and the allocator writes the same: a podref, an interface
//     name and, in pools, the sandbox ID. There is no NodeSlicePool, and the
//     configuration's node_slice_size is not looked at.
//   - CNI DEL frees the first entry of the sandbox in the pool, whatever its
//     interface: of a pod with two interfaces in one pool, the DEL of the one may
//     free the address of the other. Until the second DEL the pool is not empty
//     of the sandbox, so the guard's records are right about it.
//   - The reconciler is a part of the pod control loop, and so of the DaemonSet's
//     pod on every node: it has the token of CNI DEL. Holdfast tells so by the
//     tag of the pod's image, unless the configuration says it
//     (unsafeReleases.reconcilerInDaemonSet).
//   - The reconciler looks at a Pending pod every half second, 0.9.4 every quarter.
package whereabouts08
