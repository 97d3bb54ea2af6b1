// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	whereaboutsModule = "github.com/k8snetworkplumbingwg/whereabouts"
	nadModule         = "github.com/k8snetworkplumbingwg/network-attachment-definition-client"
)

// modules are the folders of the modules whose manifests are applied, by path.
type modules map[string]string

// findModules asks the go command, in the module that pins the versions.
func (c *Cluster) findModules(ctx context.Context) error {
	output, err := process.Output(ctx, filepath.Join(c.options.Root, "hack", "dev"), "go", "list", "-m", "-f", "{{.Path}}={{.Dir}}", whereaboutsModule, nadModule)
	if err != nil {
		return err
	}
	c.modules = modules{}
	for line := range strings.Lines(output) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "=")
		if dir == "" {
			return fmt.Errorf("module %s is not downloaded: run go -C hack/dev mod download", path)
		}
		c.modules[path] = dir
	}
	return nil
}

// crds are the files with the CustomResourceDefinitions of a cluster that runs
// Multus, whereabouts and Holdfast, and those of Azure's network.
func (c *Cluster) crds() ([]string, error) {
	whereabouts, err := filepath.Glob(filepath.Join(c.modules[whereaboutsModule], "doc", "crds", "whereabouts.cni.cncf.io_*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(whereabouts) == 0 {
		return nil, fmt.Errorf("no CustomResourceDefinitions in doc/crds of %s", c.modules[whereaboutsModule])
	}
	return append(whereabouts,
		filepath.Join(c.modules[nadModule], "artifacts", "networks-crd.yaml"),
		filepath.Join(c.options.Root, "config", "crd", "bases"),
		filepath.Join(c.options.Root, "internal", "testing", "nodecrds", "azure"),
	), nil
}
