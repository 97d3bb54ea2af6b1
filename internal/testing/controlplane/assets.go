// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// assetsVariable is the one that controller-runtime's envtest and
// setup-envtest use.
const assetsVariable = "KUBEBUILDER_ASSETS"

// findAssets returns the absolute path of the folder with the binaries, after
// checking that every named one is there.
func findAssets(dir string, names []string) (string, error) {
	source := "given in the options"
	if dir == "" {
		dir, source = os.Getenv(assetsVariable), "$"+assetsVariable
	}
	if dir == "" {
		root, err := moduleRoot()
		if err != nil {
			return "", fmt.Errorf("looking for the Kubernetes binaries: %w; set %s", err, assetsVariable)
		}
		dir, source = filepath.Join(root, "bin", "kube"), "the default"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("looking for the Kubernetes binaries: %w", err)
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("no Kubernetes binary %s in %s (%s): run make kube: %w", name, dir, source, err)
		}
	}
	return dir, nil
}

// moduleRoot is the nearest folder with a go.mod, from the working directory
// upwards. Tests run in the folder of their package.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in %s or above it", start)
		}
	}
}
