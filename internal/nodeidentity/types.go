// SPDX-License-Identifier: Apache-2.0

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

// Reference is a UID of a Node that an object carries: a v1 Node owner reference, or the annotation, which has the name
// of the object's own node.
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
	// OtherOwners is how many owner references do not name a v1 Node; where the policy has an annotation, it is how many
	// owner references there are, of any name.
	OtherOwners int
	Finalizers  []string
	// Deleting says that deletionTimestamp is set.
	Deleting bool
}

// Source is how a Node was read.
type Source uint8

// The sources. The zero value is invalid on purpose: a judgement on it could not tell.
const (
	_ Source = iota
	// Cached facts may only allow, and only a write that neither creates an object nor changes its references or its node's
	// name, and only by a Node that is there.
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
	// Reason is NamesNoNode, ObservationFailed, NodeNameMismatch, NodeMissing, NodeUIDMissing, StaleNodeUID or
	// NodeUIDMatches; of Judge also BeingDeleted or OnlyRemovals, of Reap also BeingDeleted.
	Reason v1alpha1.Reason
	// FoundUID is the UID that decided, LiveUID the live Node's; empty if there is none.
	FoundUID, LiveUID types.UID
	// Message names object, node, UID found, UID live, and what to do.
	Message string
}

// Write is a write that admission is asked about.
type Write struct {
	Policy    Policy
	Operation admissionv1.Operation
	// Subresource is empty or "status".
	Subresource string
	// New is the object after the write, Old before it (UPDATE only; an update without it counts as one that changes the
	// references).
	New Object
	Old *Object
	// Removes says that the write does nothing but drop owner references or finalizers, or set a reference's
	// blockOwnerDeletion or controller (OnlyRemovals).
	Removes bool
	// Gains says which address an update adds to an object that is being deleted, or why that cannot be told; empty if it
	// adds none.
	Gains string
}

// Outcome is the answer to a write.
type Outcome uint8

// The outcomes; the zero value is invalid on purpose.
const (
	_ Outcome = iota
	// Allow lets the write pass.
	Allow
	// Refuse: the policy objects; its action says what comes of it.
	Refuse
	// ReadLive: the cached facts do not suffice; read the Node live and judge again.
	ReadLive
	// CouldNotTell: the Node could not be read; failurePolicy decides.
	CouldNotTell
)

// Judgment answers a write.
type Judgment struct {
	Outcome Outcome
	Assessment
}

// Holding is what one object holds for its node.
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
