// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/config"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/machine"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

// startNode starts what does not run of a node: its namespaces, network and
// services. It returns before the node is Ready.
func (c *Cluster) startNode(ctx context.Context, n plan.Node) error {
	known := c.stateOf(n)
	if p, _ := state.Find(known.Processes, config.Namespaces); !machine.Alive(p) {
		if err := c.bootNode(ctx, n); err != nil {
			return err
		}
	}
	for _, service := range config.Services() {
		p, _ := state.Find(c.stateOf(n).Processes, service)
		switch alive := machine.Alive(p); {
		case alive && service == config.Containerd: // an earlier up may have been interrupted
			if err := c.awaitContainerd(ctx, n, p); err != nil {
				return err
			}
			continue
		case alive:
			continue
		}
		if err := c.startService(ctx, n, service); err != nil {
			return err
		}
	}
	return nil
}

// bootNode makes the namespaces of a node that has none, and its cables.
func (c *Cluster) bootNode(ctx context.Context, n plan.Node) error {
	if err := c.endNode(ctx, n); err != nil { // what an interrupted start left
		return err
	}
	if err := c.makeDisk(n); err != nil {
		return fmt.Errorf("disk of %s: %w", n.Name, err)
	}
	if err := c.makeKernelFiles(n); err != nil {
		return fmt.Errorf("kernel files of %s: %w", n.Name, err)
	}
	for _, dir := range []string{"lock", "netns"} {
		if err := os.MkdirAll(filepath.Join(c.Folder.Node(n.Name).Run(), dir), 0o755); err != nil {
			return err
		}
	}
	for _, group := range []string{n.ServicesCgroup(), n.PodsCgroup()} {
		if err := c.cgroups.Create(group); err != nil {
			return err
		}
	}
	holder, err := c.startNamespaces(ctx, n)
	if err != nil {
		return err
	}
	if err := c.plug(n, holder.PID); err != nil {
		return err
	}
	return c.update(func(s *state.Cluster) { c.describe(s, n, holder) })
}

