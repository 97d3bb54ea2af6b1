// SPDX-License-Identifier: Apache-2.0

// Package nodecrds has the node-scoped resources that NodeResourcePolicies are about: the CustomResourceDefinitions of the
// IPAMs themselves, from the modules that hack/crds pins, and sample objects that their schemas take. Azure's module
// is not served everywhere; its two definitions are in the folder azure.
package nodecrds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	repository = "github.com/holdfast-dev/holdfast"
	pins       = "hack/crds" // from the top of the repository
	azureDir   = "internal/testing/nodecrds/azure"
)

// manifests are the files of each pinned module.
var manifests = map[string][]string{
	"github.com/aws/amazon-vpc-resource-controller-k8s":           {"config/crd/bases/vpcresources.k8s.aws_cninodes.yaml"},
	"github.com/cilium/cilium":                                    {"pkg/k8s/apis/cilium.io/client/crds/v2/ciliumnodes.yaml"},
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api": {"manifests/crd.yaml"},
	"github.com/openshift/api":                                    {"network/v1/zz_generated.crd-manifests/002_hostsubnets.crd.yaml"},
	"github.com/projectcalico/calico": {
		"libcalico-go/config/crd/crd.projectcalico.org_blockaffinities.yaml",
		"libcalico-go/config/crd/crd.projectcalico.org_ipamblocks.yaml",
	},
}

// Paths are the files of the CustomResourceDefinitions, one definition each, for controlplane.Options.CRDs. Modules that
// are not in Go's module cache yet are downloaded and verified against go.sum; later calls need no network. It works in any
// module that has this one in its build list. The error has the output of the go command, or the file that a module lacks.
func Paths(ctx context.Context) ([]string, error) {
	top, err := process.Output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", repository)
	if err != nil {
		return nil, fmt.Errorf("finding the folder of %s: %w", repository, err)
	}
	pinned, err := process.Output(ctx, filepath.Join(top, pins), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Dir}}{{end}}", ".")
	if err != nil {
		return nil, fmt.Errorf("finding the modules that %s pins: %w", pins, err)
	}
	paths, err := filepath.Glob(filepath.Join(top, azureDir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(pinned) {
		module, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, file := range manifests[module] {
			paths = append(paths, filepath.Join(dir, file))
		}
	}
	return paths, check(paths)
}

// check finds what a newer version of a module moved: a missing file is an error.
func check(paths []string) error {
	expected := 2 // Azure's
	for _, files := range manifests {
		expected += len(files)
	}
	var errs []error
	if len(paths) != expected {
		errs = append(errs, fmt.Errorf("found %d files of CustomResourceDefinitions, expected %d: %s must import a package of each module of this package's list",
			len(paths), expected, pins))
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			errs = append(errs, fmt.Errorf("a pinned module has no such manifest: %w", err))
		}
	}
	return errors.Join(errs...)
}
