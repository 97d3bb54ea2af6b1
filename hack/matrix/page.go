// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// table is where the rows of a tier are on the page: after the header and before the end.
type table struct{ header, end, command string }

func newTable(title, tier string) table {
	t := table{
		header:  "| " + title + " | Command | Passed | Left out |\n|---|---|---|---|\n",
		end:     "<!-- end of the rows of make matrix -->",
		command: "make matrix ONLY=",
	}
	if tier != "" {
		t.end, t.command = "<!-- end of the rows of make matrix TIER="+tier+" -->", "make matrix TIER="+tier+" ONLY="
	}
	return t
}

func (t table) update(path, minor string, r result) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := t.withRow(string(page), minor, r)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}

// withRow is the page with the row of a minor version replaced, or without it where there is no result.
func (t table) withRow(page, minor string, r result) (string, error) {
	before, rest, found := strings.Cut(page, t.header)
	rows, after, closed := strings.Cut(rest, t.end)
	if !found || !closed {
		return "", fmt.Errorf("the page has no table of the matrix: expected the line %q, and after the rows %q", strings.SplitN(t.header, "\n", 2)[0], t.end)
	}
	kept := slices.DeleteFunc(strings.Split(strings.TrimSpace(rows), "\n"), func(row string) bool {
		return row == "" || strings.HasPrefix(row, "| "+minor+".")
	})
	if r != (result{}) {
		kept = append(kept, fmt.Sprintf("| %s | `%s%s` | %s | %s |", r.version, t.command, minor, r.passed, r.leftOut))
	}
	slices.Sort(kept)
	text := strings.Join(kept, "\n")
	if text != "" {
		text += "\n"
	}
	return before + t.header + text + "\n" + t.end + after, nil
}
