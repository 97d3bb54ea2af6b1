// SPDX-License-Identifier: Apache-2.0

//go:build linux

package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cgroups are the hierarchies of the host: one on cgroup v2, one per controller
// on cgroup v1, and both where v2 is mounted beside v1.
type Cgroups struct {
	// mounts are the mount points of all hierarchies.
	mounts []string
	// tracking is the mount point of the one by which processes are found. It is
	// the v2 hierarchy where there is one: it kills and freezes a group at once.
	tracking string
	unified  bool // tracking is v2
	pure     bool // there is no v1 hierarchy
}

const (
	cgroupPoll = 20 * time.Millisecond
	// v1Tracking is the v1 controller whose hierarchy tracks where v2 is missing:
	// every process is in one of its groups, and it limits nothing by itself.
	v1Tracking = "pids"
)

// FindCgroups reads the hierarchies from the mounts.
func FindCgroups() (*Cgroups, error) {
	mounts, err := Mounts()
	if err != nil {
		return nil, err
	}
	c := &Cgroups{pure: true}
	for _, m := range mounts {
		switch m.Type {
		case "cgroup2":
			c.tracking, c.unified = m.Point, true
		case "cgroup":
			c.pure = false
			if !c.unified && slices.Contains(strings.Split(filepath.Base(m.Point), ","), v1Tracking) {
				c.tracking = m.Point
			}
		default:
			continue
		}
		c.mounts = append(c.mounts, m.Point)
	}
	if c.tracking == "" {
		return nil, errors.New("no cgroup v2 hierarchy and no v1 hierarchy of the pids controller is mounted below /sys/fs/cgroup: nodes cannot be distinguished without")
	}
	return c, nil
}

// Create makes the group in every hierarchy, with its parents, and gives it what
// a group needs before a process can be in it.
func (c *Cgroups) Create(group string) error {
	for _, mount := range c.mounts {
		parent := mount
		for _, name := range strings.Split(strings.Trim(group, "/"), "/") {
			dir := filepath.Join(parent, name)
			if err := c.createOne(parent, dir); err != nil {
				return fmt.Errorf("cgroup %s: %w", dir, err)
			}
			parent = dir
		}
	}
	return nil
}

func (c *Cgroups) createOne(parent, dir string) error {
	if c.pure {
		if err := enableControllers(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// A v1 cpuset begins empty and then takes no process.
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(dir, name))
		if c.pure || err != nil || strings.TrimSpace(string(own)) != "" {
			continue
		}
		inherited, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), inherited, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// enableControllers hands all of a v2 group's controllers to its children, as
// the kubelet needs below its root.
func enableControllers(group string) error {
	controllers, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+name), 0o644); err != nil {
			return fmt.Errorf("handing on controller %s: %w", name, err)
		}
	}
	return nil
}

// procsFile is where a process writes 0 to join the group.
func (c *Cgroups) procsFile(group string) string {
	return filepath.Join(c.tracking, group, "cgroup.procs")
}

// Processes are the IDs of all processes of the group and the groups below it. A
// group that does not exist has none.
func (c *Cgroups) Processes(group string) ([]int, error) {
	var pids []int
	err := walkGroups(filepath.Join(c.tracking, group), func(dir string) error {
		file, err := os.Open(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return err
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			pid, err := strconv.Atoi(lines.Text())
			if err != nil {
				return err
			}
			pids = append(pids, pid)
		}
		return lines.Err()
	})
	return pids, err
}

// Kill kills every process of the group and those below it, and returns when
// none is left. On cgroup v2 the kernel does it in one step; on v1 it is
// repeated until no child is left that was born meanwhile.
func (c *Cgroups) Kill(ctx context.Context, group string) error {
	ticker := time.NewTicker(cgroupPoll)
	defer ticker.Stop()
	for {
		pids, err := c.Processes(group)
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := c.killOnce(group, pids); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("processes %v of cgroup %s did not end after being killed: %w", pids, group, context.Cause(ctx))
		}
	}
}

func (c *Cgroups) killOnce(group string, pids []int) error {
	if c.unified {
		err := os.WriteFile(filepath.Join(c.tracking, group, "cgroup.kill"), []byte("1"), 0o200)
		if !errors.Is(err, fs.ErrNotExist) { // cgroup.kill is newer than v2: Linux 5.14
			return err
		}
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing process %d of cgroup %s: %w", pid, group, err)
		}
	}
	return nil
}

// Freeze stops every process of the group where it stands, or lets all go on.
func (c *Cgroups) Freeze(group string, frozen bool) error {
	if c.unified {
		value := []byte("0")
		if frozen {
			value = []byte("1")
		}
		if err := os.WriteFile(filepath.Join(c.tracking, group, "cgroup.freeze"), value, 0o644); err != nil {
			return fmt.Errorf("freezing cgroup %s: %w", group, err)
		}
		return nil
	}
	signal := syscall.SIGCONT
	if frozen {
		signal = syscall.SIGSTOP
	}
	pids, err := c.Processes(group)
	for _, pid := range pids {
		if e := syscall.Kill(pid, signal); e != nil && !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, fmt.Errorf("process %d of cgroup %s: %w", pid, group, e))
		}
	}
	return err
}

// Frozen reports whether Freeze stopped the group. On cgroup v1 only the states of
// the processes show.
func (c *Cgroups) Frozen(group string) bool {
	content, err := os.ReadFile(filepath.Join(c.tracking, group, "cgroup.freeze"))
	return err == nil && strings.TrimSpace(string(content)) == "1"
}

// Remove removes the group and those below it from every hierarchy. It tries
// until ctx is done, since the kernel takes a moment to forget dead processes.
func (c *Cgroups) Remove(ctx context.Context, group string) error {
	err := Poll(ctx, cgroupPoll, func(context.Context) error {
		var errs []error
		for _, mount := range c.mounts {
			errs = append(errs, walkGroups(filepath.Join(mount, group), os.Remove))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("removing cgroup %s: %w", group, err)
	}
	return nil
}

// Left lists the folders of the group that there are, in all hierarchies.
func (c *Cgroups) Left(group string) []string {
	var left []string
	for _, mount := range c.mounts {
		if _, err := os.Stat(filepath.Join(mount, group)); err == nil {
			left = append(left, filepath.Join(mount, group))
		}
	}
	return left
}

// walkGroups visits a group after the groups below it. One that disappears
// meanwhile is none.
func walkGroups(dir string, visit func(dir string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unlessGone(err)
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := walkGroups(filepath.Join(dir, entry.Name()), visit); err != nil {
			return err
		}
	}
	return unlessGone(visit(dir))
}

// unlessGone is the error unless it says that there is no such group: a file of a
// group that is removed while it is read fails with ENODEV.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}
