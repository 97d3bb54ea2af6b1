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

// newCommand is the command "agent" with all its subcommands. Without one it runs.
func newCommand() *cobra.Command {
	run := newRunOptions()
	root := &cobra.Command{
		Use:   "agent",
		Short: "Say whether a sandbox of this node is gone",
		Long: `Holdfast's agent runs on every node. It answers the manager's question whether a pod
sandbox is gone, from a complete list of the node's container runtime and nothing else.

Without a subcommand it runs.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run.run(cmd.Context()) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	run.addFlags(root.Flags())
	root.AddCommand(newRunCommand(), newConfigCommand(), newVersionCommand())
	return root
}

func newRunCommand() *cobra.Command {
	o := newRunOptions()
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Answer for this node",
		Long: `Run watches the marks that ask this node, or all nodes, and answers into the status of
their records. It speaks only for the Node for which its token was issued, and only while
that Node is the machine on which it runs: so it runs in a pod of the node, with the
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

func newConfigCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration, or every mistake in the file",
		Example: `  # Every setting with its default
  agent config

  # Check a file before it is rolled out
  agent config --config config/agent/config.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.LoadAgent(path)
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
		Example: "  agent version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), describeVersion())
			return err
		},
	}
}

func addConfigFlag(flags *pflag.FlagSet, path *string) {
	flags.StringVar(path, "config", "", "`file` with an AgentConfiguration (config.holdfast.dev/v1alpha1); every default without one")
}

func addLogFlags(flags *pflag.FlagSet, o *zap.Options) {
	set := flag.NewFlagSet("log", flag.ContinueOnError)
	o.BindFlags(set)
	flags.AddGoFlagSet(set)
}
