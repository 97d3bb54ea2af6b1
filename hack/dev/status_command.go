// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/supervisor"
	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	simnodeclient "github.com/holdfast-dev/holdfast/hack/dev/simnode/client"
)

func newStatusCommand() *cobra.Command {
	f := &clusterFlags{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what runs of the development cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(); err != nil {
				return err
			}
			state, err := supervisor.ReadState(f.dir)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if state == nil {
				fmt.Fprintln(out, "No development cluster is up.")
				return nil
			}
			return printStatus(cmd, out, state)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func printStatus(cmd *cobra.Command, out io.Writer, state *supervisor.State) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROCESS\tPID\tSTATE")
	for _, child := range state.Children {
		status := "runs"
		if errors.Is(syscall.Kill(child.PID, 0), syscall.ESRCH) {
			status = "ended"
		}
		fmt.Fprintf(table, "%s\t%d\t%s\n", child.Name, child.PID, status)
	}
	return errors.Join(printNodes(cmd.Context(), table, state.Socket), table.Flush())
}

func printNodes(ctx context.Context, table io.Writer, socket string) error {
	nodes, err := simnodeclient.New(socket).Nodes(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(table, "\nNODE\tREADY\tFROZEN\tCUT OFF\tPOWERED OFF\tCNI CUT\tAGENT\tCRI SOCKET")
	for _, n := range nodes {
		fmt.Fprintf(table, "%s\t%t\t%t\t%t\t%t\t%t\t%s\t%s\n", n.Name, n.Ready, n.Frozen, n.CutOff, n.PoweredOff, n.APICut, agentOf(n), shorten(n.CRI))
	}
	return nil
}

// agentOf describes what Holdfast's agent on a node does.
func agentOf(n simnodeapi.Node) string {
	switch {
	case n.AgentStopped:
		return "stopped"
	case n.AgentPID == 0:
		return "none"
	default:
		return fmt.Sprintf("process %d", n.AgentPID)
	}
}

// printNextSteps prints the next commands, with paths as short as they can be.
func printNextSteps(out io.Writer, root string, state *supervisor.State) {
	fmt.Fprintf(out, `
  export KUBECONFIG=%[2]s
  alias kubectl=%[1]s/kubectl

  kubectl get nodes
  kubectl apply -k %[3]s          # pods on two whereabouts networks
  kubectl get pods -n holdfast-sample -o wide
  kubectl get ipa -w                       # addresses, and who holds them
  kubectl delete pod -n holdfast-sample five-0   # held until its address is given back

  %[4]s node freeze node-a   # then force-delete a pod there, and look again
  %[4]s node stop-agent node-a   # its Holdfast agent does not respond: kubectl holdfast explain shows it
  %[4]s node --help          # what else can happen to a node
  %[4]s status

Logs are in %[5]s. "make dev-down" stops everything.
`, short(root, "bin", "kube"), shorten(state.Kubeconfig), short(root, "config", "samples"),
		short(root, "bin", "holdfast-dev"), shorten(filepath.Join(filepath.Dir(state.Kubeconfig), "logs")))
}

func short(elements ...string) string { return shorten(filepath.Join(elements...)) }

// shorten makes a path relative to the working directory where that is shorter.
func shorten(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	relative, err := filepath.Rel(here, path)
	if err != nil || len(relative) > len(path) {
		return path
	}
	return relative
}
