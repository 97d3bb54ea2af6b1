// SPDX-License-Identifier: Apache-2.0

// Package noderesource makes sure that a node-scoped object speaks for the live Node only (invariant I4). Its webhook controller writes the
// ValidatingWebhookConfiguration of the NodeResourcePolicies, and their conditions Accepted and Enforced. Its sweeper finds stale objects and
// addresses under two live Nodes, deletes stale objects where a policy wants that, and writes condition Swept and status.sweep.
// Decisions are internal/nodeidentity's.
package noderesource

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/served"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

const (
	// ConfigurationName is the name of the generated ValidatingWebhookConfiguration.
	ConfigurationName = "holdfast-node-resources"
	// ProtectionConfigurationName is the MutatingWebhookConfiguration of the installation. New entries get its authority until cert-manager has
	// written theirs.
	ProtectionConfigurationName = "holdfast-protect"
)

// Options configure the controllers.
type Options struct {
	// Disabled turns the guard off: the webhooks are removed, and conditions report that nothing is enforced or swept.
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
	// NodeGoneDelay is how long a Node must be missing until that counts as evidence.
	NodeGoneDelay time.Duration
	// HoldGoneNodes never takes a missing Node for proof. A Node of another UID under the name is one.
	HoldGoneNodes bool
	// Shadow withholds deletions and refusals, and reports them; nil for mode Guard.
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

// CacheByObject is what the manager caches: of the webhook configurations one each, selected by name on the server, so that RBAC can allow no
// other; and of CustomResourceDefinitions that they exist.
func CacheByObject() map[client.Object]cache.ByObject {
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	return map[client.Object]cache.ByObject{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: named(ConfigurationName),
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   named(ProtectionConfigurationName),
		definitionMetadata(): {Transform: DefinitionTransform},
	}
}

// definitionMetadata is how CustomResourceDefinitions are watched.
func definitionMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return object
}

// DefinitionTransform strips the metadata of a CustomResourceDefinition to what tells its versions apart. The annotation of `kubectl apply`
// alone repeats the whole definition.
func DefinitionTransform(object any) (any, error) {
	definition, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: definition.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: definition.Name, UID: definition.UID, ResourceVersion: definition.ResourceVersion, Generation: definition.Generation,
		CreationTimestamp: definition.CreationTimestamp, DeletionTimestamp: definition.DeletionTimestamp,
	}}, nil
}
