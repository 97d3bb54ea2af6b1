// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clientfeatures "k8s.io/client-go/features"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/kept"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/webhooks"
)

// setup registers backends, controllers and webhooks, in this order: each needs those before it.
func setup(ctx context.Context, mgr manager.Manager, c *configv1alpha1.ManagerConfiguration, o Options) error {
	mgr, backend := actingOrNot(mgr, newBackend(c, o), o)
	if o.PoliciesSince == nil {
		o.PoliciesSince = kept.PoliciesSince(mgr.GetClient())
	}
	backends := []ipam.Backend{backend}
	for _, backend := range backends {
		if err := backend.Setup(ctx, mgr); err != nil {
			return fmt.Errorf("setting up the backend %s: %w", backend.Name(), err)
		}
	}
	if err := controllers.Setup(ctx, mgr, controllerOptions(c, o, backends)); err != nil {
		return fmt.Errorf("setting up the controllers: %w", err)
	}
	if err := watchDefinitions(ctx, mgr, o); err != nil {
		return err
	}
	if err := webhooks.SetupPodWebhook(mgr, podOptions(c, o, backends)); err != nil {
		return fmt.Errorf("setting up the webhook that protects pods: %w", err)
	}
	removals := releaseOptions(c, o, backend)
	// Without this feature a list after a lost watch fills the cache record by record, in no order.
	if clientfeatures.FeatureGates().Enabled(clientfeatures.AtomicFIFO) {
		removals.CachedRecords = func(ctx context.Context, pod ipam.PodRef) ([]v1alpha1.IPAllocation, error) {
			return index.Records(ctx, mgr.GetClient(), index.RecordPod, pod.String())
		}
	}
	if err := webhooks.SetupReleaseWebhooks(mgr, removals); err != nil {
		return err
	}
	if err := webhooks.SetupNodeSliceWebhook(mgr, webhooks.NodeSliceOptions{Slices: backend, ManagerUser: o.User, Clock: o.Clock}); err != nil {
		return err
	}
	return setupNodeResources(ctx, mgr, c, o)
}

func newBackend(c *configv1alpha1.ManagerConfiguration, o Options) *whereabouts.Backend {
	return whereabouts.New(whereabouts.Options{
		Namespaces: c.Whereabouts.Namespaces,
		Log:        o.Log.WithName(whereabouts.Name),
		Clock:      o.Clock,

		NewInformer: o.newInformer,
	})
}

// watchDefinitions fills the cache of NetworkAttachmentDefinitions before the first pod asks for one. Where their CRD
// is not installed there is none to read, and every pod that names a network is protected.
func watchDefinitions(ctx context.Context, mgr manager.Manager, o Options) error {
	_, err := mgr.GetCache().GetInformer(ctx, &nadv1.NetworkAttachmentDefinition{}, cache.BlockUntilSynced(false))
	if meta.IsNoMatchError(err) {
		o.Log.Info("The NetworkAttachmentDefinition CRD is not installed; every pod that names a network is protected")
		return nil
	}
	if err != nil {
		return fmt.Errorf("watching NetworkAttachmentDefinitions: %w", err)
	}
	return nil
}

func controllerOptions(c *configv1alpha1.ManagerConfiguration, o Options, backends []ipam.Backend) controllers.Options {
	return controllers.Options{
		Backends:         backends,
		Evidence:         config.Evidence(c),
		Settings:         config.Settings(c),
		ManagerNamespace: o.Namespace,
		MaxQueries:       int(*c.Orphans.MaxQueries),
		Rules:            rules(c, o),
		Repair:           c.Audit.Mode == configv1alpha1.AuditModeRepair,
		Shadow:           o.shadow,
		Concurrency:      int(*c.Controller.Concurrency),
		SweepInterval:    c.Controller.SweepInterval.Duration,
		LastRetry:        o.LastRetry,
		SimulatedQueues:  o.SimulatedQueues,
		PoliciesSince:    o.PoliciesSince,
		NodeWatches:      o.nodeWatches,
		Clock:            o.Clock,
	}
}

func rules(c *configv1alpha1.ManagerConfiguration, o Options) protection.Rules {
	return protection.Rules{
		ExcludedNamespaces:  excludedNamespaces(c, o),
		GuardClusterNetwork: *c.Protection.GuardClusterNetwork,
		MultusNamespace:     c.Protection.MultusNamespace,
	}
}

func podOptions(c *configv1alpha1.ManagerConfiguration, o Options, backends []ipam.Backend) webhooks.PodOptions {
	return webhooks.PodOptions{
		Rules: rules(c, o),
		Manages: func(i podnetwork.IPAM) bool {
			return slices.ContainsFunc(backends, func(b ipam.Backend) bool { return b.Manages(i) })
		},
	}
}

func releaseOptions(c *configv1alpha1.ManagerConfiguration, o Options, backend ipam.Reviewable) webhooks.ReleaseOptions {
	daemonSets := make([]types.NamespacedName, 0, len(c.UnsafeReleases.DaemonSets))
	for _, text := range c.UnsafeReleases.DaemonSets {
		namespace, name, _ := strings.Cut(text, "/")
		daemonSets = append(daemonSets, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return webhooks.ReleaseOptions{
		Mode:                  c.UnsafeReleases.Mode,
		ManagerUser:           o.User,
		DaemonSets:            daemonSets,
		ReconcilerInDaemonSet: c.UnsafeReleases.ReconcilerInDaemonSet,
		Evidence:              config.Evidence(c),
		PoliciesSince:         o.PoliciesSince,
		CNIUsers:              c.UnsafeReleases.CNIUsers,
		Backend:               backend,
		Clock:                 o.Clock,
	}
}
