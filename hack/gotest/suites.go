// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// suiteRoots are the folders, from the top of the repository, whose packages
// start a control plane.
var suiteRoots = []string{"internal/testing/controlplane", "test"}

// longRoots are the folders, from the top of their module, whose packages start a control plane and explore: they play one story in many
// variants, for minutes, and belong to a run of their own.
var longRoots = []string{"test/shapes"}

// machineRoots are the folders whose packages need root and a whole machine:
// they start container runtimes, or break the nodes of a cluster.
var machineRoots = []string{"test/node", "test/e2e/cluster"}

// kind is what a package needs to be tested.
type kind int

const (
	unit kind = iota
	suite
	long
	machine
)

// suitesAtOnce is how many suites of a module run at a time: two more than there are processors, since each has a control plane of its own
// and waits for it most of the time. In hack/dev it is one more: with a second one whereabouts' DELs, which are timed, were seen to fail.
func suitesAtOnce(module string) string {
	const least, most = 2, 4
	more := 2
	if module == "hack/dev" {
		more = 1
	}
	return fmt.Sprintf("-p=%d", min(max(runtime.NumCPU(), least), most)+more)
}

// longestSuites are those that take minutes, the longest first. They start first, so that none of them is left over when all
// others are done: go test starts packages in the order in which they are given.
var longestSuites = []string{
	"test/integration/lifecycle",
	"test/integration/handshake",
	"test/integration/orphans",
	"test/integration/bootstrap",
	"test/integration/uninstall",
	"test/integration/repair",
	"test/integration/nodepolicy",
	"test/integration/nodesweep",
	"hack/dev/test/bugs",
	"test/integration/slices",
	"test/e2e",
	"hack/dev/test/guarded",
}

// longestFirst orders the import paths of packages.
func longestFirst(packages []string) {
	place := func(path string) int {
		at := slices.IndexFunc(longestSuites, func(suite string) bool { return strings.HasSuffix(path, "/"+suite) })
		if at < 0 {
			return len(longestSuites)
		}
		return at
	}
	slices.SortStableFunc(packages, func(a, b string) int { return place(a) - place(b) })
}

// faultySuites run a second time, with managers whose calls to the API server fail
// a quarter of the time (internal/testing/secondpass). The others have none in
// their process: bootstrap has no manager alive, nodewait and uninstall run
// commands, and test/e2e runs the installation.
var faultySuites = []string{
	"test/integration/handshake",
	"test/integration/lifecycle",
	"test/integration/nodepolicy",
	"test/integration/noderesources",
	"test/integration/nodesweep",
	"test/integration/orphans",
	"test/integration/release_admission",
	"test/integration/repair",
	"test/integration/slices",
	"test/integration/stamping",
	"test/integration/whereabouts",
}

// crashSuites have specs that kill a manager behind each of its writes, which run by themselves.
var crashSuites = []string{"./test/integration/handshake", "./test/integration/lifecycle", "./test/integration/orphans"}

// crashEnv asks for them.
var crashEnv = []string{"CRASH_POINTS=1"}

// faultyEnv asks them to; the same seed makes the same calls fail.
var faultyEnv = []string{"FAULT_RATE=0.25", "FAULT_SEED=1"}

// extraModules are modules with tests besides the one at the top.
var extraModules = []string{"hack/dev", "hack/images", "hack/certmanager", "hack/cluster", "hack/promql", "hack/release"}

// kindOf tells what a package needs, by its folder from the top of its module.
func kindOf(folder string) kind {
	switch {
	case below(folder, machineRoots):
		return machine
	case below(folder, longRoots):
		return long
	case below(folder, suiteRoots):
		return suite
	default:
		return unit
	}
}

func below(folder string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return folder == root || strings.HasPrefix(folder, root+"/") })
}
