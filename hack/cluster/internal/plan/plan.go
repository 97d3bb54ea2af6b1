// SPDX-License-Identifier: Apache-2.0

// Package plan says which names, addresses and paths a cluster has. It is pure:
// the same number of nodes and the same folder give the same plan, so that every
// command finds what another one made.
package plan

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
)

// The names on the host. Everything that a cluster makes outside of its folder
// begins with Prefix.
const (
	Prefix        = "hf-"
	ControlBridge = Prefix + "ctl"
	DataBridge    = Prefix + "data"
	// CgroupRoot is the path of the cluster's cgroup in every hierarchy.
	CgroupRoot = "/" + Prefix + "cluster"
)

// The interfaces of a node, by the names that they have inside it.
const (
	ControlInterface = "eth0"
	// DataInterface is the master of the pods' macvlan interfaces.
	DataInterface = "data0"
)

// MaxNodes is how many nodes a cluster can have: one letter each.
const MaxNodes = 8

// The networks. They are those that no test on loopback and few hosts use.
var (
	ControlNetwork = netip.MustParsePrefix("172.31.240.0/24")
	PodNetwork     = netip.MustParsePrefix("10.244.0.0/16")
	ServiceNetwork = netip.MustParsePrefix("10.96.0.0/16")
	// HostAddress is that of the host on the control bridge; the control plane
	// listens there.
	HostAddress = netip.MustParseAddr("172.31.240.1")
	// ServiceAddress is that of the Service "kubernetes".
	ServiceAddress = netip.MustParseAddr("10.96.0.1")
)

// The ports of the control plane on HostAddress.
const (
	APIServerPort         = 6443
	EtcdPort              = 2379
	EtcdPeerPort          = 2380
	ControllerManagerPort = 10257
	SchedulerPort         = 10259
)

// APIServerURL is where everybody reaches the API server.
func APIServerURL() string { return fmt.Sprintf("https://%s:%d", HostAddress, APIServerPort) }

// Node is the plan of one node.
type Node struct {
	Name string
	// Address is the node's InternalIP, on the control bridge.
	Address netip.Addr
	// PodNetwork are the addresses of the pods' first interfaces.
	PodNetwork netip.Prefix
	// ControlLink and DataLink are the host's ends of the node's two cables.
	ControlLink, DataLink string
	// ControlMAC and DataMAC are the node's ends. They stay the same when a node
	// comes back, so that no neighbor sends to the address of a deleted link.
	ControlMAC, DataMAC net.HardwareAddr
	// Cgroup is the path in every hierarchy, below it Services and Pods.
	Cgroup string
}

// ServicesCgroup holds the node's own processes and, where the container runtime
// does not move them, those of its pods.
func (n Node) ServicesCgroup() string { return n.Cgroup + "/services" }

// PodsCgroup is the kubelet's cgroupRoot.
func (n Node) PodsCgroup() string { return n.Cgroup + "/pods" }

// ControlPlaneCgroup holds the control plane's processes.
const ControlPlaneCgroup = CgroupRoot + "/control-plane"

// Nodes plans count nodes: node-a, node-b and so on.
func Nodes(count int) ([]Node, error) {
	if count < 1 || count > MaxNodes {
		return nil, fmt.Errorf("a cluster of %d nodes: expected 1 to %d", count, MaxNodes)
	}
	nodes := make([]Node, count)
	for i := range nodes {
		nodes[i] = NodeAt(i)
	}
	return nodes, nil
}

const (
	firstNodeHost = 11 // last byte of the first node's address
	firstPodNet   = 1  // third byte of the first node's pod network
)

// NodeAt plans the node with this index, from 0.
func NodeAt(i int) Node {
	letter := string(rune('a' + i))
	address := ControlNetwork.Addr().As4()
	address[3] = byte(firstNodeHost + i)
	pods := PodNetwork.Addr().As4()
	pods[2] = byte(firstPodNet + i)
	name := "node-" + letter
	return Node{
		Name:        name,
		Address:     netip.AddrFrom4(address),
		PodNetwork:  netip.PrefixFrom(netip.AddrFrom4(pods), 24),
		ControlLink: ControlBridge + "-" + letter,
		DataLink:    DataBridge + "-" + letter,
		ControlMAC:  mac(1, i),
		DataMAC:     mac(2, i),
		Cgroup:      CgroupRoot + "/" + name,
	}
}

// mac is a locally administered address, the second and third byte "hf".
func mac(network, i int) net.HardwareAddr {
	return net.HardwareAddr{0x02, 'h', 'f', 0, byte(network), byte(firstNodeHost + i)}
}

// Folder is that of a cluster, an absolute path. Everything that a cluster
// writes is below it.
type Folder string

// Path joins elements to the folder.
func (f Folder) Path(elements ...string) string {
	return filepath.Join(append([]string{string(f)}, elements...)...)
}

// StateFile describes the running cluster.
func (f Folder) StateFile() string { return f.Path("state.json") }

// Kubeconfig is the administrator's.
func (f Folder) Kubeconfig() string { return f.Path("kubeconfig") }

// Certificate and Key are PEM files of the control plane.
func (f Folder) Certificate(name string) string { return f.Path("pki", name+".crt") }

// Key is the private key of a Certificate.
func (f Folder) Key(name string) string { return f.Path("pki", name+".key") }

// Log of a process; node is empty for the control plane.
func (f Folder) Log(node, process string) string {
	if node == "" {
		node = "control-plane"
	}
	return f.Path("log", node, process+".log")
}

// Node is a node's part of the folder.
func (f Folder) Node(name string) NodeFolder { return NodeFolder(f.Path("nodes", name)) }

// NodeFolder holds what a real machine has on its disks and in its memory.
type NodeFolder string

// Disk survives a reboot and not a replacement.
func (f NodeFolder) Disk() string { return filepath.Join(string(f), "disk") }

// Etc is the part of /etc that differs from the host's.
func (f NodeFolder) Etc() string { return filepath.Join(f.Disk(), "etc") }

// EtcWork is overlayfs's working folder for Etc.
func (f NodeFolder) EtcWork() string { return filepath.Join(f.Disk(), ".etc-work") }

// Opt is the node's /opt.
func (f NodeFolder) Opt() string { return filepath.Join(f.Disk(), "opt") }

// Var is the node's /var.
func (f NodeFolder) Var() string { return filepath.Join(f.Disk(), "var") }

// Run is the node's /run; it does not survive a reboot.
func (f NodeFolder) Run() string { return filepath.Join(string(f), "run") }

// Kernel holds the files that are bound over some of /proc/sys.
func (f NodeFolder) Kernel() string { return filepath.Join(string(f), "kernel") }

// BootID is bound over /proc/sys/kernel/random/boot_id.
func (f NodeFolder) BootID() string { return filepath.Join(f.Kernel(), "kernel/random/boot_id") }

// MachineID is the node's /etc/machine-id.
func (f NodeFolder) MachineID() string { return filepath.Join(f.Etc(), "machine-id") }

// SystemUUID is bound over what the host's firmware says of itself.
func (f NodeFolder) SystemUUID() string { return filepath.Join(f.Disk(), "system-uuid") }
