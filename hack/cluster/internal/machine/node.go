// SPDX-License-Identifier: Apache-2.0

//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Machine is what a process with new namespaces makes of itself.
type Machine struct {
	Hostname string `json:"hostname"`
	// Etc is laid over the host's /etc (overlayfs; EtcWork is its working folder).
	Etc     string `json:"etc"`
	EtcWork string `json:"etcWork"`
	// Binds are folders and files that replace others: source by target.
	Binds []Bind `json:"binds"`
	// Sysctls of the network namespace, by their path below /proc/sys/net.
	Sysctls map[string]string `json:"sysctls"`
}

// Bind is a bind mount.
type Bind struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// Become makes a machine out of this process, which already has network, mount
// and UTS namespaces of its own, and no other process in them.
func (m Machine) Become() error {
	// Nothing that is mounted here may reach the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := unix.Sethostname([]byte(m.Hostname)); err != nil {
		return fmt.Errorf("hostname %s: %w", m.Hostname, err)
	}
	if err := m.mount(); err != nil {
		return err
	}
	// As on a machine with systemd: what is mounted here reaches the containers
	// that ask for it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("making the mounts shared: %w", err)
	}
	for name, value := range m.Sysctls {
		if err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0o644); err != nil {
			return fmt.Errorf("sysctl: %w", err)
		}
	}
	loopback, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(loopback)
	}
	if err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	return nil
}

// mount opens every source before the first mount, since a mount may hide the
// source of another.
func (m Machine) mount() error {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	open := func(path string) (string, error) {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", fmt.Errorf("opening %s: %w", path, err)
		}
		f := os.NewFile(uintptr(fd), path)
		files = append(files, f)
		return fmt.Sprintf("/proc/self/fd/%d", f.Fd()), nil
	}
	etc, err1 := open(m.Etc)
	work, err2 := open(m.EtcWork)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	sources := make([]string, len(m.Binds))
	for i, b := range m.Binds {
		var err error
		if sources[i], err = open(b.Source); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=/etc,upperdir=%s,workdir=%s", etc, work)
	if err := unix.Mount("etc", "/etc", "overlay", 0, options); err != nil {
		return fmt.Errorf("laying %s over /etc: %w", m.Etc, err)
	}
	for i, b := range m.Binds {
		if err := unix.Mount(sources[i], b.Target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("binding %s to %s: %w", b.Source, b.Target, err)
		}
	}
	return nil
}

// Hold keeps this process, and so its namespaces, until a signal ends it.
func Hold(ctx context.Context) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
}
