// SPDX-License-Identifier: Apache-2.0

// Command gotest runs the project's tests and closes with the seconds of each tier and one line that counts the tests.
//
//	go run ./hack/gotest [-assets DIR] unit|simulation|suites|nodes|all|extended|machine [NAME...]
//
// unit is every package that starts no control plane, in every module that has tests, under the race detector. simulation plays histories of the
// whole product (hack/dev/test/sim), without it, since a seed is one history only where nothing but the scheduler chooses. suites is the one binary of test/integration: two processes of it, each with a control plane of its own. NAME narrows it to suites.
// nodes is the smoke of the simulated nodes (hack/dev/test). all is these four: unit first, and the others beside each other. extended is what all
// leaves out: a release built twice, cert-manager from its module, every shape of whereabouts' pools, the quickstart. machine is the packages named that need root
// and a whole machine. It runs at the top of the repository.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	assets := flag.String("assets", "bin/kube", "folder with etcd, kube-apiserver and kubectl")
	flag.Parse()
	var what string
	var narrow []string
	if flag.NArg() > 0 {
		what, narrow = flag.Arg(0), flag.Args()[1:]
	}
	total, err := runAll(os.Stdout, *assets, what, narrow)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	fmt.Println(total)
	if total.failed > 0 {
		os.Exit(1)
	}
}

func runAll(w io.Writer, assets, what string, narrow []string) (tally, error) {
	stages, err := selectStages(what, narrow)
	if err != nil {
		return tally{}, err
	}
	assets, err = filepath.Abs(assets)
	if err != nil {
		return tally{}, err
	}
	for name, value := range map[string]string{"CGO_ENABLED": "1", "KUBEBUILDER_ASSETS": assets} {
		if err := os.Setenv(name, value); err != nil {
			return tally{}, err
		}
	}
	r := run{w: &lineWriter{w: w}}
	for _, lanes := range stages {
		if err := r.sideBySide(lanes); err != nil {
			return tally{}, err
		}
	}
	fmt.Fprintln(w, r.spent)
	if r.total == (tally{}) {
		return tally{}, fmt.Errorf("no test ran for %q %v: expected at least one", what, narrow)
	}
	return r.total, nil
}

// run is what was counted so far.
type run struct {
	w     io.Writer
	mu    sync.Mutex
	total tally
	spent seconds
}

// sideBySide runs lanes at the same time, and the groups of each in order.
func (r *run) sideBySide(lanes []lane) error {
	var running errgroup.Group
	for _, groups := range lanes {
		running.Go(func() error {
			for _, g := range groups {
				start := time.Now()
				counted, err := g.run(r.w)
				if err != nil {
					return err
				}
				r.mu.Lock()
				r.total = r.total.plus(counted)
				r.spent.add(g.tier, time.Since(start))
				r.mu.Unlock()
			}
			return nil
		})
	}
	return running.Wait()
}

// group is one invocation of go test: the tier that it belongs to, where it runs and with which arguments.
type group struct {
	tier, dir string
	flags     []string
	packages  []string
	// suites, by name, or "all", are run by the binary of the one package.
	suites []string
	// ofServer: what the API server that was built cannot show is left out, by selection.
	ofServer  bool
	selection selection
}

// lane is a number of groups that run one after the other.
type lane []group

// selector finds groups, narrowed by names.
type selector func(names []string) ([]group, error)

// selectStages gives the stages of a run: the lanes of each run side by side. Unit tests need the processor, and all else waits for most of its time.
func selectStages(what string, narrow []string) ([][]lane, error) {
	all := map[string][][][]selector{
		"unit":       {{{unitGroups}}},
		"simulation": {{{simulationGroups}}},
		"suites":     {{{suiteGroups}, {aloneGroups}}},
		"nodes":      {{{nodeGroups}}},
		"all":        {{{unitGroups}}, {{suiteGroups}, {simulationGroups, nodeGroups, aloneGroups}}},
		"extended":   {{{extendedGroups}}},
		"machine":    {{{machineGroups}}},
	}
	if all[what] == nil {
		return nil, fmt.Errorf("the first argument is %q: expected unit, simulation, suites, nodes, all, extended or machine", what)
	}
	var stages [][]lane
	for _, stage := range all[what] {
		var lanes []lane
		for _, selectors := range stage {
			groups, err := selectGroups(selectors, narrow)
			if err != nil {
				return nil, err
			}
			lanes = append(lanes, groups)
		}
		stages = append(stages, lanes)
	}
	return stages, nil
}

func selectGroups(selectors []selector, narrow []string) (lane, error) {
	var groups lane
	for _, find := range selectors {
		more, err := find(narrow)
		if err != nil {
			return nil, err
		}
		groups = append(groups, more...)
	}
	return slices.DeleteFunc(groups, func(g group) bool { return len(g.packages) == 0 }), nil
}

func unitGroups([]string) ([]group, error) { return raceGroups("unit tests", unit) }

func extendedGroups([]string) ([]group, error) { return raceGroups("extended", extended) }

// raceGroups are the packages of all modules that need what is asked for, under the race detector.
func raceGroups(tier string, needs kind) ([]group, error) {
	var groups []group
	for _, dir := range modules {
		packages, err := testPackages(dir, needs, "./...")
		if err != nil {
			return nil, err
		}
		groups = append(groups, group{tier: tier, dir: dir, flags: []string{"-race", "-timeout=10m"}, packages: packages})
	}
	return groups, nil
}

func simulationGroups([]string) ([]group, error) {
	packages, err := testPackages("hack/dev", simulation, "./...")
	return []group{{tier: "simulation", dir: "hack/dev", flags: []string{"-timeout=20m", "-count=1"}, packages: packages}}, err
}

