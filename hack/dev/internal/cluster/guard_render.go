// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/manifests"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// notHere are the kinds of the installation for which a development cluster has
// something else: the manager is a child, and there is no cert-manager.
var notHere = sets.New("Deployment", "PodDisruptionBudget", "Service", "ConfigMap", "Certificate", "Issuer", "ServiceMonitor", "PrometheusRule")

// rendered is the installation, without what is notHere: base before the manager
// starts, admission once it is ready, agents where there are any.
type rendered struct{ base, agents, admission []*unstructured.Unstructured }

func (c *Cluster) render(ctx context.Context, e endpoint, configuration *configv1alpha1.ManagerConfiguration) (rendered, error) {
	objects, err := c.kustomize(ctx, filepath.Join(c.options.Root, "config", "default"))
	if err != nil {
		return rendered{}, err
	}
	var r rendered
	if r.agents, objects, err = c.renderAgents(objects, configuration); err != nil {
		return r, err
	}
	for _, object := range objects {
		switch kind := object.GetKind(); {
		case notHere.Has(kind):
		case strings.HasSuffix(kind, "WebhookConfiguration"):
			if err := pointToLoopback(object, e); err != nil {
				return r, err
			}
			r.admission = append(r.admission, object)
		case strings.Contains(kind, "AdmissionPolicy"):
			r.admission = append(r.admission, object)
		default:
			r.base = append(r.base, object)
		}
	}
	return r, nil
}

// kustomize renders a folder.
func (c *Cluster) kustomize(ctx context.Context, dir string) ([]*unstructured.Unstructured, error) {
	manifest, err := process.Output(ctx, "", filepath.Join(c.control.AssetsDir(), "kubectl"), "kustomize", dir)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", dir, err)
	}
	objects, err := manifests.Parse([]byte(manifest))
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", dir, err)
	}
	return objects, nil
}

// pointToLoopback replaces the Service of every webhook by the manager's port.
func pointToLoopback(configuration *unstructured.Unstructured, e endpoint) error {
	annotations := configuration.GetAnnotations()
	delete(annotations, "cert-manager.io/inject-ca-from")
	configuration.SetAnnotations(annotations)
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return fmt.Errorf("%s: %w", configuration.GetName(), err)
	}
	for i, webhook := range webhooks {
		fields, isObject := webhook.(map[string]any)
		if !isObject {
			return fmt.Errorf("%s: webhooks[%d] is no object", configuration.GetName(), i)
		}
		path, _, err := unstructured.NestedString(fields, "clientConfig", "service", "path")
		if err != nil {
			return fmt.Errorf("%s: webhooks[%d]: %w", configuration.GetName(), i, err)
		}
		fields["clientConfig"] = map[string]any{
			"url":      e.url() + path,
			"caBundle": base64.StdEncoding.EncodeToString(e.authority),
		}
	}
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}
