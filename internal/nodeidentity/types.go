// SPDX-License-Identifier: Apache-2.0

// Package nodeidentity decides whether an object of a node-scoped resource speaks for the live Node (invariant I4): every Node UID that it carries is
// that of the Node with the name of the object's node. It is pure.
//
// Assess compares one object with one Node. Judge decides on a write. It always allows deletions, writes of objects that are being deleted and gain no
// address (docs/decisions/0108), writes that only remove references or finalizers, and writes after which the object speaks for the live Node. Reap
// decides whether a stale object may be deleted. Conflicts finds addresses that two objects hold.
//
// Only owner references to kind Node of apiVersion v1 count (or, where the policy names one, an annotation). The first rule that fits decides:
//
//	speaks for no node                        NamesNoNode       allowed
//	Node not read, unreadable or without UID  ObservationFailed unknown
//	a reference with another name             NodeNameMismatch  refused, at any presence
//	no Node of the name                       NodeMissing       as the policy says, with a UID or without
//	no UID, presence IfPresent                NodeUIDMatches    allowed
//	no UID, presence Required                 NodeUIDMissing    refused
//	a UID that is not the live Node's         StaleNodeUID      refused, also when another reference is right
//	every UID is the live Node's              NodeUIDMatches    allowed
//
// An empty UID is not the live Node's. An unknown presence or missing-node action is ObservationFailed. Under presence IfPresent, an update that drops
// every UID and changes more is judged as if the object had kept them.
//
// A cached Node (invariants I5 and I6) may only allow an update that changes neither the references nor the node's name. That there is no Node is
// never taken from a cache: a Node that has just come back under its name is what the guard is for.
package nodeidentity

import (
	"net/netip"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Policy is what a judgement needs of a NodeResourcePolicy.
type Policy struct {
	Name        string
	Presence    v1alpha1.UIDPresence
	Annotation  string // where the UID is, if not in owner references
	MissingNode v1alpha1.MissingNodeAction
}

// Node is what a judgement needs of a Node object that exists; one in foreground deletion exists.
type Node struct {
	UID               types.UID
	CreationTimestamp time.Time
}

// Reference is a UID of a Node that an object carries: a v1 Node owner reference, or the annotation, with the name of the object's node.
type Reference struct {
	Name string
	UID  types.UID
}

// Object is what a judgement needs of an object of a guarded resource.
type Object struct {
	// Resource is "<plural>.<group>".
	Resource        string
	Kind            string
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	// NodeName is the node for which it speaks; empty if none.
	NodeName   string
	References []Reference
	// OtherOwners counts the owner references that do not name a v1 Node; where the policy has an annotation, all of them.
	OtherOwners int
	Finalizers  []string
	// Deleting says that deletionTimestamp is set.
	Deleting bool
}

// Source is how a Node was read.
type Source uint8

// The sources. The zero value is invalid on purpose.
const (
	_ Source = iota
	// Cached facts may only allow an update that changes neither references nor node name, if the Node exists.
	Cached
	// Live facts were read from the API server for this judgement.
	Live
)

// Evidence is the Node of an object's node name.
type Evidence struct {
	Source Source
	Node   release.Fact[Node]
}

// Assessment is what an object is, compared with the Node.
type Assessment struct {
	// Reason is one of the package comment's; of Judge also BeingDeleted or OnlyRemovals, of Reap also BeingDeleted.
	Reason v1alpha1.Reason
	// FoundUID is the UID that decided, LiveUID the live Node's; empty if there is none.
	FoundUID, LiveUID types.UID
	// Message names object, node, UID found, UID live, and what to do.
	Message string
}

// Write is a write that admission judges.
type Write struct {
	Policy    Policy
	Operation admissionv1.Operation
	// Subresource is empty or "status".
	Subresource string
	// New is the object after the write, Old before it (UPDATE only; without it the references count as changed).
	New Object
	Old *Object
	// Removes is OnlyRemovals of the write.
	Removes bool
	// Gains names an address that an update adds to an object that is being deleted, or why that is unknown; empty for none.
	Gains string
}

// Outcome is the decision on a write.
type Outcome uint8

// The outcomes; the zero value is invalid on purpose.
const (
	_ Outcome = iota
	// Allow lets the write pass.
	Allow
	// Refuse: the write violates the policy, whose action decides.
	Refuse
	// ReadLive: the cached facts do not suffice; read the Node live, and judge again.
	ReadLive
	// CouldNotTell: the Node could not be read; failurePolicy decides.
	CouldNotTell
)

// Judgment is the outcome of a write with its reason.
type Judgment struct {
	Outcome Outcome
	Assessment
}

// Holding is the prefixes that one object holds for its node.
type Holding struct {
	Object   Object
	Prefixes []netip.Prefix
}

// Conflict is two objects of different nodes that hold one address; A sorts before B by namespace and name.
type Conflict struct {
	A, B             Object
	PrefixA, PrefixB netip.Prefix
	// More is how many pairs of their prefixes overlap beside this one.
	More int
}
