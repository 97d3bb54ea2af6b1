// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// copyTree copies the files that git knows, as they are now, into a fresh folder.
func copyTree(to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("listing the files of the repository: %w", err)
	}
	for _, file := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		if err := copyFile(file, filepath.Join(to, file)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, os.ErrNotExist) { // deleted, and not yet committed
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}

// try breaks the tree, runs the tests of the packages that have to notice, and gives the first that did; empty if none did. An error says
// that the mutant could not be tried.
func try(tree, assets string, m mutant) (catcher string, err error) {
	restore, err := m.apply(tree)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, restore()) }()
	for _, folder := range m.by {
		cmd := exec.Command("go", arguments(folder, m.histories)...)
		cmd.Dir, cmd.Env = tree, append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "GINKGO_EDITOR_INTEGRATION=1")
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		err := cmd.Run()
		if err == nil {
			continue
		}
		catcher, err := verdict(output.String())
		if errors.Is(err, errNotStarted) {
			continue // no test has noticed: the suite may fail to start for any reason
		}
		if err != nil {
			return "", fmt.Errorf("the mutant %q in %s: %w:\n%s", m.rule, m.file, err, tail(output.String()))
		}
		return strings.TrimPrefix(folder, "./") + ": " + catcher, nil
	}
	return "", nil
}

const (
	// simulation is the package whose histories can notice a mutant. It is in a module of its own.
	simulation, simulationModule = "./hack/dev/test/sim", "hack/dev"
	// simulationSeed is the first seed that is played.
	simulationSeed = 1
	// simulationHistories is how many are played of a mutant that does not say.
	simulationHistories = 300
)

// arguments are those of the go command that tries a folder. The simulation plays histories from a fixed seed, and ends at the first that is violated.
func arguments(folder string, histories int) []string {
	if folder != simulation {
		return append([]string{"test", "-count=1", "-failfast", "-timeout=10m"}, strings.Fields(folder)...)
	}
	return []string{"-C", simulationModule, "test", "-count=1", "-timeout=60m", "./test/sim", "-run=^TestExplore$", "-args", fmt.Sprintf("-sim.seed=%d", simulationSeed),
		fmt.Sprintf("-sim.count=%d", cmp.Or(histories, simulationHistories)), "-sim.stop"}
}

var (
	explored = regexp.MustCompile(`(?m)(seed \d+, history \d+: .+)$`)
	colors   = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	failed   = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	spec     = regexp.MustCompile(`(?m)^\s*\[FAIL\] (.+)$`)
	body     = regexp.MustCompile(`(?m)^\s*\[FAIL\] (.*\[It\].*)$`)
	before   = regexp.MustCompile(`(?m)^\s*\[FAIL\] \[(Synchronized)?BeforeSuite\].*$`)
	panicked = regexp.MustCompile(`(?m)^panic: (.+)$`)
)

// errNotStarted: a suite failed before any of its specs.
var errNotStarted = errors.New("the suite did not start")

// verdict names the test that failed, by the output of a go test that did: a spec rather than what comes before specs.
func verdict(output string) (string, error) {
	output = colors.ReplaceAllString(output, "")
	if strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]") {
		return "", errors.New("it does not compile")
	}
	if at := before.FindString(output); at != "" && !body.MatchString(output) {
		return "", fmt.Errorf("%w: %s", errNotStarted, strings.TrimSpace(at))
	}
	for _, pattern := range []*regexp.Regexp{explored, body, spec, failed, panicked} {
		if found := pattern.FindStringSubmatch(output); found != nil {
			return found[1], nil
		}
	}
	return "", errors.New("go test failed, and no test did")
}

// tail is the end of an output, which says what went wrong.
func tail(output string) string {
	const most = 2000
	if len(output) > most {
		return "…" + output[len(output)-most:]
	}
	return output
}
