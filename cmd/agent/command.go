// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/cmd/internal/program"
	"github.com/holdfast-dev/holdfast/internal/config"
)

const configurationKind = "AgentConfiguration"

// newCommand is the command "agent" with all its subcommands. Without one it runs.
func newCommand() *cobra.Command {
	run := &runOptions{}
	root := &cobra.Command{
		Use:   "agent",
		Short: "Report whether a sandbox of this node is gone",
		Long: `Holdfast's agent runs on every node. It responds to the manager's queries whether a pod
sandbox is gone, from a complete list of the node's container runtime and nothing else.

Without a subcommand it runs.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run.run(cmd.Context()) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	run.addFlags(root.Flags())
	root.AddCommand(newRunCommand(), program.ConfigCommand("agent", configurationKind, config.LoadAgent), program.VersionCommand("agent", describeVersion()))
	return root
}

func newRunCommand() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Respond for this node",
		Long: `Run watches the queries to this node and to all nodes, and responds in the status of the
node's GuardedNode. It reports only for the Node for which its token was issued, and only
while that Node is the machine on which it runs: so it runs in a pod of the node, with the
runtime's socket and the machine's ID files mounted.

Its metrics are served over HTTPS with a certificate of its own making, unless the address
is a loopback one.`,
		Example: `  # In a pod of the node, as the installation does
  agent run --config /etc/holdfast/config.yaml

  # With the node's name given
  agent run --node-name worker-1 --zap-devel`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}
