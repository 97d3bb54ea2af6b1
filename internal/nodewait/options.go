// SPDX-License-Identifier: Apache-2.0

// Package nodewait waits until the objects that a node's agent will read carry the UID of the live Node (invariant I4). Admission refuses new writes
// of stale objects, but an agent can still read one that was filled before its Node was replaced.
//
// Each look reads live: the policy, the objects, and last the Node. A Node that is replaced after its object was read is then seen with another UID;
// in the other order the old Node would confirm its own object. The first that fits decides:
//
//	something cannot be read, or is not served   wait
//	no Node of the name                          wait
//	the Node is being deleted                    wait
//	the Node shows another machine               wait (only where a machine ID was given)
//	no object                                    wait, or ready where the agent creates it
//	an object is being deleted                   wait
//	an object has not the live Node's UID        wait
//	every object has the live Node's UID         ready
//	it has none, and the policy accepts that     ready
//
// Watches only cause earlier looks; without an event the next look follows after some seconds.
package nodewait

import (
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/holdfast-dev/holdfast/internal/served"
)

// IfMissing is what to do if there is no object for the node.
type IfMissing string

// The values of IfMissing.
const (
	// Wait until the object exists.
	Wait IfMissing = "wait"
	// Proceed: the agent creates the object itself.
	Proceed IfMissing = "proceed"
)

// Options of a wait. Client, Discovery, Node, IfMissing, Out and Err are required, and either Policy or Resource.
type Options struct {
	// Client reads from the API server, never from a cache.
	Client dynamic.Interface
	// Discovery finds the version and the scope of the resource.
	Discovery served.API

	// Policy is the name of the NodeResourcePolicy with the resource and the place of an object's node name and UID.
	Policy string
	// Resource replaces the policy: an object's node is then the one of its name, or Node where Name is given. The version may be empty.
	Resource schema.GroupVersionResource
	// UIDAnnotation, with Resource, is the key of the annotation with the Node's UID; empty for owner references.
	UIDAnnotation string

	// Node is the name of the node.
	Node string
	// Namespace of the objects; empty for all of them, and for a cluster-scoped resource.
	Namespace string
	// Name of the object; empty for the name of the node, or, where the policy reads the node's name elsewhere, for every object that names it.
	Name      string
	IfMissing IfMissing
	// MachineID is this machine's ID, which status.nodeInfo.machineID of the Node has to show; empty for any.
	MachineID string
	// Timeout is how long Until waits; zero for no limit.
	Timeout time.Duration

	// Out gets one line when it is ready, Err one for each new state, and one each minute.
	Out, Err io.Writer
}

// TimeoutError is what was still missing at the time-out.
type TimeoutError struct {
	// After is the time-out.
	After time.Duration
	// State is the last state, Advice what to do about it.
	State, Advice string
}

func (e *TimeoutError) Error() string {
	message := fmt.Sprintf("gave up after %s: %s", e.After, e.State)
	if e.Advice != "" {
		message += "\n" + e.Advice
	}
	return message
}

// ErrStopped reports that the context of a wait ended before its time-out.
var ErrStopped = errors.New("stopped while waiting")

// obstacle is a reason to wait, with the same text for the same state, and what to do about it.
type obstacle struct{ what, advice string }

func (o *obstacle) Error() string { return o.what }
