// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/webhooks"
)

const (
	// webhookObject is the name of the webhook's Service and of its Certificate (config/manager, config/certmanager).
	webhookObject = "holdfast-webhook"
	servicePort   = 443
)

// setupNodeResources registers the guard of node-scoped resources.
func setupNodeResources(ctx context.Context, mgr manager.Manager, c *configv1alpha1.ManagerConfiguration, o Options) error {
	if !*c.NodeResources.Enabled {
		return nil
	}
	if err := noderesource.Setup(ctx, mgr, nodeResourceOptions(c, o)); err != nil {
		return fmt.Errorf("setting up the controllers of node-scoped resources: %w", err)
	}
	if err := webhooks.SetupNodeResourceWebhook(ctx, mgr, webhooks.NodeResourceOptions{}); err != nil {
		return fmt.Errorf("setting up the webhook of node-scoped resources: %w", err)
	}
	return nil
}

func nodeResourceOptions(c *configv1alpha1.ManagerConfiguration, o Options) noderesource.Options {
	options := noderesource.Options{
		Target:           nodepolicy.Target{URL: c.Server.WebhookURL},
		SweepInterval:    c.NodeResources.SweepInterval.Duration,
		DeletesPerSecond: *c.NodeResources.DeletesPerSecond,
		NodeGoneDelay:    c.Delays.NodeGoneDelay.Duration,
		Clock:            o.Clock,
	}
	if c.Server.WebhookURL == "" {
		options.Target.Service = &admissionregistrationv1.ServiceReference{
			Namespace: o.Namespace, Name: webhookObject, Port: new(int32(servicePort)),
		}
		options.Certificate = types.NamespacedName{Namespace: o.Namespace, Name: webhookObject}
	}
	return options
}
