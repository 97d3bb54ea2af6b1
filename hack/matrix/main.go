// SPDX-License-Identifier: Apache-2.0

// Command matrix runs the suites of the API server, or the end-to-end core on real nodes, on several versions of Kubernetes, each built from its
// modules, or what is tried of several versions of containerd, whereabouts or cert-manager. It writes a row for each version that passed into
// docs/compatibility.md, with the commit that ran, and the summary of all rows. A version that fails loses its row; rows of versions that it does not run
// stay. Without -tier it runs all tiers.
//
//	go run ./hack/matrix [-tier suites|core|core-containerd|core-whereabouts|k3s|containerd|whereabouts|certmanager] [-only 1.31,1.33] [-page FILE] [-logs DIR]
//
// The tiers core, core-containerd, core-whereabouts, k3s and containerd need what make cluster-up needs: root and Linux.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// clusterState is there while a cluster of make cluster-up is.
const clusterState = "bin/cluster/state.json"

func main() {
	what := flag.String("tier", "", "what runs: "+tierNames()+"; all of them by default")
	only := flag.String("only", "", "minor versions, with commas between them; all that the tier knows by default. It needs -tier")
	page := flag.String("page", "docs/compatibility.md", "page with the table")
	logs := flag.String("logs", "bin/matrix", "folder that gets the output of each version")
	flag.Parse()
	if err := runAll(*what, *only, *page, *logs); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func runAll(what, only, page, logs string) error {
	names := order
	if what != "" {
		names = []string{what}
	} else if only != "" {
		return fmt.Errorf("versions %s of what? Tiers run versions of different things: expected a tier with them, one of %s", only, tierNames())
	}
	chosen := map[string][]string{}
	for _, name := range names {
		t, known := tiers[name]
		if !known {
			return fmt.Errorf("the tier is %q: expected one of %s", name, tierNames())
		}
		var err error
		if chosen[name], err = choose(only, t.minors); err != nil {
			return err
		}
		if _, err := os.Stat(clusterState); err == nil && len(t.cleanup) > 0 {
			return fmt.Errorf("%s is there: each version gets a cluster of its own; run make cluster-down first", clusterState)
		}
	}
	commit, err := head(page)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	var failures []error
	for _, name := range names {
		failures = append(failures, runTier(name, chosen[name], commit, page, logs))
	}
	return errors.Join(failures...)
}

// runTier runs a tier on the chosen versions, and writes their rows.
func runTier(what string, chosen []string, commit, page, logs string) error {
	t := tiers[what]
	var failures []error
	for i, minor := range chosen {
		fmt.Printf("==> %s %s (%d of %d)\n", t.of, minor, i+1, len(chosen))
		start := time.Now()
		result, failure := t.run(minor, filepath.Join(logs, what+"-"+minor+".log"))
		if failure != nil {
			failures = append(failures, failure)
			fmt.Printf("==> %s %s: %v\n", t.of, minor, failure)
		} else {
			fmt.Printf("==> %s %s: %s in %.0f s\n", t.of, minor, result, time.Since(start).Seconds())
		}
		if failure == nil {
			result.commit = commit
		}
		// Each row is written at once: a later version may be interrupted.
		if err := t.table.update(page, minor, result); err != nil {
			return errors.Join(append(failures, err)...)
		}
	}
	return errors.Join(failures...)
}

// head is the short hash of the commit that runs, marked where the work tree differs from it. The page may differ: an earlier run wrote rows into it.
func head(page string) (string, error) {
	out, err := exec.Command("git", "describe", "--always", "--exclude=*", "--abbrev=8").Output()
	if err != nil {
		return "", fmt.Errorf("asking git for the commit: %w", err)
	}
	changes, err := exec.Command("git", "status", "--porcelain", "--", ".", ":(exclude)"+page).Output()
	if err != nil {
		return "", fmt.Errorf("asking git for changes: %w", err)
	}
	commit := strings.TrimSpace(string(out))
	if len(changes) > 0 {
		commit += "-dirty"
	}
	return commit, nil
}

func tierNames() string { return strings.Join(slices.Sorted(maps.Keys(tiers)), ", ") }

func choose(only string, minors []string) ([]string, error) {
	if only == "" {
		return minors, nil
	}
	chosen := strings.Split(only, ",")
	for _, minor := range chosen {
		if !slices.Contains(minors, minor) {
			return nil, fmt.Errorf("version %q is not in the matrix: expected some of %s", minor, strings.Join(minors, ", "))
		}
	}
	return chosen, nil
}

// result is what a row shows. The zero result is none.
type result struct{ version, passed, leftOut, commit string }

func (r result) String() string { return r.passed + " passed, " + r.leftOut + " left out" }

// total is the last line of hack/gotest.
var total = regexp.MustCompile(`(?m)^(\d+) passed, (\d+) failed(?:, \d+ skipped)?(?:, (\d+) left out)?$`)

// run runs the commands. Everything that they print is written to the log too.
func (t tier) run(minor, log string) (result, error) {
	assets := "bin/kube"
	if minor != newest {
		assets += "-" + minor
	}
	file, err := os.Create(log)
	if err != nil {
		return result{}, err
	}
	defer file.Close()
	commands := t.commands(minor, assets)
	if err = runTo(file, commands[:len(commands)-1]...); err == nil {
		warnIfBusy(file)
		err = runTo(file, commands[len(commands)-1])
	}
	if len(t.cleanup) > 0 {
		err = errors.Join(err, runTo(file, t.cleanup))
	}
	if err != nil {
		return result{}, fmt.Errorf("running on %s %s: %w; its output is in %s", t.of, minor, err, log)
	}
	out, err := os.ReadFile(log)
	if err != nil {
		return result{}, err
	}
	printed := t.printed(minor, assets)
	version, err := exec.Command(printed[0], printed[1:]...).Output()
	if err != nil {
		return result{}, fmt.Errorf("asking for the version: %s: %w", strings.Join(printed, " "), err)
	}
	r, err := read(string(out))
	r.version = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(string(version)), "Kubernetes "), "v")
	return r, err
}

// runTo runs commands up to the first that fails.
func runTo(file io.Writer, commands ...[]string) error {
	for _, command := range commands {
		run := exec.Command(command[0], command[1:]...)
		run.Stdout = io.MultiWriter(os.Stdout, file)
		run.Stderr = io.MultiWriter(os.Stderr, file)
		if err := run.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
		}
	}
	return nil
}

func read(out string) (result, error) {
	lines := total.FindAllStringSubmatch(out, -1)
	if len(lines) == 0 {
		return result{}, errors.New("the suites printed no total: expected a line like \"12 passed, 0 failed\"")
	}
	last := lines[len(lines)-1]
	if last[2] != "0" {
		return result{}, fmt.Errorf("%s specs failed", last[2])
	}
	return result{passed: last[1], leftOut: cmp.Or(last[3], "0")}, nil
}
