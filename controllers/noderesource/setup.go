// SPDX-License-Identifier: Apache-2.0

// Package noderesource keeps the promise that a node-scoped object speaks for the live Node only (invariant I4), where
// admission cannot: it generates the webhooks of the NodeResourcePolicies and keeps them, sweeps the objects of their
// resources for stale ones, deletes these where asked, and finds addresses under two live Nodes.
//
// The webhook controller writes conditions Accepted and Enforced and the one ValidatingWebhookConfiguration; the sweeper writes
// condition Swept and status.sweep, and is the only one that deletes. Decisions are internal/nodeidentity's.
package noderesource

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/served"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

const (
	// ConfigurationName is the name of the generated ValidatingWebhookConfiguration.
	ConfigurationName = "holdfast-node-resources"
	// ProtectionConfigurationName is the MutatingWebhookConfiguration of the installation, whose authority new entries are given
	// until cert-manager has written it into them.
	ProtectionConfigurationName = "holdfast-protect"
)

// Options configure the controllers.
type Options struct {
	// Disabled turns the guard off: the webhooks are removed, and the policies say that nothing is enforced or swept.
	Disabled bool
	// Presets are policies that are applied at the start, and again whenever they are missing.
	Presets []*unstructured.Unstructured
	// Target is where the API server finds the manager's webhook server.
	Target nodepolicy.Target
	// Certificate is the cert-manager Certificate whose authority is injected into the webhooks; empty without cert-manager.
	Certificate types.NamespacedName
	// SweepInterval is how often every object is looked at.
	SweepInterval time.Duration
	// DeletesPerSecond limits how fast stale objects are deleted.
	DeletesPerSecond float32
	// NodeGoneDelay is how long a Node object must be gone before its word is taken.
	NodeGoneDelay time.Duration
	// HoldGoneNodes never takes the absence of a Node object for proof. A Node of another UID under the name is one.
	HoldGoneNodes bool
	// Shadow has what would be done reported, and not done; nil does it.
	Shadow *shadow.Reporter
	// LastRetry is the longest time to the next try after a failure. Default: 1 minute for the webhook controller, 5 minutes
	// for a sweep.
	LastRetry time.Duration
	// Clock is the real one except in tests.
	Clock clock.PassiveClock
}

// retries is a queue's back-off between these bounds, or below the configured one.
func retries[T comparable](o Options, first, last time.Duration) workqueue.TypedRateLimiter[T] {
	if o.LastRetry > 0 {
		first, last = min(first, o.LastRetry), o.LastRetry
	}
	return workqueue.NewTypedItemExponentialFailureRateLimiter[T](first, last)
}

// Setup registers the controllers with the manager. Call it once, before the manager starts.
func Setup(_ context.Context, mgr manager.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	discoverer, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a client for discovery: %w", err)
	}
	api := served.Client{Client: discoverer.RESTClient()}
	if err := setupWebhooks(mgr, api, o); err != nil || o.Disabled {
		return err
	}
	return setupSweeper(mgr, api, o)
}
