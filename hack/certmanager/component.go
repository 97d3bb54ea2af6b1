// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/cert-manager/cert-manager/pkg/util"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// options are the flags of both components.
type options struct {
	kubeconfig      string
	leaderElect     bool
	leaderNamespace string
	healthAddress   string
	metricsAddress  string
	// clusterNamespace is where the Secrets of ClusterIssuers are.
	clusterNamespace string
}

// component is a subcommand that runs what add adds to a manager. The manager
// brings leader election, health checks and an orderly end.
func component(name, short string, add func(ctrl.Manager, options) error) *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manager, err := newManager(name, o)
			if err != nil {
				return err
			}
			if err := add(manager, o); err != nil {
				return fmt.Errorf("setting up the %s: %w", name, err)
			}
			return manager.Start(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says which cluster (default: that of the pod)")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "let only one of several replicas work")
	flags.StringVar(&o.leaderNamespace, "leader-election-namespace", "cert-manager", "namespace of the lease")
	flags.StringVar(&o.healthAddress, "health-address", ":9403", `address of /healthz and /readyz; "0" for none`)
	flags.StringVar(&o.metricsAddress, "metrics-address", "0", `address of controller-runtime's metrics; "0" for none`)
	flags.StringVar(&o.clusterNamespace, "cluster-resource-namespace", "cert-manager", "namespace of the Secrets of ClusterIssuers")
	return cmd
}

func newManager(name string, o options) (ctrl.Manager, error) {
	ctrl.SetLogger(klog.Background())
	config, err := restConfig(o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	// cert-manager takes its field manager from the user agent.
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(config, name), ctrl.Options{
		Scheme:                        scheme,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "cert-manager-" + name,
		LeaderElectionNamespace:       o.leaderNamespace,
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        o.healthAddress,
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		// The injector watches the metadata of Secrets only, and reads those that it needs.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return manager, manager.AddReadyzCheck("ping", healthz.Ping)
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
