// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/config"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/machine"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

func newExecCommand(f *clusterFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "exec NAME -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a node",
		Long: `Exec runs a command of the host in the namespaces of a node: with its network, its /etc, /opt,
/var and /run. It ends with the command's exit status.`,
		Example: `  holdfast-cluster exec node-a -- ctr --namespace k8s.io tasks list
  holdfast-cluster exec node-a -- ip address`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := f.open(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			command, err := cl.EnterNode(args[0], args[1:])
			if err != nil {
				return err
			}
			inside := exec.CommandContext(cmd.Context(), command[0], command[1:]...)
			inside.Env = append(os.Environ(), "PATH="+config.RuntimeDirectory+":"+os.Getenv("PATH"))
			inside.Stdin, inside.Stdout, inside.Stderr = os.Stdin, os.Stdout, os.Stderr
			return inside.Run()
		},
	}
}

func newLogsCommand(f *clusterFlags) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs [NODE] PROCESS",
		Short: "Show the log of a process of a node or of the control plane",
		Long: `Logs shows what a process wrote. The processes of a node are namespaces, containerd, kubelet and
kube-proxy; those of the control plane etcd, kube-apiserver, kube-controller-manager and kube-scheduler.`,
		Example: `  holdfast-cluster logs node-a kubelet
  holdfast-cluster logs --follow kube-apiserver`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			node := ""
			if len(args) == 2 {
				node = args[0]
			}
			path := plan.Folder(f.dir).Log(node, args[len(args)-1])
			if _, err := os.Stat(path); err != nil {
				return fmt.Errorf("no such log: %w", err)
			}
			tail := []string{"-n", "+1"}
			if follow {
				tail = append(tail, "-F")
			}
			show := exec.CommandContext(cmd.Context(), "tail", append(tail, path)...)
			show.Stdout, show.Stderr = os.Stdout, os.Stderr
			return show.Run()
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written from now on")
	return cmd
}

func newStatusCommand(f *clusterFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say what runs",
		Long:  `Status says for every process of the cluster whether it runs. It asks the kernel, not the API server.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := f.open(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			s, err := cl.State()
			if err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), cl, s)
		},
	}
}

func printStatus(out io.Writer, c *cluster.Cluster, s *state.Cluster) error {
	fmt.Fprintf(out, "%s: %s, %s\n\n", s.Directory, s.Phase, s.APIServer)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WHERE\tPROCESS\tID\tSTATE")
	row := func(where string, p state.Process) {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", where, p.Name, p.PID, machine.Describe(p))
	}
	for _, p := range s.ControlPlane {
		row("control plane", p)
	}
	for _, n := range s.Nodes {
		where := fmt.Sprintf("%s (%s)", n.Name, c.Condition(n))
		if len(n.Processes) == 0 {
			fmt.Fprintf(table, "%s\t\t\t\n", where)
		}
		for _, p := range n.Processes {
			row(where, p)
		}
	}
	return table.Flush()
}

// newMachineCommand is what a node's first process runs.
func newMachineCommand() *cobra.Command {
	var spec, ready string
	cmd := &cobra.Command{
		Use:    "machine",
		Short:  "Make a machine of the namespaces that this process has for itself, and hold them",
		Hidden: true,
		Args:   cobra.NoArgs,
		// It needs no repository.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, _ []string) error {
			content, err := os.ReadFile(spec)
			if err != nil {
				return err
			}
			var m machine.Machine
			if err := json.Unmarshal(content, &m); err != nil {
				return fmt.Errorf("%s: %w", spec, err)
			}
			// The folder is opened before the mounts, which may hide it.
			folder, err := os.OpenRoot(filepath.Dir(ready))
			if err != nil {
				return err
			}
			if err := m.Become(); err != nil {
				return err
			}
			if err := cluster.MarkReady(folder, filepath.Base(ready)); err != nil {
				return err
			}
			machine.Hold(cmd.Context())
			return nil
		},
	}
	cmd.Flags().StringVar(&spec, "spec", "", "`file` with the description of the machine")
	cmd.Flags().StringVar(&ready, "ready", "", "`file` to write when it is one")
	return cmd
}
