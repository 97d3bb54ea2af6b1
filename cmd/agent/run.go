// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/agent"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox/cri"
)

// nodeNameVariable tells a pod the name of its node (fieldRef spec.nodeName).
const nodeNameVariable = "NODE_NAME"

type runOptions struct {
	configFile, kubeconfig, nodeName string
	log                              zap.Options
}

func newRunOptions() *runOptions {
	return &runOptions{log: zap.Options{TimeEncoder: zapcore.RFC3339NanoTimeEncoder}}
}

func (o *runOptions) addFlags(flags *pflag.FlagSet) {
	addConfigFlag(flags, &o.configFile)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` with the way to the cluster; otherwise $KUBECONFIG, the pod's own account, or ~/.kube/config")
	flags.StringVar(&o.nodeName, "node-name", os.Getenv(nodeNameVariable), "`name` of the node on which the agent runs; otherwise $"+nodeNameVariable)
	addLogFlags(flags, &o.log)
}

func (o *runOptions) run(ctx context.Context) error {
	c, err := config.LoadAgent(o.configFile)
	if err != nil {
		return err
	}
	if o.nodeName == "" {
		return errors.New("the agent was not told on which node it runs: give --node-name, or $" + nodeNameVariable + " from spec.nodeName of its pod")
	}
	logger := zap.New(zap.UseFlagOptions(&o.log))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger.WithName("client-go"))
	logger.Info("Starting", "version", describeVersion(), "node", o.nodeName)
	restConfig, err := o.restConfig()
	if err != nil {
		return err
	}
	return o.serve(ctx, restConfig, c, logger)
}

// serve runs the agent beside its metrics and probes until ctx ends.
func (o *runOptions) serve(ctx context.Context, restConfig *rest.Config, c *configv1alpha1.AgentConfiguration, logger logr.Logger) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	mgr, err := manager.New(restConfig, manager.Options{Scheme: scheme, Logger: logger, Metrics: metricsOptions(c.Server.MetricsBindAddress),
		HealthProbeBindAddress: c.Server.HealthProbeBindAddress})
	if err != nil {
		return fmt.Errorf("making the agent: %w", err)
	}
	direct, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making the agent's client: %w", err)
	}
	runtime := cri.New(runtimeOptions(&c.Runtime))
	defer runtime.Close(context.WithoutCancel(ctx))
	node, err := agent.New(agent.Options{
		NodeName:       o.nodeName,
		Client:         direct,
		Lister:         runtime,
		Machine:        agent.MachineFiles{MachineID: c.Machine.MachineIDFile, BootID: c.Machine.BootIDFile, SystemUUID: c.Machine.SystemUUIDFile},
		Recorder:       mgr.GetEventRecorder(agent.Name),
		LeaseNamespace: c.LeaseNamespace,
		ListInterval:   c.Runtime.ListInterval.Duration,
		Settings:       handshake.Settings{SandboxCreationMax: c.Delays.SandboxCreationMax.Duration},
		Log:            logger,
	})
	if err != nil {
		return err
	}
	if err := errors.Join(mgr.AddHealthzCheck("rounds", node.Healthz), mgr.AddReadyzCheck("answers", node.Readyz), mgr.Add(node),
		addStores(mgr, c, o.nodeName, node, runtime, direct, logger)); err != nil {
		return fmt.Errorf("adding the agent's probes: %w", err)
	}
	return mgr.Start(ctx)
}

// runtimeOptions are the configuration's part about the container runtime.
func runtimeOptions(r *configv1alpha1.AgentRuntime) cri.Options {
	return cri.Options{Endpoint: r.Endpoint, StateDir: r.StateDirectory, Timeout: r.Timeout.Duration}
}

func (o *runOptions) restConfig() (*rest.Config, error) {
	if o.kubeconfig == "" {
		restConfig, err := ctrl.GetConfig()
		if err != nil {
			return nil, fmt.Errorf("finding a way to the cluster: %w; give one with --kubeconfig", err)
		}
		return rest.AddUserAgent(restConfig, agent.Name), nil
	}
	restConfig, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", o.kubeconfig, err)
	}
	return rest.AddUserAgent(restConfig, agent.Name), nil
}

// metricsOptions serve the metrics in plain HTTP on a loopback address, and elsewhere over HTTPS to whom RBAC lets get
// /metrics.
func metricsOptions(address string) metricsserver.Options {
	o := metricsserver.Options{BindAddress: address}
	if address == configv1alpha1.ServeNothing || isLoopback(address) {
		return o
	}
	o.SecureServing = true
	o.FilterProvider = filters.WithAuthenticationAndAuthorization
	return o
}

func isLoopback(bindAddress string) bool {
	host, _, err := net.SplitHostPort(bindAddress)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && address.IsLoopback())
}
