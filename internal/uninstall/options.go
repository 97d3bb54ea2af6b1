// SPDX-License-Identifier: Apache-2.0

// Package uninstall removes Holdfast from a cluster and proves that no pod is left with its finalizer (invariant I9).
//
// The proof depends on the order:
//
//  1. The manager is stopped, so that it protects no pod during the sweep. If one of its pods does not stop, its account loses its rights.
//  2. Everything that protects new pods, and every webhook, is deleted.
//  3. All pods are read, with any labels, and our finalizer is removed, until two reads of all pods, an interval apart, have found none. Before
//     each read, protectors that were applied again are removed.
//  4. Entries that the IPAM still has for absent pods are listed. Nothing is released.
//  5. Policies, records with their definitions, roles, certificates and the namespace are deleted.
//
// Every step finds out what is there, so that an interrupted run is simply run again. It needs no manager.
package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/config"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

const (
	// DefaultPassInterval is the time between the two reads that prove it. Each API server applies a deleted webhook or policy for some seconds
	// more; the second read finds a pod that was protected by then.
	DefaultPassInterval = 30 * time.Second
	// DefaultStopTimeout is more than the manager's terminationGracePeriodSeconds.
	DefaultStopTimeout = 2 * time.Minute
	// goneTimeout is how long deleted objects may take to disappear: as long as a namespace takes that no other finalizers hold.
	goneTimeout = 5 * time.Minute
)

// Options of an uninstallation.
type Options struct {
	// Client reads and writes past every cache, with the rights of an administrator. Its rate limit is the uninstallation's.
	Client client.Client
	// Entries reads the IPAMs' records, live; nil reads none.
	Entries func(ctx context.Context) (ipam.Snapshot, error)
	// Namespace is the manager's. Default: holdfast-system.
	Namespace string
	// DryRun only reports what would be done.
	DryRun bool
	// KeepCRDs leaves the CustomResourceDefinitions, and with them all IPAllocations and NodeResourcePolicies.
	KeepCRDs bool
	// LeaveObjects ends the run once it is proven that no pod is held, and leaves all other objects to the package manager that applied them.
	LeaveObjects bool
	// PassInterval is the time between the two clean passes. Default: 30s.
	PassInterval time.Duration
	// StopTimeout is how long the manager's pods get to stop. Default: 2 minutes.
	StopTimeout time.Duration
	// Timeout bounds everything; 0 for no bound.
	Timeout time.Duration
	// HeldFile gets the list of the entries that stay held; empty for none. A file with content is not written over.
	HeldFile string
	// Out gets what was found and done, Progress the progress of longer steps. Default: none.
	Out, Progress io.Writer
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, config.ManagerNamespace)
	o.PassInterval = cmp.Or(o.PassInterval, DefaultPassInterval)
	o.StopTimeout = cmp.Or(o.StopTimeout, DefaultStopTimeout)
	o.Out, o.Progress = cmp.Or(o.Out, io.Discard), cmp.Or(o.Progress, io.Discard)
	return o
}

var errTimedOut = errors.New("time-out")

// ErrStopped reports that the context ended: a signal.
var ErrStopped = errors.New("stopped; run it again: it continues where it was")

// A TimeoutError says that the time-out came before everything was done.
type TimeoutError struct {
	// After is the time-out, Step what was being done.
	After time.Duration
	Step  string
	// Proven reports whether it was proven before that no pod has the finalizer.
	Proven bool
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("gave up after %s, while %s; %s. Run it again: it continues where it was", e.After, e.Step, proof(e.Proven))
}

func proof(proven bool) string {
	if proven {
		return "no pod has the finalizer, which was proven before"
	}
	return "it is NOT proven that no pod has the finalizer"
}
