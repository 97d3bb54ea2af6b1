// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

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

type runOptions struct {
	configFile, kubeconfig string
	log                    zap.Options
}

func newRunOptions() *runOptions {
	return &runOptions{log: zap.Options{TimeEncoder: zapcore.RFC3339NanoTimeEncoder}}
}

func (o *runOptions) addFlags(flags *pflag.FlagSet) {
	addConfigFlag(flags, &o.configFile)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` with the way to the cluster; otherwise $KUBECONFIG, the pod's own account, or ~/.kube/config")
	addLogFlags(flags, &o.log)
}

func (o *runOptions) run(ctx context.Context) error {
	c, err := config.LoadManager(o.configFile)
	if err != nil {
		return err
	}
	logger := zap.New(zap.UseFlagOptions(&o.log))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger.WithName("client-go"))
	logger.Info("Starting", "version", describeVersion())

	restConfig, err := o.restConfig()
	if err != nil {
		return err
	}
	kubernetes, err := supportedKubernetes(restConfig)
	if err != nil {
		return err
	}
	mgr, err := app.New(ctx, restConfig, c, app.Options{
		Kubernetes:  kubernetes,
		Namespace:   os.Getenv(namespaceVariable),
		Log:         logger,
		DrainPeriod: drainPeriod,
	})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func (o *runOptions) restConfig() (*rest.Config, error) {
	if o.kubeconfig == "" {
		restConfig, err := ctrl.GetConfig()
		if err != nil {
			return nil, fmt.Errorf("finding a way to the cluster: %w; give one with --kubeconfig", err)
		}
		return restConfig, nil
	}
	restConfig, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", o.kubeconfig, err)
	}
	return restConfig, nil
}
