// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/supervisor"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	simnodeclient "github.com/holdfast-dev/holdfast/hack/dev/simnode/client"
)

// nodeAction is something that can be done to a simulated node.
type nodeAction struct {
	name, short, long string
	// does is what is done to the machine, one after the other; nil is what the action is called.
	does []string
	done string
}

// nodeActions have one command each, beside replace, which has flags.
var nodeActions = []nodeAction{
	{
		name: "freeze", short: "Hang its kubelet; the sandboxes live on",
		done: "its kubelet hangs; undo it with thaw",
		long: `Freeze plays a kubelet that hangs, or is stopped: no heartbeat, no reaction to anything, not
even the end of a pod. The containers and their addresses live on, and the node is found
NotReady after some seconds. Force-delete a pod there, and its StatefulSet makes another
one while the old one still responds. The container runtime and Holdfast's agent live on
too: the agent still reports which sandboxes exist. If it exits, it is not started again.`,
	},
	{
		name: "thaw", short: "Let a frozen kubelet go on",
		done: "its kubelet continues",
		long: `Thaw undoes freeze: the kubelet continues where it stopped, as a process does after SIGCONT. It
ends what was deleted meanwhile.`,
	},
	{
		name: "cut-off", short: "Take its network away; kubelet and sandboxes live on",
		done: "nothing there reaches the API server; undo it with reconnect",
		long: `Cut-off plays a network partition: the machine runs on, kubelet and containers too, but
neither kubelet, CNI nor Holdfast's agent reaches the API server. The node is found NotReady, its pods are
evicted after their toleration, and no process on the machine learns of it. A reboot does not
bring the network back.`,
	},
	{
		name: "reconnect", short: "Give it its network back",
		done: "its network is back",
		long: `Reconnect ends a partition: the kubelet learns what was deleted meanwhile, terminates it and
reports. It waits longer from one try to the next, so this can take half a minute.`,
	},
	{
		name: "kill", short: "Take its power away, with all its sandboxes", does: []string{api.EventPowerOff},
		done: "it is off; switch it on with start",
		long: `Kill plays a machine that loses its power: kubelet and sandboxes are gone at once, with no
CNI DEL and no report, so that every address which it had stays in its pool. Its CRI socket
refuses connections, and Holdfast's agent there does not respond. What its runtime and CNI have on
disk is still there.`,
	},
	{
		name: "start", short: "Boot it after kill",
		done: "it boots, with another boot ID",
		long: `Start boots a machine that is off: the same machine under another boot ID. Its kubelet
registers the Node where that was deleted, takes down what the last boot left, CNI DEL
included, and runs the pods that are bound to it in new sandboxes; Holdfast's agent is one
of them, and gets a new token.`,
	},
	{
		name: "reboot", short: "Kill and start in one", does: []string{api.EventPowerOff, api.EventStart},
		done: "it boots, with another boot ID",
		long: `Reboot plays a crash after which the machine comes back by itself: all sandboxes are gone
with no CNI DEL, then it boots as with start. Pods that are bound to it keep their UIDs and
get new sandboxes.`,
	},
	{
		name: "cut-cni", short: "Keep its CNI plugins from the API server",
		done: "its CNI plugins find connections refused; undo it with mend-cni",
		long: `Cut-cni plays a node on which the kubelet reaches the API server and CNI plugins do not: the
Service address does not work, for one, because kube-proxy is not up yet. whereabouts does
not report that a CNI DEL failed, so a pod that ends meanwhile leaves its address in the pool.`,
	},
	{
		name: "mend-cni", short: "Let its CNI plugins reach the API server again",
		done: "its CNI plugins reach the API server",
		long: `Mend-cni undoes cut-cni. What was lost meanwhile stays lost.`,
	},
	{
		name: "stop-agent", short: "End its Holdfast agent, and keep it from starting",
		done: "its agent is ended, and kept from starting; undo it with start-agent",
		long: `Stop-agent plays a node on which Holdfast's agent does not get up: a wrong image, too little
memory. Everything else there works. What waits for this node's report is held, and shows that:
freeze the node, force-delete a pod there, and ask "kubectl holdfast explain". It outlives a
boot, and needs a cluster with --evidence Agent.`,
	},
	{
		name: "start-agent", short: "Let its Holdfast agent start again",
		done: "its agent starts",
		long: `Start-agent undoes stop-agent. A restarted agent responds again to its queries;
what it had seen before, it takes from its own responses.`,
	},
}

// nodeTarget describes which simulated nodes are meant.
type nodeTarget struct{ clusterFlags }

func newNodeCommand() *cobra.Command {
	target := &nodeTarget{}
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Break or mend a simulated node",
		Long: `Node does to a simulated node what happens to real ones. "holdfast-dev node ACTION --help" says
which failure an action plays; "holdfast-dev status" shows how the nodes are.`,
		Example: `  holdfast-dev node freeze node-a
  holdfast-dev node replace node-b --delete-node`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	target.add(cmd.PersistentFlags())
	for _, action := range nodeActions {
		cmd.AddCommand(target.command(&action))
	}
	cmd.AddCommand(target.replaceCommand())
	return cmd
}

// command does one thing to one node, and prints the result.
func (t *nodeTarget) command(a *nodeAction) *cobra.Command {
	return &cobra.Command{
		Use: a.name + " NODE", Short: a.short, Long: a.long,
		Example: "  holdfast-dev node " + a.name + " node-a",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := t.find()
			if err != nil {
				return err
			}
			if a.does == nil {
				a.does = []string{a.name}
			}
			for _, action := range a.does {
				if err := simnodeclient.New(path).Do(cmd.Context(), action, args[0]); err != nil {
					return err
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", args[0], a.done)
			return nil
		},
	}
}

func (t *nodeTarget) replaceCommand() *cobra.Command {
	var deleteNode, oldLives bool
	action := &nodeAction{
		name: "replace", short: "Start another machine under its name", done: "another machine starts under the name",
		long: `Replace plays a machine that is exchanged under its name, as cloud providers and autoscalers do:
the old one loses its power, and a new one with nothing on its disk starts. Pods that are
bound to the name run again in new sandboxes under the same UIDs, those that are being
deleted are reported as terminated, and CNI DEL is not called for the sandboxes of the old machine.

The new kubelet takes over the Node object that it finds; --delete-node deletes it before.
With --old-lives the old machine stays powered on: it is cut off for good, and its
sandboxes live on beside the new machine's.`,
	}
	cmd := t.command(action)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch {
		case oldLives && !deleteNode:
			return errors.New("--old-lives needs --delete-node: two kubelets that share a Node are another failure")
		case oldLives:
			action.does = []string{api.ReplaceUnreachable}
		case deleteNode:
			action.does = []string{api.ReplaceAnew}
		}
		return nil
	}
	cmd.Example = `  holdfast-dev node replace node-a --delete-node
  holdfast-dev node replace node-a --delete-node --old-lives`
	cmd.Flags().BoolVar(&deleteNode, "delete-node", false, "delete the Node object before the new machine starts")
	cmd.Flags().BoolVar(&oldLives, "old-lives", false, "leave the old machine running, cut off; needs --delete-node")
	return cmd
}

// find is the path of the control socket.
func (t *nodeTarget) find() (string, error) {
	if err := t.complete(); err != nil {
		return "", err
	}
	state, err := supervisor.ReadState(t.dir)
	if err != nil {
		return "", err
	}
	if state == nil {
		return "", fmt.Errorf("no development cluster is up in %s: run make dev-up", t.dir)
	}
	return state.Socket, nil
}
