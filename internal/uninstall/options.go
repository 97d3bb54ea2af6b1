// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

const (
	// DefaultNamespace is where config/default puts Holdfast.
	DefaultNamespace = "holdfast-system"
	// DefaultPassInterval is the time between the two reads that prove it. An API server forgets a webhook or a policy
	// within seconds of its deletion, each of several on its own; a pod that was protected in between is seen by the second.
	DefaultPassInterval = 30 * time.Second
	// DefaultStopTimeout is more than the manager's terminationGracePeriodSeconds.
	DefaultStopTimeout = 2 * time.Minute
	// DefaultGoneTimeout is how long a namespace takes that somebody else's finalizers do not hold.
	DefaultGoneTimeout = 5 * time.Minute
)

// Options of an uninstallation.
type Options struct {
	// Client reads and writes past every cache, with the rights of an administrator. Its rate limit is the uninstallation's.
	Client client.Client
	// Entries reads what the IPAMs have recorded, live. Nil where nobody can tell: then only our records speak.
	Entries func(ctx context.Context) (ipam.Snapshot, error)
	// Namespace is the manager's. Default: holdfast-system.
	Namespace string
	// DryRun only says what would be done.
	DryRun bool
	// KeepCRDs leaves the CustomResourceDefinitions, and with them all IPAllocations and NodeResourcePolicies.
	KeepCRDs bool
	// LeaveObjects ends the run once it is proven that no pod is held, and leaves every other object, the definitions too, to whoever
	// applied it: a package manager, which the run would take them away from.
	LeaveObjects bool
	// PassInterval is the time between the two clean passes. Default: 30s.
	PassInterval time.Duration
	// StopTimeout is how long the manager's pods get to stop. Default: 2 minutes.
	StopTimeout time.Duration
	// GoneTimeout is how long what was deleted may take to be gone. Default: 5 minutes.
	GoneTimeout time.Duration
	// Timeout bounds everything; 0 is for ever.
	Timeout time.Duration
	// HeldFile gets the list of the entries that stay held; empty for none. A file with content is not written over.
	HeldFile string
	// Out gets what was found and done, Progress what a longer step is at. Default: none.
	Out, Progress io.Writer
}

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.PassInterval == 0 {
		o.PassInterval = DefaultPassInterval
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = DefaultStopTimeout
	}
	if o.GoneTimeout == 0 {
		o.GoneTimeout = DefaultGoneTimeout
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

var errTimedOut = errors.New("time-out")

// ErrStopped says that the context ended: a signal.
var ErrStopped = errors.New("stopped; run it again: it goes on where it was")

// A TimeoutError says that the time was over before everything was done.
type TimeoutError struct {
	// After is the time that was given.
	After time.Duration
	// Step is what was being done.
	Step string
	// Proven says whether it was proven before that no pod has the finalizer.
	Proven bool
}

func (e *TimeoutError) Error() string {
	proof := "it is NOT proven that no pod has the finalizer"
	if e.Proven {
		proof = "no pod has the finalizer, which was proven before"
	}
	return fmt.Sprintf("gave up after %s, while %s; %s. Run it again: it goes on where it was", e.After, e.Step, proof)
}
