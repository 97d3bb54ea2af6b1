// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/config"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

// importImages gives a node the archives that it does not have yet. What it has
// is written on its disk, beside the images.
func (c *Cluster) importImages(ctx context.Context, n plan.Node) error {
	record := filepath.Join(c.Folder.Node(n.Name).Var(), "lib/containerd/imported.json")
	imported := map[string]string{}
	content, err := os.ReadFile(record)
	if err == nil {
		err = json.Unmarshal(content, &imported)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("images of %s: %w", n.Name, err)
	}
	for _, archive := range c.state.Images {
		info, err := os.Stat(archive)
		if err != nil {
			return fmt.Errorf("image: %w; run make images", err)
		}
		version := fmt.Sprintf("%d bytes of %s", info.Size(), info.ModTime())
		if imported[archive] == version {
			continue
		}
		// Not in the node: it may see another folder at the archive's path.
		if err := c.importImage(ctx, n, archive); err != nil {
			return err
		}
		imported[archive] = version
		if content, err = json.MarshalIndent(imported, "", "  "); err != nil {
			return err
		}
		if err := writeFile(record, content); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) importImage(ctx context.Context, n plan.Node, archive string) error {
	if _, err := c.ctr(ctx, n, "images", "import", "--no-unpack", archive); err != nil {
		return fmt.Errorf("importing %s into %s: %w", filepath.Base(archive), n.Name, err)
	}
	return nil
}

// ctr runs that of containerd's own version, on the host.
func (c *Cluster) ctr(ctx context.Context, n plan.Node, args ...string) ([]byte, error) {
	command := []string{filepath.Join(c.state.ContainerdDirectory, "ctr"), "--address", c.stateOf(n).ContainerdSocket, "--namespace", "k8s.io"}
	return c.cgroups.Run(ctx, n.ServicesCgroup(), nil, append(command, args...)...)
}

// containerdSocket is a path on the host.
func (c *Cluster) containerdSocket(node string, o config.Options) string {
	return filepath.Join(filepath.Dir(c.Folder.Node(node).Run()), o.ContainerdSocket())
}

// Import adds archives to the images of every node, and of nodes that are
// replaced later.
func (c *Cluster) Import(ctx context.Context, archives []string) error {
	return c.locked(func() error {
		if c.state == nil {
			return ErrNotUp
		}
		err := c.update(func(s *state.Cluster) {
			for _, archive := range archives {
				if !slices.Contains(s.Images, archive) {
					s.Images = append(s.Images, archive)
				}
			}
		})
		if err != nil {
			return err
		}
		return c.eachNode(ctx, c.importImages)
	})
}

// eachNode does something for all running nodes at once.
func (c *Cluster) eachNode(ctx context.Context, do func(context.Context, plan.Node) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, known := range c.state.Nodes {
		n, _, err := c.node(known.Name)
		if err != nil {
			return err
		}
		if known.State != state.Killed {
			group.Go(func() error { return do(ctx, n) })
		}
	}
	return group.Wait()
}
