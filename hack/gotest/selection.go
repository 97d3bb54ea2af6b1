// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/internal/testing/versioned"
)

// inMemory is the suite that compares the API server in memory, which is one of kubeversion.Newest, with a real one.
const inMemory = "/test/integration/conformance"

// selection is which specs an API server can show: not those that need what it does not serve, nor those of what holds without what it does
// serve. Their labels are those of internal/testing/versioned.
type selection struct {
	server *version.Version
}

// readSelection asks the API server that was built for its version.
func readSelection(assets string) (selection, error) {
	command := exec.Command(filepath.Join(assets, "kube-apiserver"), "--version")
	out, err := command.Output()
	if err != nil {
		return selection{}, fmt.Errorf("%s: %w; run make kube", command, err)
	}
	server, err := version.ParseGeneric(strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes "))
	if err != nil {
		return selection{}, fmt.Errorf("%s printed %q: expected Kubernetes v1.NN.P", command, out)
	}
	return selection{server: server}, nil
}

// narrow is the label filter without the specs that are left out.
func (s selection) narrow(filter string) string {
	return "(" + filter + ") && !" + versioned.LeftOut(s.server)
}

// count is how many specs of the binary are left out of those that the filter matches. A dry run starts nothing.
func (s selection) count(binary, folder, filter string) (int, error) {
	command := exec.Command(binary, "-ginkgo.dry-run", "-ginkgo.label-filter=("+filter+") && "+versioned.LeftOut(s.server))
	command.Dir = folder
	out, err := command.CombinedOutput()
	m := specs.FindSubmatch(colors.ReplaceAll(out, nil))
	if err != nil || m == nil {
		return 0, fmt.Errorf("counting the specs that are left out: %s: %w\n%s", command, err, out)
	}
	return strconv.Atoi(string(m[1]))
}

// packages are those of the group that are about this version, and on w is why another is left out.
func (s selection) packages(w io.Writer, all []string) []string {
	if s.server.Minor() == kubeversion.Newest.Minor() {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(path string) bool {
		if !strings.HasSuffix(path, inMemory) {
			return false
		}
		fmt.Fprintf(w, "==> left out: %s, because the API server in memory is one of Kubernetes %s, and the real one of %s\n", path, kubeversion.Newest, s.server)
		return true
	})
}
