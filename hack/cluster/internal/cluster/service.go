// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/config"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/machine"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

// nodePath is the PATH of a node's services: kubelet and kube-proxy call mount,
// nft and others of the host's, containerd its shim.
const nodePath = "PATH=" + config.RuntimeDirectory + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// startService starts a service of a node whose namespaces there are. It waits
// for containerd, which kubelet needs.
func (c *Cluster) startService(ctx context.Context, n plan.Node, service string) error {
	command, err := config.ServiceCommand(service, n, c.options())
	if err != nil {
		return err
	}
	began := time.Now()
	p, err := c.cgroups.Start(machine.Program{
		Name: service, Command: command, Log: c.Folder.Log(n.Name, service),
		Cgroup: n.ServicesCgroup(), Namespaces: c.stateOf(n).NamespacePID,
		Env: []string{nodePath}, Dir: "/",
	})
	if err != nil {
		return err
	}
	err = c.update(func(s *state.Cluster) {
		for _, known := range s.Nodes {
			if known.Name == n.Name {
				known.Processes = state.Put(known.Processes, p)
				if service == config.Kubelet {
					known.ReadyAfter = began
				}
			}
		}
	})
	if err != nil || service != config.Containerd {
		return err
	}
	return c.awaitContainerd(ctx, n, p)
}

// awaitContainerd waits until it responds, and gives it the images that are new.
func (c *Cluster) awaitContainerd(ctx context.Context, n plan.Node, p state.Process) error {
	err := awaitProcess(ctx, startTimeout, p, func(ctx context.Context) error {
		_, err := c.ctr(ctx, n, "version")
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", n.Name, err)
	}
	return c.importImages(ctx, n)
}

// service finds one of a node.
func (c *Cluster) service(node, service string) (plan.Node, state.Process, error) {
	n, known, err := c.runningNode(node)
	if err != nil {
		return n, state.Process{}, err
	}
	p, found := state.Find(known.Processes, service)
	if !found {
		return n, p, fmt.Errorf("%s of %s was never started: run holdfast-cluster up", service, node)
	}
	return n, p, nil
}

// StopService stops a service of a node; what it manages lives on.
func (c *Cluster) StopService(ctx context.Context, node, service string) error {
	_, p, err := c.service(node, service)
	if err != nil {
		return err
	}
	return machine.Stop(ctx, p)
}

// StartService starts it again.
func (c *Cluster) StartService(ctx context.Context, node, service string) error {
	return c.locked(func() error {
		n, p, err := c.service(node, service)
		if err != nil || machine.Alive(p) {
			return err
		}
		return c.startService(ctx, n, service)
	})
}

// SignalKubelet freezes (SIGSTOP) or thaws (SIGCONT) a node's kubelet.
func (c *Cluster) SignalKubelet(node string, signal syscall.Signal) error {
	_, p, err := c.service(node, config.Kubelet)
	if err != nil {
		return err
	}
	return machine.Signal(p, signal)
}
