// SPDX-License-Identifier: Apache-2.0

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

// IfMissing says what it means that there is no object for the node.
type IfMissing string

// The values of IfMissing.
const (
	// Wait until somebody has created the object.
	Wait IfMissing = "wait"
	// Proceed: the agent creates the object itself.
	Proceed IfMissing = "proceed"
)

// Options say what is waited for. Client, Discovery, Node, IfMissing, Out and Err are required, and either Policy or Resource.
type Options struct {
	// Client reads from the API server, never from a cache.
	Client dynamic.Interface
	// Discovery finds the version and the scope of the resource.
	Discovery served.API

	// Policy is the name of the NodeResourcePolicy that says which resource it is and where an object has the name and the
	// UID of its node.
	Policy string
	// Resource is used without a policy: an object's node is then the one of its name, or Node where Name is given. Without a
	// version it is the one that the API server prefers.
	Resource schema.GroupVersionResource
	// UIDAnnotation is used without a policy: the key of the annotation with the Node's UID. Empty for owner references.
	UIDAnnotation string

	// Node is the name of the node.
	Node string
	// Namespace of the objects; empty for all of them, and for a cluster-scoped resource.
	Namespace string
	// Name of the object. Empty for the name of the node, or, where the policy says that the node's name is elsewhere, for
	// every object that names the node there.
	Name string
	// IfMissing says what it means that there is no object.
	IfMissing IfMissing
	// MachineID is this machine's ID, which status.nodeInfo.machineID of the Node has to show; empty for any.
	MachineID string
	// Timeout is how long Until waits; zero for ever.
	Timeout time.Duration

	// Out gets one line when it is ready, Err one for each thing that is waited for, and each minute.
	Out, Err io.Writer
}

// UsageError is a mistake that waiting does not mend.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

// TimeoutError says what was still missing when the time was up.
type TimeoutError struct {
	// After is how long was waited.
	After time.Duration
	// State is what was waited for, Advice what a person can do about it.
	State, Advice string
}

func (e *TimeoutError) Error() string {
	message := fmt.Sprintf("gave up after %s: %s", e.After, e.State)
	if e.Advice != "" {
		message += "\n" + e.Advice
	}
	return message
}

// ErrStopped is the end of a wait whose context ended before its time-out.
var ErrStopped = errors.New("stopped while waiting")

// obstacle is a reason to wait: what it is, the same words for the same state, and what a person can do about it.
type obstacle struct{ what, advice string }

func (o *obstacle) Error() string { return o.what }
