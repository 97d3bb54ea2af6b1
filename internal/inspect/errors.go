// SPDX-License-Identifier: Apache-2.0

package inspect

import "fmt"

// ForbiddenError names the missing right.
type ForbiddenError struct {
	// Verb, Resource ("pods", "ippools.whereabouts.cni.cncf.io") and Scope ("all namespaces", "namespace x", "the cluster") are what
	// was tried.
	Verb, Resource, Scope string
	// Err is the API server's error.
	Err error
}

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("this needs the right to %s %s in %s, which you do not have; ask an administrator for it, or act as a user who has it (--as, --context). The API server said: %v",
		e.Verb, e.Resource, e.Scope, e.Err)
}

func (e *ForbiddenError) Unwrap() error { return e.Err }

// NotServedError is certain: the API server serves the type in no version, and there is no CustomResourceDefinition of it. A failed
// check is another error.
type NotServedError struct {
	// Resource is "ipallocations.holdfast.dev".
	Resource string
}

func (e *NotServedError) Error() string {
	return fmt.Sprintf("the API server serves no %s: there is no CustomResourceDefinition of that name", e.Resource)
}

// The types of which reports say that they are not served.
const (
	RecordResource      = "ipallocations.holdfast.dev"
	GuardedNodeResource = "guardednodes.holdfast.dev"
	PolicyResource      = "noderesourcepolicies.holdfast.dev"
	PoolResource        = "ippools.whereabouts.cni.cncf.io"
	ReservationResource = "overlappingrangeipreservations.whereabouts.cni.cncf.io"
	DefinitionResource  = "network-attachment-definitions.k8s.cni.cncf.io"
)

// Unserved are types that the API server certainly does not serve: there is none of them.
type Unserved struct{ Records, Policies, Pools, Reservations, Definitions bool }

// The beginning of a note about a type that is not served; the consequence follows after a colon.
const (
	NoHoldfast    = "Holdfast is not installed (the API server serves no " + RecordResource + ")"
	NoWhereabouts = "whereabouts is not installed (the API server serves no " + PoolResource + ")"
	NoMultus      = "Multus is not installed (the API server serves no " + DefinitionResource + ")"
)
