// SPDX-License-Identifier: Apache-2.0

// Command holdfast-dev runs Holdfast on one machine without root: a real control
// plane, simulated nodes, and the demonstration of what Holdfast is for.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "holdfast-dev:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast-dev",
		Short: "Run Holdfast on one machine: control plane, simulated nodes, demo",
		Long: `holdfast-dev runs a real Kubernetes control plane with the real whereabouts allocator
on this machine, without root. Nodes are simulated: they play kubelet, container
runtime and CNI for the pods that are bound to them.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newUpCommand(), newDownCommand(), newStatusCommand(), newSuperviseCommand(),
		newNodeCommand(), newDemoCommand(), newBenchCommand())
	return root
}
