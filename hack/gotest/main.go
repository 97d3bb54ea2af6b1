// SPDX-License-Identifier: Apache-2.0

// Command gotest runs the project's tests and closes with the seconds of each tier and one line that counts the tests.
//
//	go run ./hack/gotest [-assets DIR] unit|simulation|suites|nodes|all|extended|machine [NAME...]
//
// unit is every package that starts no control plane, in every module that has tests, under the race detector where goroutines are started
// (goroutines.go). simulation plays histories of the whole product (hack/dev/test/sim), without it, since a seed is one history only where nothing
// but the scheduler chooses. suites is the one binary of test/integration: two processes of it, each with a control plane of its own. NAME narrows
// it to suites. nodes is the smoke of the simulated nodes (hack/dev/test). all is these four, side by side. extended is what all leaves out: a
// release built twice, cert-manager from its module, every shape of whereabouts' pools, the quickstart; NAME, the end of a folder, narrows it. machine is the packages named that need
// root and a whole machine. It runs at the top of the repository.
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

	"github.com/holdfast-dev/holdfast/internal/testing/versioned"
)

// raceOptions let goroutines that outlive the tests of a package run into a race for a tenth of a second, instead of a whole one for each package.
const raceOptions = "atexit_sleep_ms=100"

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
	sequences, err := selectSequences(what)
	if err != nil {
		return tally{}, err
	}
	assets, err = filepath.Abs(assets)
	if err != nil {
		return tally{}, err
	}
	for name, value := range map[string]string{"CGO_ENABLED": "1", "KUBEBUILDER_ASSETS": assets, "GORACE": raceOptions} {
		if err := os.Setenv(name, value); err != nil {
			return tally{}, err
		}
	}
	r, began := run{w: &lineWriter{w: w}}, time.Now()
	if err := r.sideBySide(sequences, narrow); err != nil {
		return tally{}, err
	}
	fmt.Fprintf(w, "%s; %.0f s in all\n", r.spent, time.Since(began).Seconds())
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

// sideBySide runs sequences at the same time. Each finds its groups when it comes to them: what does not compute begins at once.
func (r *run) sideBySide(sequences []sequence, narrow []string) error {
	var running errgroup.Group
	for _, selectors := range sequences {
		running.Go(func() error {
			for _, find := range selectors {
				groups, err := find(narrow)
				if err != nil {
					return err
				}
				if err := r.inOrder(groups); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return running.Wait()
}

func (r *run) inOrder(groups []group) error {
	for _, g := range groups {
		if len(g.packages) == 0 {
			continue
		}
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
}

// group is one invocation of go test: the tier that it belongs to, where it runs and with which arguments.
type group struct {
	tier, dir string
	flags     []string
	packages  []string
	// suites, by name, or "all", are run by the binary of the one package.
	suites []string
	// yields: it computes, and lets those go first that wait for API servers most of their time.
	yields bool
	// ofServer: what the API server that was built cannot show is left out, by selection.
	ofServer  bool
	selection selection
}

// selector finds groups, narrowed by names.
type selector func(names []string) ([]group, error)

// sequence is what runs one after the other.
type sequence []selector

// selectSequences gives the sequences of a run. Unit tests fill the time in which the suites wait, and use all processors at the end; the simulation uses
// one, and comes late enough to find its packages compiled.
func selectSequences(what string) ([]sequence, error) {
	all := map[string][]sequence{
		"unit":       {{unitGroups}},
		"simulation": {{simulationGroups}},
		"suites":     {{suiteGroups}, {aloneGroups}},
		"nodes":      {{nodeGroups}},
		"all":        {{unitGroups}, {suiteGroups}, {nodeGroups, aloneGroups, simulationGroups}},
		"extended":   {{extendedGroups}},
		"machine":    {{machineGroups}},
	}
	if all[what] == nil {
		return nil, fmt.Errorf("the first argument is %q: expected unit, simulation, suites, nodes, all, extended or machine", what)
	}
	return all[what], nil
}

// unitGroups are the unit tests of all modules, under the race detector where goroutines are started. Those of nested modules never come from the cache:
// they read files of the repository, such as alerts and workflows, and the cache notices changes within their own module alone.
func unitGroups([]string) ([]group, error) {
	var groups []group
	for _, dir := range modules {
		packages, err := testPackages(dir, unit, "./...")
		if err != nil {
			return nil, err
		}
		concurrent, err := withGoroutines(dir)
		if err != nil {
			return nil, err
		}
		g := group{tier: "unit tests", dir: dir, flags: []string{"-timeout=10m"}, yields: true}
		if dir != "." {
			g.flags = append(g.flags, "-count=1")
		}
		raced := g
		raced.flags = append([]string{"-race"}, g.flags...)
		for _, path := range packages {
			if concurrent[path] {
				raced.packages = append(raced.packages, path)
			} else {
				g.packages = append(g.packages, path)
			}
		}
		groups = append(groups, raced, g)
	}
	return groups, nil
}

// extendedGroups are all under the race detector, and never from the cache: what they build is in no package that the cache knows of.
func extendedGroups(names []string) ([]group, error) {
	var groups []group
	for _, dir := range modules {
		packages, err := testPackages(dir, extended, "./...")
		if err != nil {
			return nil, err
		}
		packages = slices.DeleteFunc(packages, func(path string) bool {
			return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(path, "/"+name) })
		})
		groups = append(groups, group{tier: "extended", dir: dir, flags: []string{"-race", "-timeout=10m", "-count=1"}, packages: packages})
	}
	return groups, nil
}

func simulationGroups([]string) ([]group, error) {
	packages, err := testPackages("hack/dev", simulation, "./...")
	return []group{{tier: "simulation", dir: "hack/dev", flags: []string{"-timeout=20m", "-count=1"}, packages: packages, yields: true}}, err
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
	return []group{{tier: "simulated nodes", dir: "hack/dev", flags: []string{"-timeout=30m", "-p=1", "-count=1"}, packages: packages}}, err
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
	command := slices.Concat([]string{"go", "test", "-json", "-vet=off"}, g.flags, g.packages)
	if g.yields {
		command = append([]string{"nice", "-n", "5"}, command...)
	}
	return countOf(exec.Command(command[0], command[1:]...), g.dir, w)
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
	fmt.Fprintf(w, "==> left out: %d specs, %s; the API server is Kubernetes %s\n", leftOut, versioned.Why(g.selection.server), g.selection.server)
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
