// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// managerName is the name of the Deployment, of its ServiceAccount and of its Lease (config/manager).
const managerName = "holdfast-manager"

// Configuration is how the manager is configured, as far as can be seen.
type Configuration struct {
	*configv1alpha1.ManagerConfiguration
	// Source is where it was read: a ConfigMap, or "defaults" and why.
	Source string
	// Assumed: it is the defaults, because the manager's could not be read.
	Assumed bool
}

// Configuration reads the ConfigMap that the manager's Deployment mounts. If that may not be read, or is not there, the defaults are assumed;
// a configuration that is invalid is an error.
func (c *Cluster) Configuration(ctx context.Context) (*Configuration, error) {
	content, source, err := c.configurationFile(ctx)
	switch forbidden, is := errors.AsType[*inspect.ForbiddenError](err); {
	case is:
		source = fmt.Sprintf("defaults (the manager's own may not be read: %s %s in %s)", forbidden.Verb, forbidden.Resource, forbidden.Scope)
	case err != nil:
		return nil, err
	}
	if content == "" {
		complete, err := config.Complete(&configv1alpha1.ManagerConfiguration{})
		return &Configuration{ManagerConfiguration: complete, Source: source, Assumed: true}, err
	}
	parsed, err := config.ParseManager(source, []byte(content))
	return &Configuration{ManagerConfiguration: parsed, Source: source}, err
}

func (c *Cluster) configurationFile(ctx context.Context) (content, source string, err error) {
	var deployment appsv1.Deployment
	found, err := c.get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: managerName}, &deployment, "deployments.apps")
	if err != nil {
		return "", "", err
	}
	if !found {
		return "", fmt.Sprintf("defaults (there is no Deployment %s/%s)", c.Namespace, managerName), nil
	}
	return c.mounted(ctx, c.Namespace, "Deployment "+c.Namespace+"/"+managerName, deployment.Spec.Template.Spec.Volumes)
}

// mounted is the file in the ConfigMap that a workload mounts as volume config.
func (c *Cluster) mounted(ctx context.Context, namespace, workload string, volumes []corev1.Volume) (content, source string, err error) {
	for i := range volumes {
		if volumes[i].Name != "config" || volumes[i].ConfigMap == nil {
			continue
		}
		var file corev1.ConfigMap
		key := client.ObjectKey{Namespace: namespace, Name: volumes[i].ConfigMap.Name}
		found, err := c.get(ctx, key, &file, "configmaps")
		if err != nil {
			return "", "", err
		}
		if found && file.Data["config.yaml"] != "" {
			return file.Data["config.yaml"], "ConfigMap " + key.String(), nil
		}
		return "", fmt.Sprintf("defaults (ConfigMap %s has no config.yaml)", key), nil
	}
	return "", fmt.Sprintf("defaults (%s mounts no ConfigMap as volume config)", workload), nil
}

// agentConfiguration is that of the agents, by the ConfigMap that their DaemonSet mounts.
func (c *Cluster) agentConfiguration(ctx context.Context, agents *appsv1.DaemonSet) (*configv1alpha1.AgentConfiguration, error) {
	content, source, err := c.mounted(ctx, agents.Namespace, "DaemonSet "+client.ObjectKeyFromObject(agents).String(), agents.Spec.Template.Spec.Volumes)
	if err != nil {
		return nil, err
	}
	if content == "" {
		return nil, fmt.Errorf("the configuration of the agents was not found: %s", source)
	}
	return config.ParseAgent(source, []byte(content))
}
