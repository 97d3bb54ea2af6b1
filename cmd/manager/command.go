// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/config"
)

// newCommand is the command "manager" with all its subcommands. Without one it runs.
func newCommand() *cobra.Command {
	run := newRunOptions()
	root := &cobra.Command{
		Use:   "manager",
		Short: "Hold every pod IP until the sandbox that used it is gone",
		Long: `Holdfast's manager stamps pods whose addresses come from a guarded IPAM, and takes the
stamp off again when every address of that pod UID went back to its pool.

Without a subcommand it runs.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run.run(cmd.Context()) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	run.addFlags(root.Flags())
	root.AddCommand(newRunCommand(), newConfigCommand(), newVersionCommand(), newUninstallCommand(),
		newWaitNodeResourceCommand())
	return root
}

func newRunCommand() *cobra.Command {
	o := newRunOptions()
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve the webhooks and, as the leader, run the controllers",
		Long: `Run serves the webhooks in every replica and the controllers in the one that holds the
Lease. Everything that is not about this process alone is in the configuration file; a
wrong file stops the manager with every mistake listed.`,
		Example: `  # In a pod, as the installation does
  manager run --config /etc/holdfast/config.yaml

  # Outside of the cluster, with every default and readable logs
  manager run --kubeconfig ~/.kube/config --zap-devel`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func newConfigCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration, or every mistake in the file",
		Example: `  # Every setting with its default
  manager config

  # Check a file before it is rolled out
  manager config --config config/manager/config.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.LoadManager(path)
			if err != nil {
				return err
			}
			content, err := yaml.Marshal(c)
			if err != nil {
				return fmt.Errorf("writing the effective configuration: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
	addConfigFlag(cmd.Flags(), &path)
	return cmd
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  manager version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), describeVersion())
			return err
		},
	}
}

func addConfigFlag(flags *pflag.FlagSet, path *string) {
	flags.StringVar(path, "config", "", "`file` with a ManagerConfiguration (config.holdfast.dev/v1alpha1); every default without one")
}

func addLogFlags(flags *pflag.FlagSet, o *zap.Options) {
	set := flag.NewFlagSet("log", flag.ContinueOnError)
	o.BindFlags(set)
	flags.AddGoFlagSet(set)
}
