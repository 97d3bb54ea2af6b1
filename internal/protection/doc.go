// SPDX-License-Identifier: Apache-2.0

// Package protection decides, purely, which pods carry Holdfast's finalizer and label.
//
// The rules, in order; the first that fits decides:
//
//	hostNetwork                                  not stamped: no CNI plugin is called for it
//	mirror pod                                   not stamped: its sandbox's UID is not its own, and a kubelet re-creates it
//	excluded namespace                           not stamped
//	pod or namespace opted out                   not stamped
//	the cluster network is guarded               stamped
//	a network is guarded                         stamped
//	an annotation is malformed                   stamped
//	a network is unresolved                      stamped
//	every network is unguarded, or there is none not stamped
//
// A network is guarded when a backend manages any IPAM of its definition; unguarded when its definition is known and no
// backend manages any; unresolved in every other case: no definition (yet), a read that failed, a configuration that is
// broken or lies on the node. A needless stamp costs one patch, a missing one an address.
//
// Two questions are asked here, and they err to opposite sides. Decide may stamp too much, never too little, so a cached
// definition will do. ProvablyUnguarded may keep a stamp too long, so only live reads will do.
package protection
