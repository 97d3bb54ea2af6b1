// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/config"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/pki"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
)

// debianCNI is where the package containernetworking-plugins puts the plugins.
const debianCNI = "/usr/lib/cni"

// plugins are those of Debian's that a node gets.
var plugins = []string{"bandwidth", "bridge", "host-local", "ipvlan", "loopback", "macvlan", "portmap", "ptp", "static", "tuning", "vlan"}

// ownPlugins are those of bin/cni. The whereabouts plugin is not among them: its
// DaemonSet installs it.
var ownPlugins = []string{"multus"}

// sysctls are those that a kubelet sets for the whole machine. A node sees files
// with its values in their place, so that the machine keeps its own: kubelet
// (pkg/kubelet/cm, setupKernelTunables) would make it reboot after a panic and
// panic after an oops.
var sysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

const (
	bootIDSysctl = "kernel/random/boot_id"
	// randomUUID has another version 4 UUID at each read, see random(4).
	randomUUID = "/proc/sys/kernel/random/uuid"
)

// firmwareUUID is where a kubelet looks for the system UUID first. Hosts without
// DMI do not have it; there the machine ID is the system UUID.
const firmwareUUID = "/sys/class/dmi/id/product_uuid"

// makeDisk gives a node a fresh disk and another machine ID. It is there as a
// whole or not at all.
func (c *Cluster) makeDisk(n plan.Node) error {
	folder := c.Folder.Node(n.Name)
	if _, err := os.Stat(folder.MachineID()); err == nil {
		return nil
	}
	if err := os.RemoveAll(folder.Disk()); err != nil {
		return err
	}
	for _, dir := range []string{
		folder.EtcWork(), filepath.Join(folder.Opt(), "kube"), filepath.Join(folder.Opt(), "runtime"), filepath.Join(folder.Opt(), "cni/bin"),
		filepath.Join(folder.Etc(), "cni/net.d"),
		filepath.Join(folder.Var(), "lib/kubelet"), filepath.Join(folder.Var(), "lib/containerd"),
		filepath.Join(folder.Var(), "lib/cni"), filepath.Join(folder.Var(), "log/pods"), filepath.Join(folder.Var(), "cache"),
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(folder.Var(), "tmp"), 0o1777); err != nil {
		return err
	}
	if err := os.Symlink("/run", filepath.Join(folder.Var(), "run")); err != nil {
		return err
	}
	if err := c.installPlugins(n); err != nil {
		return err
	}
	if err := c.writeNodeFiles(n); err != nil {
		return err
	}
	id, err := readID(randomUUID)
	if err != nil {
		return err
	}
	if err := os.WriteFile(folder.SystemUUID(), []byte(id+"\n"), 0o444); err != nil {
		return err
	}
	return os.WriteFile(folder.MachineID(), []byte(strings.ReplaceAll(id, "-", "")+"\n"), 0o444)
}

func (c *Cluster) writeNodeFiles(n plan.Node) error {
	authority, err := c.authority()
	if err != nil {
		return err
	}
	id := config.Identity{Authority: authority.Certificate}
	for _, user := range []struct {
		kubeconfig *[]byte
		subject    pki.Subject
	}{
		{&id.Kubelet, pki.Subject{Name: "system:node:" + n.Name, Groups: []string{"system:nodes"}}},
		{&id.KubeProxy, pki.Subject{Name: "system:kube-proxy"}},
		{&id.Multus, pki.Subject{Name: multusUser}},
	} {
		if *user.kubeconfig, err = kubeconfigOf(authority, user.subject); err != nil {
			return err
		}
	}
	files, err := config.NodeFiles(n, id, c.options())
	if err != nil {
		return err
	}
	for path, content := range files {
		inside := strings.TrimPrefix(path, "/etc/")
		if err := writeFile(filepath.Join(c.Folder.Node(n.Name).Etc(), inside), content); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) installPlugins(n plan.Node) error {
	target := filepath.Join(c.Folder.Node(n.Name).Opt(), "cni/bin")
	sources := map[string]string{}
	for _, name := range plugins {
		sources[name] = filepath.Join(debianCNI, name)
	}
	for _, name := range ownPlugins {
		sources[name] = filepath.Join(c.state.CNIDirectory, name)
	}
	for name, source := range sources {
		content, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("CNI plugin %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(target, name), content, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// makeKernelFiles writes what is bound over /proc/sys, with the boot ID that
// there is or a new one.
func (c *Cluster) makeKernelFiles(n plan.Node) error {
	folder := c.Folder.Node(n.Name)
	for name, value := range sysctls {
		if err := writeFile(filepath.Join(folder.Kernel(), name), []byte(value+"\n")); err != nil {
			return err
		}
	}
	_, err := os.Stat(folder.BootID())
	if errors.Is(err, fs.ErrNotExist) {
		return c.newBootID(n)
	}
	return err
}

func (c *Cluster) newBootID(n plan.Node) error {
	id, err := readID(randomUUID)
	if err != nil {
		return err
	}
	return writeFile(c.Folder.Node(n.Name).BootID(), []byte(id+"\n"))
}

// readID reads a machine, boot or random ID.
func readID(path string) (string, error) {
	content, err := os.ReadFile(path)
	return strings.TrimSpace(string(content)), err
}
