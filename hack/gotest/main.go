// SPDX-License-Identifier: Apache-2.0

// Command gotest runs the project's tests and closes with one line that counts
// them, after the seconds of each tier.
//
//	go run ./hack/gotest [-assets DIR] unit|suites|all|faulty|long|machine [PACKAGE...]
//
// unit is every package that starts no control plane, in every module that has
// tests, under the race detector; suites is those that start one, a few packages
// at a time and without it, since they wait for processes of others most of the
// time; all is both. long is what takes too long for that, under the race
// detector: the packages that explore variants, the specs that kill a manager
// behind each of its writes, and faulty, the fault-injection run of the suites
// that have one. PACKAGE narrows the suites. machine is the packages named that
// need root and a whole machine; nothing else runs these. It runs at the top of
// the repository.
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
	"time"
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
	if total.sum().failed > 0 {
		os.Exit(1)
	}
}

// group is one invocation of go test: the tier that it belongs to, where it runs,
// with which arguments and with what on top of the environment.
type group struct {
	tier     string
	dir      string
	race     bool
	env      []string
	flags    []string
	packages []string
}

// failingCalls is the tier that is counted by itself.
const failingCalls = "failing calls"

func runAll(w io.Writer, assets, what string, narrow []string) (passes, error) {
	groups, err := selectGroups(what, narrow)
	if err != nil {
		return passes{}, err
	}
	assets, err = filepath.Abs(assets)
	if err != nil {
		return passes{}, err
	}
	env := append(os.Environ(), "CGO_ENABLED=1", "KUBEBUILDER_ASSETS="+assets)

	var total passes
	var spent seconds
	for _, g := range groups {
		start := time.Now()
		counted, err := g.run(w, env)
		if err != nil {
			return passes{}, err
		}
		spent.add(g.tier, time.Since(start))
		if g.tier == failingCalls {
			total.second = total.second.plus(counted)
		} else {
			total.first = total.first.plus(counted)
		}
	}
	fmt.Fprintln(w, spent)
	if total == (passes{}) {
		return passes{}, fmt.Errorf("no test ran for %q %v: expected at least one", what, narrow)
	}
	return total, nil
}

func selectGroups(what string, narrow []string) ([]group, error) {
	kinds := map[string][]func([]string) ([]group, error){
		"unit":    {unitGroups},
		"suites":  {suiteGroups},
		"all":     {unitGroups, suiteGroups},
		"faulty":  {faultyGroups},
		"long":    {longGroups, crashGroups, faultyGroups},
		"machine": {machineGroups},
	}
	if kinds[what] == nil {
		return nil, fmt.Errorf("the first argument is %q: expected unit, suites, all, faulty, long or machine", what)
	}
	var groups []group
	for _, kind := range kinds[what] {
		more, err := kind(narrow)
		if err != nil {
			return nil, err
		}
		groups = append(groups, more...)
	}
	return groups, nil
}

func unitGroups([]string) ([]group, error) {
	var groups []group
	for _, dir := range append([]string{"."}, extraModules...) {
		packages, err := testPackages(dir, "./...", unit)
		if err != nil {
			return nil, err
		}
		groups = append(groups, group{tier: "unit tests", race: true, dir: dir, flags: []string{"-timeout=10m"}, packages: packages})
	}
	return groups, nil
}

func suiteGroups(patterns []string) ([]group, error) { return controlPlaneGroups(suite, patterns) }

func longGroups(patterns []string) ([]group, error) { return controlPlaneGroups(long, patterns) }

// controlPlaneGroups are the packages of one kind that start control planes, a few at a time.
func controlPlaneGroups(needs kind, patterns []string) ([]group, error) {
	dirs := []string{"."}
	if len(patterns) == 0 {
		patterns = []string{"./..."}
		dirs = append(dirs, extraModules...)
	}
	var groups []group
	for _, dir := range dirs {
		g := group{tier: "suites", dir: dir, flags: []string{"-timeout=30m", suitesAtOnce(dir), "-count=1"}}
		for _, pattern := range patterns {
			packages, err := testPackages(dir, pattern, needs)
			if err != nil {
				return nil, err
			}
			g.packages = append(g.packages, packages...)
		}
		if needs == long {
			g.tier, g.race = "exploring suites", true
		}
		longestFirst(g.packages)
		groups = append(groups, g)
	}
	return groups, nil
}

