// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/hack/dev/standin"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
	standinclient "github.com/holdfast-dev/holdfast/hack/dev/standin/client"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// maxSocketPath is what fits into a socket's address on every system (unix(7)
// has 108 bytes, BSD 104).
const maxSocketPath = 100

// startStandIns starts the nodes, as a child or in this process, and waits until
// all are Ready that can be.
func (c *Cluster) startStandIns(ctx context.Context) error {
	if err := c.chooseSocket(); err != nil {
		return err
	}
	c.machines = standinclient.New(c.socket)
	start := c.runStandIns
	if c.options.Program != "" {
		start = c.startStandInProcess
	}
	if err := start(); err != nil {
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
	c.socket = c.path("standin.sock")
	if len(c.socket) <= maxSocketPath {
		return nil
	}
	dir, err := os.MkdirTemp("", "holdfast-dev-")
	if err != nil {
		return err
	}
	c.socket = filepath.Join(dir, "standin.sock")
	c.onStop(func() error { return os.RemoveAll(dir) })
	return nil
}

// runStandIns runs the nodes in this process.
func (c *Cluster) runStandIns() error {
	o := c.options.StandIn
	o.Config, o.Nodes, o.Socket, o.StateDir = c.Config(), c.options.Nodes, c.socket, c.path("standin")
	o.CNSNodes, o.Manager, o.Agent = c.options.CNSNodes, c.managerProgram(), c.agentProgram()
	fleet, err := standin.New(o)
	if err != nil {
		return err
	}
	// Not the context of the start: the nodes outlive it.
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(ctx) }()
	c.onStop(func() error {
		cancel()
		c.machines.Close()
		return <-ended
	})
	return nil
}

// startStandInProcess runs the nodes as a child.
func (c *Cluster) startStandInProcess() error {
	o := c.options.StandIn
	args := []string{"standin", "--kubeconfig", c.Kubeconfig(), "--socket", c.socket, "--state-dir", c.path("standin"), "--manager", c.managerProgram(), "--agent", c.agentProgram()}
	for _, node := range c.options.Nodes {
		args = append(args, "--node", node)
	}
	for _, node := range c.options.CNSNodes {
		args = append(args, "--cns-node", node)
	}
	for flag, value := range map[string]time.Duration{
		"--heartbeat": o.Heartbeat, "--max-grace": o.MaxGrace, "--retry": o.Retry,
		"--cni-add-timeout": o.AddTimeout, "--cni-del-timeout": o.DelTimeout,
	} {
		if value != 0 {
			args = append(args, flag, value.String())
		}
	}
	p, err := process.Start(process.Options{
		Name: "standin", Path: c.options.Program, Args: args, LogFile: c.path("logs", "standin.log"),
	})
	if err != nil {
		return err
	}
	c.options.Started(Child{p.Name(), p.PID()})
	c.onStop(func() error {
		c.machines.Close()
		return p.Stop(0)
	})
	return nil
}
