// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/machine"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

// FreezeAll stops all processes of a node where they stand, pods included, or
// lets them go on: a machine that hangs.
func (c *Cluster) FreezeAll(node string, frozen bool) error {
	n, _, err := c.runningNode(node)
	if err != nil {
		return err
	}
	return c.cgroups.Freeze(n.Cgroup, frozen)
}

// Condition describes in what condition a node is, as the kernel sees it.
func (c *Cluster) Condition(n *state.Node) string {
	if n.State != state.Running {
		return string(n.State)
	}
	condition := "Running, cut off"
	if machine.LinkUp(n.ControlLink) {
		condition = "Running, connected"
	}
	if c.cgroups.Frozen(n.Cgroup) {
		condition += ", frozen"
	}
	return condition
}

// Connect connects a node to the control bridge, or cuts it off. The cable is
// pulled at the other end: the node keeps addresses and routes.
func (c *Cluster) Connect(node string, connected bool) error {
	n, _, err := c.runningNode(node)
	if err != nil {
		return err
	}
	return machine.SetLink(n.ControlLink, connected)
}

// KillNode takes the power from a node: every process is killed at once, its
// network and all in its memory is gone. Its disk and identity stay.
func (c *Cluster) KillNode(ctx context.Context, node string) error {
	return c.locked(func() error { return c.killNode(ctx, node) })
}

func (c *Cluster) killNode(ctx context.Context, node string) error {
	n, known, err := c.node(node)
	if err != nil || known.State == state.Killed {
		return err
	}
	if err := c.endNode(ctx, n); err != nil {
		return err
	}
	return c.update(func(*state.Cluster) {
		known.State, known.NamespacePID, known.Processes = state.Killed, 0, []state.Process{}
		known.NetworkNamespace, known.MountNamespace, known.Root = "", "", ""
	})
}

// Return describes with what a node comes back.
type Return int

// The ways in which a node comes back.
const (
	// SameBoot keeps everything, the boot ID too.
	SameBoot Return = iota
	// NewBoot is what a reboot or a power cut leaves: the disk.
	NewBoot
	// NewMachine is another machine under the same name: another machine ID, empty
	// disk.
	NewMachine
)

// StartNode starts a node that was killed, or kills it first, and returns when
// its kubelet has reported it Ready. wait false returns when it is started.
func (c *Cluster) StartNode(ctx context.Context, node string, with Return, wait bool) error {
	err := c.locked(func() error { return c.returnNode(ctx, node, with) })
	if err != nil || !wait {
		return err
	}
	n, _, err := c.node(node)
	if err != nil {
		return err
	}
	return c.awaitReady(ctx, n)
}

func (c *Cluster) returnNode(ctx context.Context, node string, with Return) error {
	n, _, err := c.node(node)
	if err != nil {
		return err
	}
	if with != SameBoot {
		if err := c.killNode(ctx, node); err != nil {
			return err
		}
		if err := c.newBootID(n); err != nil {
			return err
		}
	}
	if with == NewMachine {
		if err := os.RemoveAll(c.Folder.Node(n.Name).Disk()); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := c.startNode(ctx, n); err != nil {
		return err
	}
	fmt.Fprintf(c.Log, "%s: started, %.1f s\n", n.Name, time.Since(began).Seconds())
	return nil
}

// DeleteNode deletes the Node object.
func (c *Cluster) DeleteNode(ctx context.Context, node string) error {
	if _, _, err := c.node(node); err != nil {
		return err
	}
	_, err := c.kubectl(ctx, nil, "delete", "node", node, "--ignore-not-found")
	return err
}

// EnterNode is a command in a node's namespaces and cgroup: it ends when the node
// is killed.
func (c *Cluster) EnterNode(node string, command []string) ([]string, error) {
	n, known, err := c.runningNode(node)
	if err != nil {
		return nil, err
	}
	return c.cgroups.Join(n.ServicesCgroup(), machine.Enter(known.NamespacePID, command)), nil
}

// plannedNodes are all that a cluster can have: down looks for them in any
// state.
func plannedNodes() []plan.Node {
	nodes := make([]plan.Node, plan.MaxNodes)
	for i := range nodes {
		nodes[i] = plan.NodeAt(i)
	}
	return nodes
}
