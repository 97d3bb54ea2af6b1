// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/internal/program"
	"github.com/holdfast-dev/holdfast/internal/agent"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox/cri"
)

// nodeNameVariable holds the name of the pod's node (fieldRef spec.nodeName).
const nodeNameVariable = "NODE_NAME"

type runOptions struct {
	program.Flags
	nodeName string
}

func (o *runOptions) addFlags(flags *pflag.FlagSet) {
	o.Add(flags, configurationKind)
	flags.StringVar(&o.nodeName, "node-name", os.Getenv(nodeNameVariable), "`name` of the node on which the agent runs; otherwise $"+nodeNameVariable)
}

func (o *runOptions) run(ctx context.Context) error {
	c, err := config.LoadAgent(o.Config)
	if err != nil {
		return err
	}
	if o.nodeName == "" {
		return errors.New("the agent does not know on which node it runs: set --node-name, or $" + nodeNameVariable + " from spec.nodeName of its pod")
	}
	logger := o.Logger()
	logger.Info("Starting", "version", describeVersion(), "node", o.nodeName)
	restConfig, err := program.RESTConfig(o.Kubeconfig)
	if err != nil {
		return err
	}
	return o.serve(ctx, rest.AddUserAgent(restConfig, agent.Name), c, logger)
}

// serve runs the agent beside its metrics and probes until ctx is done.
func (o *runOptions) serve(ctx context.Context, restConfig *rest.Config, c *configv1alpha1.AgentConfiguration, logger logr.Logger) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	mgr, err := manager.New(restConfig, manager.Options{Scheme: scheme, Logger: logger, Metrics: program.Metrics(c.Server.MetricsBindAddress, ""),
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
	audited := cri.New(runtimeOptions(&c.Runtime)) // a connection of its own: one that is closed after a time-out ends no list of the agent
	defer audited.Close(context.WithoutCancel(ctx))
	node, err := agent.New(agent.Options{
		NodeName:     o.nodeName,
		Client:       direct,
		Lister:       runtime,
		Machine:      agent.MachineFiles{MachineID: c.Machine.MachineIDFile, BootID: c.Machine.BootIDFile, SystemUUID: c.Machine.SystemUUIDFile},
		Recorder:     mgr.GetEventRecorder(agent.Name),
		ListInterval: c.Runtime.ListInterval.Duration,
		Settings:     handshake.Settings{SandboxCreationMax: c.Delays.SandboxCreationMax.Duration},
		Log:          logger,
	})
	if err != nil {
		return err
	}
	if err := errors.Join(mgr.AddHealthzCheck("rounds", node.Healthz), mgr.AddReadyzCheck("answers", node.Readyz), mgr.Add(node),
		addStores(mgr, c, o.nodeName, node.Self, audited, direct, logger)); err != nil {
		return fmt.Errorf("adding the agent's probes: %w", err)
	}
	return mgr.Start(ctx)
}

// runtimeOptions are the configuration's part about the container runtime.
func runtimeOptions(r *configv1alpha1.AgentRuntime) cri.Options {
	return cri.Options{Endpoint: r.Endpoint, StateDir: r.StateDirectory, Timeout: r.Timeout.Duration}
}
