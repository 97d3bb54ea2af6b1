// SPDX-License-Identifier: Apache-2.0

// Command matrix runs the suites of the API server on several versions of Kubernetes, each built from its modules, and writes a row for each
// that passed into docs/compatibility.md. A version that fails loses its row; rows of versions that it does not run stay.
//
//	go run ./hack/matrix [-only 1.31,1.33] [-page FILE] [-logs DIR]
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

// minors are the versions that hack/kube builds for the matrix.
var minors = []string{"1.31", "1.33", "1.35", "1.37"}

func main() {
	only := flag.String("only", "", "minor versions, with commas between them; all of "+strings.Join(minors, ", ")+" by default")
	page := flag.String("page", "docs/compatibility.md", "page with the table")
	logs := flag.String("logs", "bin/matrix", "folder that gets the output of each version")
	flag.Parse()
	if err := runAll(*only, *page, *logs); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func runAll(only, page, logs string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	var failures []error
	for i, minor := range chosen {
		fmt.Printf("==> Kubernetes %s (%d of %d)\n", minor, i+1, len(chosen))
		start := time.Now()
		result, failure := runOne(minor, filepath.Join(logs, minor+".log"))
		if failure != nil {
			failures = append(failures, failure)
			fmt.Printf("==> Kubernetes %s: %v\n", minor, failure)
		} else {
			fmt.Printf("==> Kubernetes %s: %s in %.0f s\n", minor, result, time.Since(start).Seconds())
		}
		// Each row is written at once: a later version may be interrupted.
		if err := updatePage(page, minor, result); err != nil {
			return err
		}
	}
	return errors.Join(failures...)
}

func choose(only string) ([]string, error) {
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
type result struct{ version, passed, leftOut string }

func (r result) String() string { return r.passed + " passed, " + r.leftOut + " left out" }

// total is the last line of hack/gotest.
var total = regexp.MustCompile(`(?m)^(\d+) passed, (\d+) failed(?:, \d+ skipped)?(?:, (\d+) left out)?$`)

// runOne builds the API server and runs the suites. Everything that they print goes to the log too.
func runOne(minor, log string) (result, error) {
	assets := "bin/kube"
	if minor != kubeversion.Newest.String() {
		assets += "-" + minor
	}
	file, err := os.Create(log)
	if err != nil {
		return result{}, err
	}
	defer file.Close()
	for _, command := range [][]string{
		{"make", "kube", "build", "helm-tool", "KUBE_VERSION=" + minor, "KUBE_BIN=" + assets},
		{"go", "run", "./hack/gotest", "-assets", assets, "suites"},
	} {
		run := exec.Command(command[0], command[1:]...)
		run.Stdout = io.MultiWriter(os.Stdout, file)
		run.Stderr = io.MultiWriter(os.Stderr, file)
		if err := run.Run(); err != nil {
			return result{}, fmt.Errorf("running the suites on Kubernetes %s: %s: %w; its output is in %s", minor, strings.Join(command, " "), err, log)
		}
	}
	out, err := os.ReadFile(log)
	if err != nil {
		return result{}, err
	}
	version, err := exec.Command(filepath.Join(assets, "kube-apiserver"), "--version").Output()
	if err != nil {
		return result{}, err
	}
	r, err := read(string(out))
	r.version = strings.TrimPrefix(strings.TrimSpace(string(version)), "Kubernetes v")
	return r, err
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
