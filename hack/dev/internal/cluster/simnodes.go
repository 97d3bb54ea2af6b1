// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	simnodeclient "github.com/holdfast-dev/holdfast/hack/dev/simnode/client"
)

// maxSocketPath is what fits into a socket's address on every system (unix(7)
// has 108 bytes, BSD 104).
const maxSocketPath = 100

// startSimNodes starts the nodes and waits until all are Ready that can be.
func (c *Cluster) startSimNodes(ctx context.Context) error {
	if err := c.chooseSocket(); err != nil {
		return err
	}
	c.machines = simnodeclient.New(c.socket)
	if err := c.runSimNodes(); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) error {
		nodes, err := c.machines.Nodes(ctx)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(nodes, func(n api.Node) bool { return !n.Ready && !n.CNS }); i >= 0 {
			return fmt.Errorf("node %s is not Ready", nodes[i].Name)
		}
		return nil
	})
}

// chooseSocket takes the cluster's folder, or a temporary one where the path
// would be too long for a socket.
func (c *Cluster) chooseSocket() error {
	c.socket = c.path("simnode.sock")
	if len(c.socket) <= maxSocketPath {
		return nil
	}
	dir, err := os.MkdirTemp("", "holdfast-dev-")
	if err != nil {
		return err
	}
	c.socket = filepath.Join(dir, "simnode.sock")
	c.onStop(func() error { return os.RemoveAll(dir) })
	return nil
}

// runSimNodes runs the nodes in this process.
func (c *Cluster) runSimNodes() error {
	o := c.options.SimNode
	o.Config, o.Nodes, o.Socket, o.StateDir = c.Config(), c.options.Nodes, c.socket, c.path("simnode")
	o.Config.QPS = -1 // many machines in one process: the client's own limit is for one program
	o.CNSNodes, o.Manager, o.Agent = c.options.CNSNodes, c.managerProgram(), c.agentProgram()
	logFile, err := os.Create(c.path("logs", "simnode.log"))
	if err != nil {
		return err
	}
	o.Log = slog.New(slog.NewTextHandler(logFile, nil))
	fleet, err := simnode.New(o)
	if err != nil {
		return errors.Join(err, logFile.Close())
	}
	// Not the context of the start: the nodes outlive it.
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(ctx) }()
	c.onStop(func() error {
		cancel()
		c.machines.Close()
		return errors.Join(<-ended, logFile.Close())
	})
	return nil
}
