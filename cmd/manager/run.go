// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/internal/program"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

const (
	// namespaceVariable holds the pod's own namespace (config/manager/deployment.yaml).
	namespaceVariable = "POD_NAMESPACE"

	// drainPeriod gives connections that are in use a last response, after the manifest's preStop sleep has given
	// the API server time to see that the endpoint is removed.
	drainPeriod = 5 * time.Second
)

type runOptions struct{ program.Flags }

func (o *runOptions) addFlags(flags *pflag.FlagSet) { o.Add(flags, configurationKind) }

func (o *runOptions) run(ctx context.Context) error {
	c, err := config.LoadManager(o.Config)
	if err != nil {
		return err
	}
	logger := o.Logger()
	logger.Info("Starting", "version", describeVersion())

	restConfig, err := program.RESTConfig(o.Kubeconfig)
	if err != nil {
		return err
	}
	if err := checkKubernetes(ctx, restConfig, c.Evidence); err != nil {
		return err
	}
	mgr, err := app.New(ctx, restConfig, c, app.Options{
		Namespace:   os.Getenv(namespaceVariable),
		Log:         logger,
		DrainPeriod: drainPeriod,
	})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// checkKubernetes refuses an API server that lacks what the manager rests on, and a cluster on which the evidence of the configuration proves nothing.
func checkKubernetes(ctx context.Context, c *rest.Config, evidence configv1alpha1.Evidence) error {
	finder, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return err
	}
	server, err := finder.ServerVersion()
	if err != nil {
		return fmt.Errorf("reading the version of the API server: %w", err)
	}
	if err := kubeversion.Check(server.GitVersion); err != nil || evidence != configv1alpha1.EvidenceKubelet {
		return err
	}
	if kubeversion.IsK3s(server.GitVersion) {
		return fmt.Errorf("the cluster is k3s (Kubernetes %s), %w", server.GitVersion, errSharedFieldManager)
	}
	nodes, err := corev1client.NewForConfig(c)
	if err != nil {
		return err
	}
	micro, err := nodes.Nodes().List(ctx, metav1.ListOptions{LabelSelector: kubeversion.MicroK8sLabel, Limit: 1})
	if err != nil {
		return fmt.Errorf("looking for nodes of MicroK8s: %w", err)
	}
	if len(micro.Items) > 0 {
		return fmt.Errorf("the cluster has nodes of MicroK8s (%s), %w", micro.Items[0].Name, errSharedFieldManager)
	}
	return nil
}

// errSharedFieldManager: docs/decisions/0283.
var errSharedFieldManager = errors.New("on which kubelet and pod garbage collector write under one field manager, and the configuration has evidence: Kubelet: " +
	"no report of a kubelet would release an address; install the agents and set evidence to Agent")
