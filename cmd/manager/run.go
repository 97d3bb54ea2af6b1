// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

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
	if err := checkKubernetes(restConfig); err != nil {
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

// checkKubernetes refuses an API server that lacks what the manager rests on.
func checkKubernetes(c *rest.Config) error {
	finder, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return err
	}
	server, err := finder.ServerVersion()
	if err != nil {
		return fmt.Errorf("reading the version of the API server: %w", err)
	}
	return kubeversion.Check(server.GitVersion)
}
