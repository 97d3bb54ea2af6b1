// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	agentNamespace = "holdfast-agent"
	agentDaemonSet = "holdfast-agent"
	agentConfigKey = "config.yaml"

	// listInterval is 10 seconds as installed. A sandbox that no list ever showed is held for sandboxCreationMax, and those of a
	// demonstration are short-lived.
	listInterval = time.Second
)

// agentProgram is the binary that the simulated nodes run for the agents' pods.
func (c *Cluster) agentProgram() string { return filepath.Join(c.options.Root, "bin", "agent") }

// renderAgents takes the agents' DaemonSet and its ConfigMap out of the installation. They are as installed but for the times in
// the ConfigMap; none with evidence Kubelet, as with the component kubelet-evidence.
func (c *Cluster) renderAgents(all []*unstructured.Unstructured, manager *configv1alpha1.ManagerConfiguration) (agents, others []*unstructured.Unstructured, err error) {
	for _, object := range all {
		if kind := object.GetKind(); object.GetNamespace() == agentNamespace && (kind == "ConfigMap" || kind == "DaemonSet") {
			agents = append(agents, object)
			continue
		}
		others = append(others, object)
	}
	if manager.Evidence != configv1alpha1.EvidenceAgent {
		return nil, others, nil
	}
	if _, err := os.Stat(c.agentProgram()); err != nil {
		return nil, nil, fmt.Errorf("no agent binary: run make build: %w", err)
	}
	content, err := c.agentConfiguration(manager)
	if err != nil {
		return nil, nil, err
	}
	for _, object := range agents {
		if object.GetKind() == "ConfigMap" {
			err = errors.Join(err, unstructured.SetNestedField(object.Object, string(content), "data", agentConfigKey))
		}
	}
	return agents, others, err
}

// agentConfiguration is the installed one with the times of a development cluster.
func (c *Cluster) agentConfiguration(manager *configv1alpha1.ManagerConfiguration) ([]byte, error) {
	source := filepath.Join(c.options.Root, "config", "agent", agentConfigKey)
	file, err := os.ReadFile(source)
	if err != nil {
		return nil, err
	}
	before, err := config.LoadAgent(source)
	if err != nil {
		return nil, err
	}
	configuration := *before
	configuration.Runtime.ListInterval = &metav1.Duration{Duration: listInterval}
	configuration.Delays.SandboxCreationMax = manager.Delays.SandboxCreationMax
	content, err := overlay(file, before, &configuration)
	if err != nil {
		return nil, fmt.Errorf("changing %s: %w", source, err)
	}
	return content, nil
}

// awaitAgents waits until an agent can answer on every node that can have one.
func (c *Cluster) awaitAgents(ctx context.Context) error {
	if len(c.guard.agents) == 0 {
		return nil
	}
	return await(ctx, func(ctx context.Context) error {
		nodes, err := c.machines.Nodes(ctx)
		if err != nil {
			return err
		}
		ready, err := c.readyAgents(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if canRunAgent(n) && !ready[n.Name] {
				log := c.path("simnode", n.Name, "agent.log")
				return fmt.Errorf("no pod of DaemonSet %s/%s is ready on node %s; its agent's log is %s%s", agentNamespace, agentDaemonSet, n.Name, log, process.LogTail(log))
			}
		}
		return nil
	})
}

func canRunAgent(n api.Node) bool {
	return n.Ready && !n.Frozen && !n.CutOff && !n.PoweredOff && !n.AgentStopped && !n.CNS
}

// readyAgents are the nodes on which a pod of the agents' DaemonSet, as it is now, is ready.
func (c *Cluster) readyAgents(ctx context.Context) (map[string]bool, error) {
	set, err := c.clientset.AppsV1().DaemonSets(agentNamespace).Get(ctx, agentDaemonSet, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.InNamespace(agentNamespace)); err != nil {
		return nil, err
	}
	ready := map[string]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		isReady := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if isReady && pod.DeletionTimestamp == nil && metav1.IsControlledBy(pod, set) {
			ready[pod.Spec.NodeName] = true
		}
	}
	return ready, nil
}
