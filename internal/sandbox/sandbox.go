// SPDX-License-Identifier: Apache-2.0

// Package sandbox is the port to a node's container runtime: who has which pod sandbox now. An adapter gives every sandbox
// that the runtime has, or says that it could not; never a part of them, and never what it read earlier.
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
	// List gives every sandbox of the runtime, read by calls that began after List was called. Of the sandboxes in question that are
	// not ready it also says whether the network namespace is closed, where the runtime tells.
	//
	// The error says whether the runtime could not be reached or gave no list; see FailureOf.
	List(ctx context.Context, asked Asked) (*handshake.Listing, error)
}

// Asked is what the questions of a round are about.
type Asked struct {
	// IDs are sandboxes; of each that is listed, the others of its pod are in question too.
	IDs sets.Set[string]
	// Pods are pod UIDs, all of whose sandboxes are in question.
	Pods sets.Set[types.UID]
}

// About tells which of all the sandboxes of a runtime are in question.
func (a Asked) About(all []handshake.Sandbox) func(*handshake.Sandbox) bool {
	pods := a.Pods.Clone()
	for i := range all {
		if a.IDs.Has(all[i].ID) {
			pods.Insert(all[i].Pod.UID)
		}
	}
	return func(s *handshake.Sandbox) bool {
		return a.IDs.Has(s.ID) || (s.Pod.UID != "" && pods.Has(s.Pod.UID))
	}
}

// Hinter is a Lister whose runtime can tell that something changed.
type Hinter interface {
	// Hint calls changed after events of the runtime, as long as ctx lasts. It may miss any, and call for nothing: a hint says that
	// a look may be worth it, never what there is to see.
	Hint(ctx context.Context, changed func())
}

// Error is why there is no list.
type Error struct {
	// Reason is v1alpha1.ReasonRuntimeUnreachable or v1alpha1.ReasonListFailed.
	Reason v1alpha1.Reason
	Err    error
}

// Error says what was tried and what came back.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// FailureOf is what the handshake makes of an error of List. An error without a class is a list that failed.
func FailureOf(err error) handshake.Look {
	reason := v1alpha1.ReasonListFailed
	if known, ok := errors.AsType[*Error](err); ok {
		reason = known.Reason
	}
	return handshake.Look{Failure: handshake.Failure{Reason: reason, Message: err.Error()}}
}
