// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/cluster"
)

// action is what a command does with a cluster and the name that it got.
type action func(ctx context.Context, c *cluster.Cluster, name string) error

// named is a command with the name of a node or component as its argument. It
// says how long it took.
func named(f *clusterFlags, use, short, long string, do action) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			began := time.Now()
			cl, err := f.open(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			if err := do(cmd.Context(), cl, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s: done, %.1f s\n", args[0], cmd.Name(), time.Since(began).Seconds())
			return nil
		},
	}
}

func newNodeCommand(f *clusterFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Freeze, cut off, kill, start, reboot or replace a node",
		Long:  `The subcommands do to a node what happens to real machines.`,
	}
	cmd.AddCommand(newFreezeCommand(f), newThawCommand(f), newCutOffCommand(f), newReconnectCommand(f),
		newKillCommand(f), newStartCommand(f), newRebootCommand(f), newReplaceCommand(f))
	return cmd
}

func newFreezeCommand(f *clusterFlags) *cobra.Command {
	var all bool
	cmd := named(f, "freeze NAME", "Stop the kubelet where it stands",
		`Freeze stops (SIGSTOP) the node's kubelet; its pods and containerd go on. With --all every process
of the node stops, pods included: a machine that hangs.`,
		func(_ context.Context, c *cluster.Cluster, name string) error {
			if all {
				return c.FreezeAll(name, true)
			}
			return c.SignalKubelet(name, syscall.SIGSTOP)
		})
	cmd.Flags().BoolVar(&all, "all", false, "every process of the node")
	return cmd
}

func newThawCommand(f *clusterFlags) *cobra.Command {
	return named(f, "thaw NAME", "Let a frozen node go on",
		`Thaw lets the kubelet, and all else that freeze stopped, go on.`,
		func(_ context.Context, c *cluster.Cluster, name string) error {
			if err := c.FreezeAll(name, false); err != nil {
				return err
			}
			return c.SignalKubelet(name, syscall.SIGCONT)
		})
}

func newCutOffCommand(f *clusterFlags) *cobra.Command {
	return named(f, "cut-off NAME", "Take the node off the control bridge",
		`Cut-off pulls the cable to the control bridge: the node does not reach the API server or other
nodes. The data bridge and the pods on it live on.`,
		func(_ context.Context, c *cluster.Cluster, name string) error { return c.Connect(name, false) })
}

func newReconnectCommand(f *clusterFlags) *cobra.Command {
	return named(f, "reconnect NAME", "Put the node back on the control bridge", `Reconnect undoes cut-off.`,
		func(_ context.Context, c *cluster.Cluster, name string) error { return c.Connect(name, true) })
}

func newKillCommand(f *clusterFlags) *cobra.Command {
	return named(f, "kill NAME", "Take the power from the node",
		`Kill kills every process of the node at once, containers included. Its network and all that was
in memory (/run) is lost; its disk and identity stay. No component is notified.`,
		func(ctx context.Context, c *cluster.Cluster, name string) error { return c.KillNode(ctx, name) })
}

// waitFlag adds the flag of the commands that start a node.
func waitFlag(cmd *cobra.Command, wait *bool) *cobra.Command {
	cmd.Flags().BoolVar(wait, "wait", true, "wait until the node is Ready by a new report")
	return cmd
}

func newStartCommand(f *clusterFlags) *cobra.Command {
	var wait bool
	return waitFlag(named(f, "start NAME", "Start a node that was killed, with the same identity",
		`Start brings a killed node back with its disk, machine ID and boot ID. A machine that lost its
power comes back with another boot ID: for that use reboot, also after kill.`,
		func(ctx context.Context, c *cluster.Cluster, name string) error {
			return c.StartNode(ctx, name, cluster.SameBoot, wait)
		}), &wait)
}

func newRebootCommand(f *clusterFlags) *cobra.Command {
	var wait bool
	return waitFlag(named(f, "reboot NAME", "Kill the node and start it with another boot ID",
		`Reboot kills the node, unless it was killed, and starts it with its disk, the same machine ID and
another boot ID. What was in /run is gone.`,
		func(ctx context.Context, c *cluster.Cluster, name string) error {
			return c.StartNode(ctx, name, cluster.NewBoot, wait)
		}), &wait)
}

func newReplaceCommand(f *clusterFlags) *cobra.Command {
	var wait, deleteNode bool
	cmd := waitFlag(named(f, "replace NAME", "Put another machine in the node's place",
		`Replace kills the node, unless it was killed, and starts another machine under its name: another
machine ID, system UUID and boot ID, an empty disk. The Node object stays as it is unless --delete-node is given.`,
		func(ctx context.Context, c *cluster.Cluster, name string) error {
			if err := c.KillNode(ctx, name); err != nil {
				return err
			}
			if deleteNode {
				if err := c.DeleteNode(ctx, name); err != nil {
					return err
				}
			}
			return c.StartNode(ctx, name, cluster.NewMachine, wait)
		}), &wait)
	cmd.Flags().BoolVar(&deleteNode, "delete-node", false, "delete the Node object when the old machine is dead")
	return cmd
}

func newServiceCommand(f *clusterFlags, service string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   service,
		Short: "Stop or start the " + service + " of a node",
		Long:  "The subcommands stop and start the " + service + " of a node; the node's containers live on.",
	}
	cmd.AddCommand(
		named(f, "stop NAME", "Stop it", "Stop ends the "+service+" of the node with SIGTERM and returns when it is gone.",
			func(ctx context.Context, c *cluster.Cluster, name string) error {
				return c.StopService(ctx, name, service)
			}),
		named(f, "start NAME", "Start it again", "Start starts the "+service+" of the node, unless it runs.",
			func(ctx context.Context, c *cluster.Cluster, name string) error {
				return c.StartService(ctx, name, service)
			}),
	)
	return cmd
}

func newControlPlaneCommand(f *clusterFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "control-plane",
		Short: "Stop, start, freeze or thaw a component of the control plane",
		Long:  `The components are etcd, kube-apiserver, kube-controller-manager and kube-scheduler.`,
	}
	cmd.AddCommand(
		named(f, "stop COMPONENT", "Stop it", `Connections to a stopped component are refused.`,
			func(ctx context.Context, c *cluster.Cluster, name string) error { return c.StopComponent(ctx, name) }),
		named(f, "start COMPONENT", "Start it again", `Start returns when the component is ready; address and data are the same.`,
			func(ctx context.Context, c *cluster.Cluster, name string) error { return c.StartComponent(ctx, name) }),
		named(f, "freeze COMPONENT", "Stop it where it stands", `Calls of a frozen component hang.`,
			func(_ context.Context, c *cluster.Cluster, name string) error {
				return c.SignalComponent(name, syscall.SIGSTOP)
			}),
		named(f, "thaw COMPONENT", "Let a frozen component go on", `Thaw undoes freeze.`,
			func(_ context.Context, c *cluster.Cluster, name string) error {
				return c.SignalComponent(name, syscall.SIGCONT)
			}),
	)
	return cmd
}
