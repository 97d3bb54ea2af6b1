// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Assess compares an object with the Node of its node's name, by the rules of the package comment. It does not look at
// whether the object is being deleted.
func Assess(p Policy, o Object, e Evidence) Assessment { panic("not built yet") }

// Judge answers a write.
func Judge(w Write, e Evidence) Judgment { panic("not built yet") }

// OnlyLetsGo says whether the update from before to after does nothing but drop owner references or finalizers, or change
// blockOwnerDeletion or controller of references that stay. The garbage collector does such writes (it patches a dangling
// reference away, and unblocks a foreground deletion), and whoever finishes a clean-up. What the API server itself changes
// with every write (managedFields, resourceVersion, generation) does not count.
func OnlyLetsGo(before, after *unstructured.Unstructured) bool { panic("not built yet") }

// Reap says whether a stale object may be deleted: the evidence is live, every reference has the name of the object's
// node and the UID of a Node that is gone, no owner other than Nodes is left, and it is not being deleted already. The
// reason is why not, or StaleNodeUID or NodeMissing. Whoever calls it for NodeMissing has seen the Node missing
// for as long as a deleted Node's word needs.
func Reap(p Policy, o Object, e Evidence) (bool, Assessment) { panic("not built yet") }

// Conflicts finds every pair of holdings of different nodes that have an address in common: equal or overlapping prefixes.
// Two prefixes of one object, or of two objects of one node, are none. The result is sorted and has each pair once.
func Conflicts(holdings []Holding) []Conflict { panic("not built yet") }
