// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/cmd/internal/program"
	"github.com/holdfast-dev/holdfast/internal/config"
)

const configurationKind = "ManagerConfiguration"

// newCommand is the command "manager" with all its subcommands. Without one it runs.
func newCommand() *cobra.Command {
	run := &runOptions{}
	root := &cobra.Command{
		Use:   "manager",
		Short: "Hold every pod IP until the sandbox that used it is gone",
		Long: `Holdfast's manager protects pods whose addresses come from a guarded IPAM, and takes the
finalizer off again when every address of that pod UID went back to its pool.

Without a subcommand it runs.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run.run(cmd.Context()) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	run.addFlags(root.Flags())
	root.AddCommand(newRunCommand(), program.ConfigCommand("manager", configurationKind, config.LoadManager), program.VersionCommand("manager", describeVersion()), newUninstallCommand(),
		newWaitNodeResourceCommand())
	return root
}

func newRunCommand() *cobra.Command {
	o := &runOptions{}
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