// startNamespaces starts the process that holds them, and returns when it is a
// machine.
func (c *Cluster) startNamespaces(ctx context.Context, n plan.Node) (state.Process, error) {
	folder := c.Folder.Node(n.Name)
	spec, err := json.MarshalIndent(c.machineOf(n), "", "  ")
	if err != nil {
		return state.Process{}, err
	}
	specFile, readyFile := filepath.Join(string(folder), "machine.json"), filepath.Join(string(folder), "ready")
	if err := writeFile(specFile, spec); err != nil {
		return state.Process{}, err
	}
	if err := os.RemoveAll(readyFile); err != nil {
		return state.Process{}, err
	}
	program, err := os.Executable()
	if err != nil {
		return state.Process{}, err
	}
	p, err := c.cgroups.Start(machine.Program{
		Name:          config.Namespaces,
		Command:       []string{program, "machine", "--spec", specFile, "--ready", readyFile},
		Log:           c.Folder.Log(n.Name, config.Namespaces),
		Cgroup:        n.ServicesCgroup(),
		NewNamespaces: true,
		Dir:           "/",
	})
	if err != nil {
		return p, err
	}
	err = awaitProcess(ctx, endTimeout, p, func(context.Context) error {
		_, err := os.Stat(readyFile)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("%s did not become a machine: %w", n.Name, err)
	}
	return p, nil
}

func (c *Cluster) machineOf(n plan.Node) machine.Machine {
	folder := c.Folder.Node(n.Name)
	m := machine.Machine{
		Hostname: n.Name, Etc: folder.Etc(), EtcWork: folder.EtcWork(),
		Binds: []machine.Bind{
			{Source: folder.Opt(), Target: "/opt"},
			{Source: c.state.KubeDirectory, Target: config.KubeDirectory},
			{Source: folder.Var(), Target: "/var"},
			{Source: folder.Run(), Target: "/run"},
			{Source: folder.BootID(), Target: "/proc/sys/" + bootIDSysctl},
		},
		Sysctls: map[string]string{"ipv4/ip_forward": "1"},
	}
	if directory := c.state.ContainerdDirectory; directory != "" {
		m.Binds = append(m.Binds, machine.Bind{Source: directory, Target: config.RuntimeDirectory})
	}
	if _, err := os.Stat(firmwareUUID); err == nil {
		m.Binds = append(m.Binds, machine.Bind{Source: folder.SystemUUID(), Target: firmwareUUID})
	}
	for name := range sysctls {
		m.Binds = append(m.Binds, machine.Bind{Source: filepath.Join(folder.Kernel(), name), Target: "/proc/sys/" + name})
	}
	return m
}

// plug gives a node its cables and routes.
func (c *Cluster) plug(n plan.Node, pid int) error {
	for _, cable := range []machine.Cable{
		{
			Bridge: plan.ControlBridge, HostEnd: n.ControlLink, NodeEnd: plan.ControlInterface, MAC: n.ControlMAC,
			Address: netip.PrefixFrom(n.Address, plan.ControlNetwork.Bits()), Alias: c.alias(),
		},
		{Bridge: plan.DataBridge, HostEnd: n.DataLink, NodeEnd: plan.DataInterface, MAC: n.DataMAC, Alias: c.alias()},
	} {
		if err := machine.Plug(pid, cable); err != nil {
			return err
		}
	}
	if err := machine.Route(pid, netip.MustParsePrefix("0.0.0.0/0"), plan.HostAddress); err != nil {
		return err
	}
	for i := range plan.MaxNodes {
		if peer := plan.NodeAt(i); peer.Name != n.Name {
			if err := machine.Route(pid, peer.PodNetwork, peer.Address); err != nil {
				return err
			}
		}
	}
	return machine.Route(0, n.PodNetwork, n.Address) // the API server calls webhooks at their pods
}

// describe writes down a node whose namespaces have just been made.
func (c *Cluster) describe(s *state.Cluster, n plan.Node, holder state.Process) {
	folder := c.Folder.Node(n.Name)
	machineID, _ := readID(folder.MachineID()) // both were written a moment ago
	bootID, _ := readID(folder.BootID())
	described := &state.Node{
		Name: n.Name, State: state.Running, IP: n.Address.String(), PodCIDR: n.PodNetwork.String(),
		NamespacePID:     holder.PID,
		NetworkNamespace: fmt.Sprintf("/proc/%d/ns/net", holder.PID),
		MountNamespace:   fmt.Sprintf("/proc/%d/ns/mnt", holder.PID),
		Root:             fmt.Sprintf("/proc/%d/root", holder.PID),
		ContainerdSocket: c.containerdSocket(n.Name, c.options()),
		ControlLink:      n.ControlLink, DataLink: n.DataLink, DataInterface: plan.DataInterface,
		MachineID: machineID, BootID: bootID,
		Cgroup: n.Cgroup, Processes: []state.Process{holder},
	}
	i := slices.IndexFunc(s.Nodes, func(o *state.Node) bool { return o.Name == n.Name })
	s.Nodes[i] = described
}

func (c *Cluster) stateOf(n plan.Node) state.Node {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, known := range c.state.Nodes {
		if known.Name == n.Name {
			return *known
		}
	}
	return state.Node{}
}

// endNode kills all processes of a node at once, and waits until its network and
// cgroups are gone.
func (c *Cluster) endNode(ctx context.Context, n plan.Node) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTimeout, fmt.Errorf("gave up after %s", endTimeout))
	defer cancel()
	if err := c.cgroups.Kill(ctx, n.Cgroup); err != nil {
		return err
	}
	// A network namespace ends a moment after its last process; the cables with it.
	for _, link := range []string{n.ControlLink, n.DataLink} {
		if err := machine.RemoveLink(link); err != nil {
			return err
		}
	}
	if err := c.cgroups.Remove(ctx, n.Cgroup); err != nil {
		return err
	}
	return os.RemoveAll(c.Folder.Node(n.Name).Run())
}

// MarkReady writes the file by which a machine says that it is one.
func MarkReady(folder *os.Root, name string) error {
	if err := folder.WriteFile(name, nil, 0o644); err != nil {
		return err
	}
	return folder.Close()
}
