// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command holdfast-cluster runs a real Kubernetes cluster on one Linux machine:
// a control plane and nodes with their own namespaces, containerd, kubelet,
// kube-proxy, Multus and whereabouts; and breaks them in the ways that machines
// break. README.md describes it and the file state.json.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "holdfast-cluster:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	f := &clusterFlags{}
	root := &cobra.Command{
		Use:   "holdfast-cluster",
		Short: "Run a real Kubernetes cluster on this machine, and break it",
		Long: `holdfast-cluster runs a control plane and real nodes on one Linux machine, as root. Each
node has network, mount and UTS namespaces of its own, and in them its own containerd,
kubelet, kube-proxy, Multus and whereabouts. The nodes share two segments: the control
bridge hf-ctl and the data bridge hf-data, the master of the pods' macvlan interfaces.

Everything runs in the background until down. What runs is in bin/cluster/state.json.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return f.complete() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	f.add(root.PersistentFlags())
	root.AddCommand(
		newUpCommand(f), newDownCommand(f), newStatusCommand(f), newImportCommand(f), newSmokeCommand(f),
		newNodeCommand(f), newServiceCommand(f, "containerd"), newServiceCommand(f, "kubelet"), newServiceCommand(f, "kube-proxy"),
		newControlPlaneCommand(f), newExecCommand(f), newLogsCommand(f), newMachineCommand(),
	)
	return root
}
