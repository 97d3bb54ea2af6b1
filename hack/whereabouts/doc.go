// SPDX-License-Identifier: Apache-2.0

// Package whereabouts has no code: each go-0.N.mod of its module requires an older
// whereabouts, so that the plugin's program and the control loop can be built as they were
// released.
//
//	go build -modfile=go-0.8.mod -o whereabouts github.com/k8snetworkplumbingwg/whereabouts/cmd
//
// hack/dev/test/shapes runs them, and the allocator of v0.9.4, through every shape of
// a network, each with its own definitions. What is different from v0.9.4, from
// their source and from what they did there:
//
//   - Up to 0.8 there is no NodeSlicePool, and the configuration's node_slice_size is
//     not looked at.
//   - Up to 0.7 neither an entry nor a reservation has the interface. A new pod of
//     the same name is given another address, and no entry is inherited. A
//     reservation has the sandbox ID, and its definition requires one.
//   - Up to 0.6 the configuration's network_name is not looked at: networks of one
//     range share one pool.
//   - Up to 0.8 CNI DEL frees the first entry of the sandbox in the pool, with
//     any interface: of a pod with two interfaces in one pool, the DEL of the one
//     may free the address of the other. Until the second DEL the pool is not empty
//     of the sandbox, so the guard's records are right about it.
//   - The reconciler is a part of the pod control loop, and so of the DaemonSet's
//     pod on every node: it has the token of CNI DEL. Holdfast detects that by the
//     tag of the pod's image, unless the configuration says it
//     (unsafeReleases.reconcilerInDaemonSet).
//   - The reconciler of 0.6.1 leaves the entries of pods that have no network-status
//     yet; that of 0.8.0 frees them.
//   - The reconciler of 0.8.0 looks at a Pending pod every half second, that of
//     0.9.4 every quarter.
package whereabouts