// suiteNames are the last elements of what was named: a folder is welcome too.
func suiteNames(names []string) []string {
	var last []string
	for _, name := range names {
		last = append(last, filepath.Base(name))
	}
	return last
}

func suiteGroups(names []string) ([]group, error) {
	suites := suiteNames(names)
	if len(suites) == 0 {
		suites = []string{"all"}
	}
	return []group{{tier: "suites", dir: ".", packages: []string{"./test/integration"}, suites: suites, ofServer: true}}, nil
}

// aloneGroups are the suites that start a control plane of their own.
func aloneGroups(names []string) ([]group, error) {
	suites := suiteNames(names)
	alone, err := testPackages(".", suite, "./...")
	alone = slices.DeleteFunc(alone, func(path string) bool {
		return strings.HasSuffix(path, "/test/integration") || len(suites) > 0 && !slices.Contains(suites, filepath.Base(path))
	})
	return []group{{tier: "suites of an installation", dir: ".", flags: []string{"-timeout=30m", "-p=1", "-count=1"}, packages: alone, ofServer: true}}, err
}

func nodeGroups([]string) ([]group, error) {
	packages, err := testPackages("hack/dev", nodes, "./...")
	return []group{{tier: "simulated nodes", dir: "hack/dev", flags: []string{"-timeout=30m", "-p=2", "-count=1"}, packages: packages}}, err
}

// machineGroups are packages that are only run when they are named, one at a time.
func machineGroups(patterns []string) ([]group, error) {
	packages, err := testPackages(".", machine, patterns...)
	return []group{{tier: "machine", dir: ".", flags: []string{"-race", "-timeout=90m", "-count=1", "-p=1"}, packages: packages}}, err
}

// testPackages lists the packages of the module in dir that match the patterns, have test files, and need what is asked for.
func testPackages(dir string, needs kind, patterns ...string) ([]string, error) {
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.Module.Path}} {{.ImportPath}}{{end}}`
	cmd := exec.Command("go", append([]string{"list", "-f", format}, patterns...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages %v of module %s: %w", patterns, dir, err)
	}
	var packages []string
	for line := range strings.Lines(string(out)) {
		module, path, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && kindOf(filepath.Join(dir, strings.TrimPrefix(path, module))) == needs {
			packages = append(packages, path)
		}
	}
	return packages, nil
}

// run shows the progress of the group's tests on w and counts what it ran. A failing test is no error; what cannot be started or read is. go test
// vets nothing: the linters do, and it would vet each dependency once more for the race detector.
func (g group) run(w io.Writer) (tally, error) {
	if g.ofServer {
		var err error
		if g.selection, err = readSelection(os.Getenv("KUBEBUILDER_ASSETS")); err != nil {
			return tally{}, err
		}
		if g.packages = g.selection.packages(w, g.packages); len(g.packages) == 0 {
			return tally{}, nil
		}
	}
	fmt.Fprintf(w, "==> %s: %d packages in %s: go test %s %s\n", g.tier, len(g.packages), g.dir, strings.Join(g.flags, " "), strings.Join(g.suites, " "))
	if len(g.suites) > 0 {
		return g.runBinary(w)
	}
	return countOf(exec.Command("go", slices.Concat([]string{"test", "-json", "-vet=off"}, g.flags, g.packages)...), g.dir, w)
}

// runBinary links the binary once, and runs it for each control plane at the same time.
func (g group) runBinary(w io.Writer) (tally, error) {
	folder, err := filepath.Abs(g.packages[0])
	if err != nil {
		return tally{}, err
	}
	binary, err := filepath.Abs("bin/suites.test")
	if err != nil {
		return tally{}, err
	}
	build := exec.Command("go", "test", "-vet=off", "-c", "-o", binary, g.packages[0])
	build.Stdout, build.Stderr = w, os.Stderr
	if err := build.Run(); err != nil {
		return tally{}, fmt.Errorf("building %s: %w", binary, err)
	}
	suites := strings.Join(g.suites, " || ")
	if g.suites[0] == "all" {
		suites = strings.Join(planes, " || ")
	}
	leftOut, err := g.selection.count(binary, folder, suites)
	if err != nil {
		return tally{}, err
	}
	fmt.Fprintf(w, "==> left out: %d specs, %s; the API server is Kubernetes %s\n", leftOut, g.selection.why(), g.selection.server)
	counts := make([]tally, len(planes))
	var running errgroup.Group
	for i, plane := range planes {
		cmd := exec.Command("go", "tool", "test2json", "-t", "-p", plane, binary, "-test.v=test2json", "-test.timeout=30m",
			"-ginkgo.label-filter="+plane+" && "+g.selection.narrow(suites))
		running.Go(func() (err error) {
			counts[i], err = countOf(cmd, folder, w)
			return err
		})
	}
	err = running.Wait()
	total := tally{leftOut: leftOut}
	for _, counted := range counts {
		total = total.plus(counted)
	}
	return total, err
}

// countOf runs a command that prints the events of go test.
func countOf(cmd *exec.Cmd, dir string, w io.Writer) (tally, error) {
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return tally{}, err
	}
	if err := cmd.Start(); err != nil {
		return tally{}, fmt.Errorf("starting %s in %s: %w", cmd, dir, err)
	}
	counted, readErr := count(stdout, w)
	waitErr := cmd.Wait()
	if readErr != nil {
		return tally{}, fmt.Errorf("reading the output of %s in %s: %w", cmd, dir, readErr)
	}
	var exit *exec.ExitError
	if waitErr != nil && (!errors.As(waitErr, &exit) || counted.failed == 0) {
		return tally{}, fmt.Errorf("%s in %s ended with %w, though no test failed", cmd, dir, waitErr)
	}
	return counted, nil
}
