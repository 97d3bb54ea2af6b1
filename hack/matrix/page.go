// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// The rows of the table are between these lines.
const (
	header = "| API server of Kubernetes | Command | Passed | Left out |\n|---|---|---|---|\n"
	end    = "<!-- end of the rows of make matrix -->"
)

func updatePage(path, minor string, r result) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := withRow(string(page), minor, r)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}

// withRow is the page with the row of a minor version replaced, or without it where there is no result.
func withRow(page, minor string, r result) (string, error) {
	before, rest, found := strings.Cut(page, header)
	rows, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("the page has no table of the matrix: expected the line %q, and after the rows %q", strings.SplitN(header, "\n", 2)[0], end)
	}
	kept := slices.DeleteFunc(strings.Split(strings.TrimSpace(rows), "\n"), func(row string) bool {
		return row == "" || strings.HasPrefix(row, "| "+minor+".")
	})
	if r != (result{}) {
		kept = append(kept, fmt.Sprintf("| %s | `make matrix ONLY=%s` | %s | %s |", r.version, minor, r.passed, r.leftOut))
	}
	slices.Sort(kept)
	text := strings.Join(kept, "\n")
	if text != "" {
		text += "\n"
	}
	return before + header + text + "\n" + end + after, nil
}
