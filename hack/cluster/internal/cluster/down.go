// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/machine"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
)

// Down takes down everything that exists, and proves that nothing is
// left. It needs no state file: processes are found by their cgroups, links by
// their names.
func (c *Cluster) Down(ctx context.Context, keepLogs bool) error {
	if err := c.checkOwner(); err != nil {
		return err
	}
	return c.alone(func() error {
		bounded, cancel := context.WithTimeoutCause(ctx, 2*endTimeout, fmt.Errorf("gave up after %s", 2*endTimeout))
		defer cancel()
		err := c.all(bounded, []step{
			{"killing the nodes and the control plane", func(ctx context.Context) error { return c.cgroups.Kill(ctx, plan.CgroupRoot) }},
			{"removing the links", func(context.Context) error { return c.removeLinks() }},
			{"removing the cgroups", func(ctx context.Context) error { return c.cgroups.Remove(ctx, plan.CgroupRoot) }},
			{"removing the files", func(context.Context) error { return c.removeFiles(keepLogs) }},
		})
		left, err2 := c.Leftovers()
		if err := errors.Join(err, err2, leftError(left)); err != nil {
			return err
		}
		fmt.Fprintln(c.Log, "nothing is left: no process, namespace, mount, link, cgroup or file of the cluster")
		return os.Remove(string(c.Folder) + ".lock")
	})
}

// checkOwner keeps the cluster of another folder.
func (c *Cluster) checkOwner() error {
	links, err := machine.Links(plan.ControlBridge)
	if err != nil {
		return err
	}
	if alias, found := links[plan.ControlBridge]; found && alias != c.alias() && alias != "" {
		return fmt.Errorf("the cluster that is up is another one (%q, this one is %q): take it down with the --dir of its own", alias, c.alias())
	}
	return nil
}

func (c *Cluster) removeLinks() error {
	links, err := machine.Links(plan.Prefix)
	if err != nil {
		return err
	}
	// The cables before the bridges.
	names := slices.SortedFunc(maps.Keys(links), func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		if links[name] != c.alias() && !ours(name) {
			continue
		}
		if err := machine.RemoveLink(name); err != nil {
			return err
		}
	}
	return nil
}

// ours reports whether a link has one of the names that a cluster gives.
func ours(name string) bool {
	if name == plan.ControlBridge || name == plan.DataBridge {
		return true
	}
	return slices.ContainsFunc(plannedNodes(), func(n plan.Node) bool {
		return name == n.ControlLink || name == n.DataLink
	})
}

func (c *Cluster) removeFiles(keepLogs bool) error {
	entries, err := os.ReadDir(string(c.Folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if keepLogs && entry.Name() == "log" {
			continue
		}
		if err := os.RemoveAll(c.Folder.Path(entry.Name())); err != nil {
			return err
		}
	}
	if keepLogs {
		return nil
	}
	return os.Remove(string(c.Folder))
}

func leftError(left []string) error {
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("this of the cluster is left:\n  %s", strings.Join(left, "\n  "))
}
