// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"slices"
	"strings"
	"sync"
)

// kind is what a package needs to be tested.
type kind int

const (
	unit kind = iota
	// simulation plays histories of the whole product in virtual time.
	simulation
	// suite is the one binary of the suites on a control plane.
	suite
	// nodes starts control planes with simulated nodes.
	nodes
	// extended takes longer than what it tests is changed: it builds releases, cert-manager and older versions of whereabouts, and types the quickstart.
	extended
	// machine needs root and a whole machine: it starts container runtimes, or breaks the nodes of a cluster.
	machine
)

// roots are the folders, from the top of the repository, of each kind but unit, the more special first.
var roots = []struct {
	folder string
	kind   kind
}{
	{"test/node", machine},
	{"test/e2e/cluster", machine},
	{"test/e2e", suite},
	{"test/integration", suite},
	{"hack/dev/test/sim", simulation},
	{"hack/dev/test/shapes", extended},
	{"hack/dev/test/quickstart", extended},
	{"hack/dev/test", nodes},
	{"hack/certmanager/test", extended},
	{"hack/release/internal", unit},
	{"hack/release", extended},
}

// kindOf is what a package needs, by its folder from the top of the repository.
func kindOf(folder string) kind {
	for _, root := range roots {
		if folder == root.folder || strings.HasPrefix(folder, root.folder+"/") {
			return root.kind
		}
	}
	return unit
}

// modules are the folders of the modules with tests.
var modules = []string{".", "hack/dev", "hack/images", "hack/certmanager", "hack/cluster", "hack/promql", "hack/release"}

// planes are the labels of test/fixture that distinguish the suites.
var planes = []string{"plane-one", "plane-two"}

// lineWriter keeps the lines of several writers apart: each write is whole lines.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(slices.Clone(p))
}
