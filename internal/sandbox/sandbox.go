// SPDX-License-Identifier: Apache-2.0

// Package sandbox is the port to a node's container runtime. An adapter gives a complete and current list of the pod sandboxes, or an error;
// never a part of them, and never what it read earlier.
package sandbox

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// Lister lists the sandboxes of one runtime.
type Lister interface {
	// List gives every sandbox of the runtime, read by calls that began after List was called. For queried sandboxes that are not ready it also
	// reads whether the network namespace is closed, if the runtime reports that.
	//
	// The error says whether the runtime could not be reached or gave no list; see LookOf.
	List(ctx context.Context, queried Queried) (*handshake.Listing, error)
}

// Queried are the sandboxes that the queries of a round are about.
type Queried struct {
	// IDs are sandbox IDs. The other sandboxes of the same pod are queried too.
	IDs sets.Set[string]
	// Pods are pod UIDs: all sandboxes of each are queried.
	Pods sets.Set[types.UID]
}

// Among gives a predicate for the queried ones among all sandboxes of a runtime.
func (q Queried) Among(all []handshake.Sandbox) func(*handshake.Sandbox) bool {
	pods := q.Pods.Clone()
	for i := range all {
		if q.IDs.Has(all[i].ID) {
			pods.Insert(all[i].Pod.UID)
		}
	}
	return func(s *handshake.Sandbox) bool {
		return q.IDs.Has(s.ID) || (s.Pod.UID != "" && pods.Has(s.Pod.UID))
	}
}

// Hinter is a Lister whose runtime has events.
type Hinter interface {
	// Hint calls changed after events of the runtime, until ctx ends. It may miss events and call without one: a hint is never evidence.
	Hint(ctx context.Context, changed func())
}

// Error is why there is no list.
type Error struct {
	// Reason is v1alpha1.ReasonRuntimeUnreachable or v1alpha1.ReasonListFailed.
	Reason v1alpha1.Reason
	Err    error
}

// Error has the call and its cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// LookOf is what List gave to an agent in a pod with this UID, which is empty while it is unknown. An error of another type than Error has the reason ListFailed.
func LookOf(listing *handshake.Listing, err error, pod types.UID) handshake.Look {
	switch {
	case err != nil:
		reason := v1alpha1.ReasonListFailed
		if known, ok := errors.AsType[*Error](err); ok {
			reason = known.Reason
		}
		return handshake.Look{Failure: handshake.Failure{Reason: reason, Message: err.Error()}}
	case pod == "":
		return handshake.Look{Failure: handshake.Failure{Reason: v1alpha1.ReasonListFailed,
			Message: "the agent does not know its own pod yet, so nothing shows that this is the runtime of its node"}}
	}
	return handshake.Check(listing, pod)
}
