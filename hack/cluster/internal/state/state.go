// SPDX-License-Identifier: Apache-2.0

// Package state is the file state.json: what a running cluster consists of, for
// the other commands and for tests. README.md describes the fields for readers
// of the file; a change of their meaning raises Version.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Version of the format.
const Version = 1

// Phase is how far a cluster is.
type Phase string

// The phases.
const (
	Starting Phase = "Starting"
	Up       Phase = "Up"
)

// NodeState describes what was last done to a node.
type NodeState string

// The states of a node.
const (
	// Planned nodes were never started.
	Planned NodeState = "Planned"
	Running NodeState = "Running"
	// Killed nodes have no process, no network and no namespaces.
	Killed NodeState = "Killed"
)

// Cluster is the whole file.
type Cluster struct {
	Version int   `json:"version"`
	Phase   Phase `json:"phase"`
	// Directory is the cluster's folder; Kubeconfig the administrator's file.
	Directory  string `json:"directory"`
	Kubeconfig string `json:"kubeconfig"`
	// KubeDirectory holds the Kubernetes binaries that run.
	KubeDirectory string `json:"kubeDirectory"`
	// CNIDirectory holds Multus, whereabouts and their CRDs.
	CNIDirectory string `json:"cniDirectory"`
	// ContainerdDirectory holds containerd and ctr; empty for those in PATH.
	ContainerdDirectory string `json:"containerdDirectory,omitempty"`
	// Platform is k3s, or empty.
	Platform    string `json:"platform,omitempty"`
	APIServer   string `json:"apiServer"`
	PodCIDR     string `json:"podCIDR"`
	ServiceCIDR string `json:"serviceCIDR"`
	// Bridges are in the host's network namespace.
	Bridges      Bridges   `json:"bridges"`
	ControlPlane []Process `json:"controlPlane"`
	Nodes        []*Node   `json:"nodes"`
	// Arguments are the further flags that components were started with.
	Arguments map[string]map[string]string `json:"arguments,omitempty"`
	// Images are the archives that every node gets.
	Images []string `json:"images,omitempty"`
}

// Bridges are the names of the two segments.
type Bridges struct {
	Control string `json:"control"`
	Data    string `json:"data"`
}

// Node is one machine.
type Node struct {
	Name    string    `json:"name"`
	State   NodeState `json:"state"`
	IP      string    `json:"ip"`
	PodCIDR string    `json:"podCIDR"`
	// NamespacePID is the process that holds the node's network, mount and UTS
	// namespaces; 0 while the node is killed. The paths below are made of it.
	NamespacePID     int    `json:"namespacePID"`
	NetworkNamespace string `json:"networkNamespace"`
	MountNamespace   string `json:"mountNamespace"`
	// Root is the node's file system, seen from the host.
	Root string `json:"root"`
	// ContainerdSocket is a path on the host.
	ContainerdSocket string `json:"containerdSocket"`
	// ControlLink and DataLink are the ends on the host of the node's cables;
	// DataInterface is the name of the other end, in the node.
	ControlLink   string `json:"controlLink"`
	DataLink      string `json:"dataLink"`
	DataInterface string `json:"dataInterface"`
	MachineID     string `json:"machineID"`
	BootID        string `json:"bootID"`
	// ReadyAfter is when its kubelet was last started: an older report of its
	// readiness is that of a kubelet that is gone.
	ReadyAfter time.Time `json:"readyAfter"`
	// Cgroup is the path in each hierarchy.
	Cgroup    string    `json:"cgroup"`
	Processes []Process `json:"processes"`
}

// Process is one that was started.
type Process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Started distinguishes processes of the same ID: the boot's ID and the clock
	// ticks from then to the start.
	Started string `json:"started"`
	Log     string `json:"log"`
}

// Find returns the process of that name.
func Find(processes []Process, name string) (Process, bool) {
	for _, p := range processes {
		if p.Name == name {
			return p, true
		}
	}
	return Process{}, false
}

// Put returns the processes with this one instead of the one of the same name.
func Put(processes []Process, p Process) []Process {
	for i := range processes {
		if processes[i].Name == p.Name {
			processes[i] = p
			return processes
		}
	}
	return append(processes, p)
}

// Node returns the node of that name, or an error that lists those there are.
func (c *Cluster) Node(name string) (*Node, error) {
	var names []string
	for _, n := range c.Nodes {
		if n.Name == name {
			return n, nil
		}
		names = append(names, n.Name)
	}
	return nil, fmt.Errorf("no node is named %q: there are %q", name, names)
}

// Read returns nil when there is no file: no cluster was started there.
func Read(path string) (*Cluster, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state of the cluster: %w", err)
	}
	c := &Cluster{}
	if err := json.Unmarshal(content, c); err != nil {
		return nil, fmt.Errorf("state of the cluster in %s: %w; run make cluster-down", path, err)
	}
	if c.Version != Version {
		return nil, fmt.Errorf("state of the cluster in %s has version %d, expected %d: it was started by another version of this program; run make cluster-down",
			path, c.Version, Version)
	}
	return c, nil
}

// Write replaces the file as a whole, so that a reader never sees half of it.
func (c *Cluster) Write(path string) error {
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("state of the cluster: %w", err)
	}
	if err := os.WriteFile(path+".new", append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("state of the cluster: %w", err)
	}
	return os.Rename(path+".new", path)
}
