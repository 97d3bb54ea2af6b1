// SPDX-License-Identifier: Apache-2.0

// Command verify checks the house rules that a linter cannot: license headers,
// file sizes, links and make targets in the documents, and paths of the machine
// that it runs on. It runs at the top of the repository, looks at every file
// that git tracks or would add, and exits with 1 if a rule is broken.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	findings, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(2)
	}
	for _, finding := range findings {
		fmt.Fprintln(os.Stderr, finding)
	}
	if len(findings) > 0 {
		fmt.Fprintf(os.Stderr, "verify: %d house rules broken\n", len(findings))
		os.Exit(1)
	}
}

func run() ([]string, error) {
	listed, err := output("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for path := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // deleted, not yet committed
		}
		if err != nil {
			return nil, err
		}
		files[path] = string(text)
	}
	words, err := thisMachine()
	if err != nil {
		return nil, err
	}
	return check(files, words), nil
}

// thisMachine lists what would tell where a file was written: the checkout, the
// home and the module cache folder, and the host of a private module proxy.
func thisMachine() ([]string, error) {
	checkout, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	goEnv, err := output("go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, proxy, _ := strings.Cut(strings.TrimSpace(goEnv), "\n")
	return machineStrings([]string{checkout, home, cache}, proxy), nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}
