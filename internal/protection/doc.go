// SPDX-License-Identifier: Apache-2.0

// Package protection decides, purely, which pods carry Holdfast's finalizer and label.
//
// The rules, in order; the first that fits decides:
//
//	hostNetwork                                  not protected: no CNI plugin is called for it
//	mirror pod                                   not protected: its sandbox's UID is not its own, and a kubelet re-creates it
//	excluded namespace                           not protected
//	pod or namespace opted out                   not protected
//	the cluster network is guarded               protected
//	a network is guarded                         protected
//	an annotation is malformed                   protected
//	a network is unresolved                      protected
//	every network is unguarded, or there is none not protected
//
// A network is guarded when a backend manages any IPAM of its definition; unguarded when its definition is known and no
// backend manages any; unresolved in every other case: no definition (yet), a read that failed, a configuration that is
// broken or lies on the node. A needless finalizer costs one patch, a missing one an address.
//
// There are two decisions here, which err to opposite sides. Decide may protect too much, never too little, so a cached
// definition will do. ProvablyUnguarded may keep a finalizer too long, so only live reads will do.
package protection
