// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/machine"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
)

// Leftovers lists what there is of a cluster outside of its folder, and of its
// folder all but the logs.
func (c *Cluster) Leftovers() ([]string, error) {
	var left []string
	pids, err := c.cgroups.Processes(plan.CgroupRoot)
	for _, pid := range pids {
		left = append(left, fmt.Sprintf("process %d", pid))
	}
	for _, group := range c.cgroups.Left(plan.CgroupRoot) {
		left = append(left, "cgroup "+group)
	}
	links, err2 := machine.Links(plan.Prefix)
	for name, alias := range links {
		if ours(name) || alias == c.alias() {
			left = append(left, "link "+name)
		}
	}
	// Also those that left the cgroups: a namespace or a mount lives as long as a
	// process is in it.
	mounts, err3 := machine.MountsBelow(string(c.Folder))
	left = append(left, mounts...)
	entries, err4 := os.ReadDir(string(c.Folder))
	if errors.Is(err4, fs.ErrNotExist) {
		err4 = nil
	}
	for _, entry := range entries {
		if entry.Name() != "log" {
			left = append(left, "file "+c.Folder.Path(entry.Name()))
		}
	}
	return left, errors.Join(err, err2, err3, err4)
}