// machineGroups are packages that are only run when they are named, one at a time.
func machineGroups(patterns []string) ([]group, error) {
	g := group{tier: "machine", race: true, dir: ".", flags: []string{"-timeout=90m", "-count=1", "-p=1"}}
	for _, pattern := range patterns {
		packages, err := testPackages(g.dir, pattern, machine)
		if err != nil {
			return nil, err
		}
		g.packages = append(g.packages, packages...)
	}
	return []group{g}, nil
}

// crashGroups are the specs that kill a manager behind each of its writes.
func crashGroups([]string) ([]group, error) {
	g := group{tier: "crash points", race: true, dir: ".", env: crashEnv, flags: []string{"-timeout=60m", suitesAtOnce("."), "-count=1"}}
	for _, pattern := range crashSuites {
		packages, err := testPackages(g.dir, pattern, suite)
		if err != nil {
			return nil, err
		}
		g.packages = append(g.packages, packages...)
	}
	return []group{g}, nil
}

// faultyGroups are the suites that have a second pass.
func faultyGroups(patterns []string) ([]group, error) {
	suites, err := suiteGroups(patterns)
	if err != nil {
		return nil, err
	}
	var groups []group
	for _, g := range suites {
		if again := g.faulty(); len(again.packages) > 0 {
			groups = append(groups, again)
		}
	}
	return groups, nil
}

// faulty is the second pass of a group.
func (g group) faulty() group {
	again := group{tier: failingCalls, race: true, dir: g.dir, env: faultyEnv, flags: g.flags}
	for _, path := range g.packages {
		if slices.ContainsFunc(faultySuites, func(suite string) bool { return strings.HasSuffix(path, "/"+suite) }) {
			again.packages = append(again.packages, path)
		}
	}
	return again
}

// testPackages lists the packages of the module in dir that match pattern, have
// test files, and need what is asked for.
func testPackages(dir, pattern string, needs kind) ([]string, error) {
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.Module.Path}} {{.ImportPath}}{{end}}`
	cmd := exec.Command("go", "list", "-f", format, pattern)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages %s of module %s: %w", pattern, dir, err)
	}
	var packages []string
	for line := range strings.Lines(string(out)) {
		module, path, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && kindOf(strings.TrimPrefix(path, module+"/")) == needs {
			packages = append(packages, path)
		}
	}
	return packages, nil
}

// run starts go test, shows its progress on w and counts what it ran. A failing
// test is no error; a go test that cannot be started or read is.
func (g group) run(w io.Writer, env []string) (tally, error) {
	if len(g.packages) == 0 {
		return tally{}, nil
	}
	flags := slices.Clone(g.flags)
	if g.race {
		flags = append(flags, "-race")
	}
	command := strings.Join(append(slices.Clone(g.env), "go test"), " ")
	fmt.Fprintf(w, "==> %s: %d packages in %s: %s %s\n", g.tier, len(g.packages), g.dir, command, strings.Join(flags, " "))
	cmd := exec.Command("go", slices.Concat([]string{"test", "-json"}, flags, g.packages)...)
	cmd.Dir, cmd.Env, cmd.Stderr = g.dir, append(slices.Clone(env), g.env...), os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return tally{}, err
	}
	if err := cmd.Start(); err != nil {
		return tally{}, fmt.Errorf("starting go test in %s: %w", g.dir, err)
	}
	counted, readErr := count(stdout, w)
	waitErr := cmd.Wait()
	if readErr != nil {
		return tally{}, fmt.Errorf("reading the output of go test in %s: %w", g.dir, readErr)
	}
	var exit *exec.ExitError
	if waitErr != nil && (!errors.As(waitErr, &exit) || counted.failed == 0) {
		return tally{}, fmt.Errorf("go test in %s ended with %w, though no test failed", g.dir, waitErr)
	}
	return counted, nil
}
