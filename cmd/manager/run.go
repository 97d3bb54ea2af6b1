// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/cmd/internal/program"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/config"
)

const (
	// namespaceVariable tells a pod its own namespace (config/manager/deployment.yaml).
	namespaceVariable = "POD_NAMESPACE"

	// drainPeriod gives connections that are in use an answer to end with, after the manifest's preStop sleep has given
	// the API server time to see that the endpoint is gone.
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
