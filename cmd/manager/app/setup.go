// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// setup registers backends, controllers and webhooks, in this order: each needs those before it.
func setup(ctx context.Context, mgr manager.Manager, c *configv1alpha1.ManagerConfiguration, o Options) error {
	backends := []ipam.Backend{whereabouts.New(whereabouts.Options{
		Namespaces: c.Whereabouts.Namespaces,
		Log:        o.Log.WithName(whereabouts.Name),
		Clock:      o.Clock,
	})}
	for _, backend := range backends {
		if err := backend.Setup(ctx, mgr); err != nil {
			return fmt.Errorf("setting up the backend %s: %w", backend.Name(), err)
		}
	}
	if err := controllers.Setup(ctx, mgr, controllerOptions(c, o, backends)); err != nil {
		return fmt.Errorf("setting up the controllers: %w", err)
	}
	return nil
}

func controllerOptions(c *configv1alpha1.ManagerConfiguration, o Options, backends []ipam.Backend) controllers.Options {
	return controllers.Options{
		Backends: backends,
		Evidence: map[configv1alpha1.Evidence]release.Evidence{
			configv1alpha1.EvidenceKubelet: release.EvidenceKubelet,
			configv1alpha1.EvidenceAgent:   release.EvidenceAgent,
		}[c.Evidence],
		Settings: release.Settings{
			ReleaseDelay:       c.Delays.ReleaseDelay.Duration,
			GracePeriodSlack:   c.Delays.GracePeriodSlack.Duration,
			SandboxCreationMax: c.Delays.SandboxCreationMax.Duration,
			NodeGoneDelay:      c.Delays.NodeGoneDelay.Duration,
		},
		ExcludedNamespaces: excludedNamespaces(c, o),
		Concurrency:        int(*c.Controller.Concurrency),
		SweepInterval:      c.Controller.SweepInterval.Duration,
		Clock:              o.Clock,
	}
}
