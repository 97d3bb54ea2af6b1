// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/hack/dev/reconciler"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
)

func newStandInCommand() *cobra.Command {
	var o standin.Options
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "standin",
		Short: "Play kubelet, container runtime and CNI for nodes that exist only here",
		Long: `Standin registers the nodes and runs the pods that are bound to them: status as a kubelet
writes it, sandboxes with IDs, addresses from the real allocator of whereabouts v0.9.4.
A control socket breaks the machines and tells what truly happened on them; see
"holdfast-dev node".`,
		Example: `  holdfast-dev standin --kubeconfig bin/dev/kubeconfig --node node-c --socket bin/dev/more.sock`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Config, err = loadConfig(kubeconfig); err != nil {
				return err
			}
			o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			fleet, err := standin.New(o)
			if err != nil {
				return err
			}
			return fleet.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	addKubeconfig(cmd, &kubeconfig)
	flags.StringSliceVar(&o.Nodes, "node", nil, "`name` of a node; may be repeated")
	flags.StringSliceVar(&o.CNSNodes, "cns-node", nil, "`name` of a node whose pod network needs Azure's CNS; may be repeated")
	flags.StringVar(&o.Manager, "manager", "", "`path` of the manager binary, for init containers of the CNS")
	flags.StringVar(&o.Agent, "agent", "", "`path` of the agent binary, for the pods of the DaemonSet holdfast-agent")
	flags.StringVar(&o.Socket, "socket", "", "`path` of the control socket")
	flags.StringVar(&o.StateDir, "state-dir", "", "`folder` for whereabouts' files; default: next to the socket")
	flags.StringVar(&o.WhereaboutsNamespace, "whereabouts-namespace", standin.DefaultWhereaboutsNamespace, "`namespace` of whereabouts' DaemonSet and pools")
	flags.DurationVar(&o.Heartbeat, "heartbeat", 0, "how often a node reports; default 2s")
	flags.DurationVar(&o.MaxGrace, "max-grace", 0, "cap of the pods' grace periods; default 2s, negative is no cap")
	flags.DurationVar(&o.Retry, "retry", 0, "pause after a failed step, such as a CNI ADD; default 1s")
	flags.DurationVar(&o.AddTimeout, "cni-add-timeout", 0, "limit of one CNI ADD; default that of whereabouts, 2m")
	flags.DurationVar(&o.DelTimeout, "cni-del-timeout", 0, "limit of one CNI DEL; default that of whereabouts, 1m")
	require(cmd, "node", "socket")
	return cmd
}

func newReconcilerCommand() *cobra.Command {
	var kubeconfig, namespace string
	var every time.Duration
	var verbose bool
	cmd := &cobra.Command{
		Use:   "reconciler",
		Short: "Run whereabouts' own reconciler, once or again and again",
		Long: `Reconciler runs the reconciler of whereabouts v0.9.4 under a token that is bound to the
pod of its Deployment, as since whereabouts 0.9.4.`,
		Example: `  holdfast-dev reconciler --kubeconfig bin/dev/kubeconfig --every 30s`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := loadConfig(kubeconfig)
			if err != nil {
				return err
			}
			logging.SetLogStderr(verbose)
			return reconcile(cmd, config, namespace, every)
		},
	}
	addKubeconfig(cmd, &kubeconfig)
	cmd.Flags().StringVar(&namespace, "whereabouts-namespace", standin.DefaultWhereaboutsNamespace, "`namespace` of the reconciler's Deployment")
	cmd.Flags().DurationVar(&every, "every", 0, "run again after this time; default: once")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show whereabouts' own log")
	return cmd
}

// reconcile runs until ctx ends where every is given; errors of single runs are
// then shown, and the next run comes.
func reconcile(cmd *cobra.Command, config *rest.Config, namespace string, every time.Duration) error {
	for {
		identity, err := reconciler.Identity(cmd.Context(), config, namespace)
		if err == nil {
			freed, failure := reconciler.Run(cmd.Context(), identity)
			fmt.Fprintf(cmd.OutOrStdout(), "%s whereabouts' reconciler freed %d addresses %v\n", time.Now().Format(time.TimeOnly), len(freed), freed)
			err = failure
		}
		if every <= 0 {
			return err
		}
		if err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), err)
		}
		select {
		case <-time.After(every):
		case <-cmd.Context().Done():
			return nil
		}
	}
}

func addKubeconfig(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "kubeconfig", os.Getenv("KUBECONFIG"), "`file` with the administrator's way to the cluster; default: $KUBECONFIG")
}

func loadConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return nil, fmt.Errorf("no cluster named: give --kubeconfig, or set KUBECONFIG")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // many machines in one process: the client's own limit is for one program
	return config, nil
}

// require marks flags of the command that it has.
func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // no such flag: a mistake in this program
		}
	}
}
