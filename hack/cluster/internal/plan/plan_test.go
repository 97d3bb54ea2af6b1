// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func all(t *testing.T) []Node {
	t.Helper()
	nodes, err := Nodes(MaxNodes)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func TestFirstNode(t *testing.T) {
	got := all(t)[0]
	if diff := cmp.Diff([]string{
		"node-a", "172.31.240.11", "10.244.1.0/24", "hf-ctl-a", "hf-data-a",
		"02:68:66:00:01:0b", "02:68:66:00:02:0b", "/hf-cluster/node-a/services", "/hf-cluster/node-a/pods",
	}, []string{
		got.Name, got.Address.String(), got.PodNetwork.String(), got.ControlLink, got.DataLink,
		got.ControlMAC.String(), got.DataMAC.String(), got.ServicesCgroup(), got.PodsCgroup(),
	}); diff != "" {
		t.Errorf("node-a (-want +got):\n%s", diff)
	}
}

func TestNodesShareNothing(t *testing.T) {
	seen := map[string]string{HostAddress.String(): "the host", ControlBridge: "the host", DataBridge: "the host"}
	for _, n := range all(t) {
		for _, value := range []string{
			n.Name, n.Address.String(), n.PodNetwork.String(), n.ControlLink, n.DataLink,
			n.ControlMAC.String(), n.DataMAC.String(), n.Cgroup,
		} {
			if owner, found := seen[value]; found {
				t.Errorf("%s of %s is that of %s too", value, n.Name, owner)
			}
			seen[value] = n.Name
		}
	}
}

func TestAddressesAreOfTheirNetworks(t *testing.T) {
	if !ControlNetwork.Contains(HostAddress) || !ServiceNetwork.Contains(ServiceAddress) {
		t.Errorf("the host's %s is to be in %s, the API server's %s in %s", HostAddress, ControlNetwork, ServiceAddress, ServiceNetwork)
	}
	for _, n := range all(t) {
		if !ControlNetwork.Contains(n.Address) || !PodNetwork.Contains(n.PodNetwork.Addr()) {
			t.Errorf("%s: %s is to be in %s, %s in %s", n.Name, n.Address, ControlNetwork, n.PodNetwork, PodNetwork)
		}
	}
	networks := []netip.Prefix{ControlNetwork, PodNetwork, ServiceNetwork}
	for i := range networks {
		for j := range i {
			if networks[i].Overlaps(networks[j]) {
				t.Errorf("%s and %s overlap", networks[i], networks[j])
			}
		}
	}
}

func TestNamesOnTheHost(t *testing.T) {
	const longest = 15 // IFNAMSIZ - 1
	for _, n := range all(t) {
		for _, link := range []string{n.ControlLink, n.DataLink} {
			if !strings.HasPrefix(link, Prefix) || len(link) > longest {
				t.Errorf("link %q is to begin with %q and to have at most %d characters", link, Prefix, longest)
			}
		}
		if !strings.HasPrefix(n.Cgroup, CgroupRoot+"/") {
			t.Errorf("cgroup %q is not below %q: a cluster would not find it when it is taken down", n.Cgroup, CgroupRoot)
		}
	}
	if !strings.HasPrefix(ControlPlaneCgroup, CgroupRoot+"/") {
		t.Errorf("cgroup %q is not below %q", ControlPlaneCgroup, CgroupRoot)
	}
}

func TestNumberOfNodes(t *testing.T) {
	for what, test := range map[string]struct {
		count int
		valid bool
	}{
		"none is no cluster":                {0, false},
		"one is the smallest":               {1, true},
		"as many as there are letters for":  {MaxNodes, true},
		"more have no names":                {MaxNodes + 1, false},
		"a negative number is not a number": {-1, false},
	} {
		t.Run(what, func(t *testing.T) {
			nodes, err := Nodes(test.count)
			if (err == nil) != test.valid || test.valid && len(nodes) != test.count {
				t.Errorf("Nodes(%d) are %d, %v", test.count, len(nodes), err)
			}
		})
	}
}

func TestMoreNodesLeaveTheOthers(t *testing.T) {
	two, err := Nodes(2)
	if err != nil {
		t.Fatal(err)
	}
	addresses := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	prefixes := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(two, all(t)[:2], addresses, prefixes); diff != "" {
		t.Errorf("the first two of eight (-two +eight):\n%s", diff)
	}
}

func TestFolders(t *testing.T) {
	folder := Folder("/x/cluster")
	node := folder.Node("node-a")
	disk := node.Disk() + "/"
	for what, path := range map[string]string{
		"files of /etc": node.Etc(), "machine ID": node.MachineID(), "/var": node.Var(), "/opt": node.Opt(), "overlay": node.EtcWork(), "system UUID": node.SystemUUID(),
	} {
		if !strings.HasPrefix(path, disk) {
			t.Errorf("%s in %s: not below %s, so a replaced node would keep it", what, path, disk)
		}
	}
	for what, path := range map[string]string{"/run": node.Run(), "boot ID": node.BootID()} {
		if strings.HasPrefix(path, disk) || !strings.HasPrefix(path, string(node)+"/") {
			t.Errorf("%s in %s: it is to be the node's and not on its disk", what, path)
		}
	}
	if folder.Log("", "etcd") == folder.Log("node-a", "etcd") {
		t.Error("the logs of the control plane and of a node are one")
	}
}
