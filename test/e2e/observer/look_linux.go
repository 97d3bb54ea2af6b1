// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Node is a node of the cluster that is watched.
type Node struct {
	Name string
	// PID is a process in the node's mount namespace: the sandboxes' network namespaces are mounted only there.
	PID int
}

// namespaces is the folder of the sandboxes' network namespaces; CNI runtimes name them cni-<UUID>.
const (
	namespaces = "run/netns"
	prefix     = "cni-"
)

// podsCgroup is in the path of every cgroup that a kubelet makes for a pod.
const podsCgroup = "kubepods"

// look sees everything that every node's sandboxes have at this moment, but for loopback and link-local addresses. What it
// could not see is named in the errors; a namespace that disappears meanwhile has nothing.
func look(nodes []Node) (seen []Observation, failures []error) {
	owners, err := owners()
	if err != nil {
		failures = append(failures, err)
	}
	for _, node := range nodes {
		folder := filepath.Join("/proc", strconv.Itoa(node.PID), "root", namespaces)
		entries, err := os.ReadDir(folder)
		if errors.Is(err, fs.ErrNotExist) {
			// Without the process the node is off; without the folder it never had a sandbox.
			continue
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("reading the sandboxes of node %s: %w", node.Name, err))
			continue
		}
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), prefix) {
				continue
			}
			place := Place{Node: node.Name, Sandbox: entry.Name()}
			has, err := lookInto(filepath.Join(folder, entry.Name()), place, owners)
			if err != nil {
				failures = append(failures, fmt.Errorf("looking into sandbox %s of node %s: %w", entry.Name(), node.Name, err))
			}
			seen = append(seen, has...)
		}
	}
	return seen, failures
}

// owners gives, by inode of a network namespace, the cgroup of a pod's process in it. Asked before the namespaces are looked
// into: two sandboxes that one look finds alive both had a process at that moment, and both have the address after it. A CNI
// plugin that works in the namespace is not the pod's: the kubelet's cgroups distinguish them.
func owners() (map[uint64]string, error) {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	found := map[uint64]string{}
	for _, process := range processes {
		if _, err := strconv.Atoi(process.Name()); err != nil {
			continue
		}
		cgroup, ok := podCgroup(process.Name())
		if !ok {
			continue
		}
		var stat unix.Stat_t
		if unix.Stat(filepath.Join("/proc", process.Name(), "ns/net"), &stat) == nil {
			found[stat.Ino] = cgroup
		}
	}
	return found, nil
}

// podCgroup is the path of a process's cgroup if it is a pod's; it has the pod's UID in it. A process that ended has none.
func podCgroup(process string) (string, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", process, "cgroup"))
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path, see cgroups(7); with version 1 not every hierarchy is the kubelet's.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && strings.Contains(parts[2], podsCgroup) {
			return parts[2], true
		}
	}
	return "", false
}

// lookInto enters a network namespace with the calling thread, which must be locked and is never given back.
func lookInto(path string, place Place, owners map[uint64]string) ([]Observation, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var kind unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &kind); err != nil {
		return nil, err
	}
	if kind.Type != unix.NSFS_MAGIC {
		return nil, nil // the file is there before the namespace is mounted on it, and after
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, err
	}
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("entering it: %w", err)
	}
	place.Inode = stat.Ino
	owner, alive := owners[stat.Ino]
	return addresses(place, owner, alive)
}

// addresses reads the interfaces of the namespace that the thread is in.
func addresses(place Place, owner string, alive bool) ([]Observation, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var seen []Observation
	for _, link := range interfaces {
		if link.Flags&net.FlagLoopback != 0 {
			continue
		}
		found, err := link.Addrs()
		if err != nil {
			return seen, fmt.Errorf("reading the addresses of %s: %w", link.Name, err)
		}
		place.Interface, place.MAC = link.Name, link.HardwareAddr.String()
		for _, address := range found {
			prefix, err := netip.ParsePrefix(address.String())
			if err != nil || prefix.Addr().IsLinkLocalUnicast() {
				continue
			}
			seen = append(seen, Observation{Address: prefix.Addr().Unmap(), Place: place, Alive: alive && link.Flags&net.FlagUp != 0, Owner: owner})
		}
	}
	return seen, nil
}

// onOwnThread runs what enters namespaces. The thread ends with it, so that nothing else ever runs in a foreign namespace.
func onOwnThread(run func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		run()
	}()
	<-done
}
