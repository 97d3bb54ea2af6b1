// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	manifests "github.com/holdfast-dev/holdfast/config"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/webhooks"
)

const (
	// webhookObject is the name of the webhook's Service and of its Certificate (config/manager, config/certmanager).
	webhookObject = "holdfast-webhook"
	servicePort   = 443
)

// setupNodeResources registers the guard of node-scoped resources. One that is turned off still has to take its webhooks away.
func setupNodeResources(ctx context.Context, mgr manager.Manager, c *configv1alpha1.ManagerConfiguration, o Options) error {
	if defined, err := definesNodeResourcePolicies(mgr.GetRESTMapper()); err != nil || !defined {
		if err == nil {
			o.Log.Info("The API server does not know NodeResourcePolicies, so node-scoped resources are not guarded; everything else is. " +
				"Apply config/crd and restart the manager")
		}
		return err
	}
	options := nodeResourceOptions(c, o)
	presets, err := nodeResourcePresets(c.NodeResources.Presets)
	if err != nil {
		return err
	}
	options.Presets = presets
	if err := noderesource.Setup(ctx, mgr, options); err != nil {
		return fmt.Errorf("setting up the controllers of node-scoped resources: %w", err)
	}
	if options.Disabled {
		webhooks.SetupDisabledNodeResourceWebhook(mgr)
		return nil
	}
	if err := webhooks.SetupNodeResourceWebhook(ctx, mgr); err != nil {
		return fmt.Errorf("setting up the webhook of node-scoped resources: %w", err)
	}
	return nil
}

// definesNodeResourcePolicies reports whether their CustomResourceDefinition is there: an upgrade may forget it.
func definesNodeResourcePolicies(mapper meta.RESTMapper) (bool, error) {
	_, err := mapper.RESTMapping(v1alpha1.GroupVersion.WithKind("NodeResourcePolicy").GroupKind(), v1alpha1.GroupVersion.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for NodeResourcePolicies: %w", err)
	}
	return true, nil
}

// nodeResourcePresets are the policies of these names, as they are applied.
func nodeResourcePresets(names []string) ([]*unstructured.Unstructured, error) {
	var policies []*unstructured.Unstructured
	for _, name := range names {
		content, err := manifests.Preset(name)
		if err != nil {
			return nil, err
		}
		for _, document := range bytes.Split(content, []byte("\n---\n")) {
			policy := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict(document, &policy.Object); err != nil {
				return nil, fmt.Errorf("reading preset %s: %w", name, err)
			}
			if policy.GetKind() == "NodeResourcePolicy" {
				policy.SetLabels(map[string]string{"app.kubernetes.io/part-of": "holdfast", "app.kubernetes.io/managed-by": "holdfast-manager"})
				policies = append(policies, policy)
			}
		}
	}
	return policies, nil
}

func nodeResourceOptions(c *configv1alpha1.ManagerConfiguration, o Options) noderesource.Options {
	options := noderesource.Options{
		Disabled:         !*c.NodeResources.Enabled,
		Target:           nodepolicy.Target{URL: c.Server.WebhookURL},
		SweepInterval:    c.NodeResources.SweepInterval.Duration,
		DeletesPerSecond: *c.NodeResources.DeletesPerSecond,
		NodeGoneDelay:    c.Delays.NodeGoneDelay.Duration,
		HoldGoneNodes:    c.Delays.NodeGoneAction == configv1alpha1.NodeGoneHold,
		Shadow:           o.shadow,
		LastRetry:        o.LastRetry,
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
