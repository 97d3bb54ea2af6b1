// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// table is where the rows of a tier are on the page: after the header and before the end.
type table struct{ title, header, end, command string }

func newTable(title, tier string) table {
	return table{
		title:   title,
		header:  "| " + title + " | Command | Passed | Left out | Commit |\n|---|---|---|---|---|\n",
		end:     "<!-- end of the rows of make matrix TIER=" + tier + " -->",
		command: "make matrix TIER=" + tier + " ONLY=",
	}
}

// summary is the table at the top of the page, which is made of the rows of all others.
const (
	summaryHeader = "| Versions of | Tried | With each | Rows |\n|---|---|---|---|\n"
	summaryEnd    = "<!-- end of the summary of make matrix -->"
)

func (t table) update(path, minor string, r result) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := t.withRow(string(page), minor, r)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if changed, err = withSummary(changed); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}

// withSummary is the page with the summary of the rows that it has.
func withSummary(page string) (string, error) {
	before, _, after, err := cut(page, summaryHeader, summaryEnd)
	if err != nil {
		return "", err
	}
	var summary strings.Builder
	for _, name := range order {
		t := tiers[name]
		_, rows, _, err := cut(page, t.table.header, t.table.end)
		if err != nil {
			return "", err
		}
		var versions []string
		for _, row := range rows {
			versions = append(versions, strings.TrimSpace(strings.Split(row, "|")[1]))
		}
		if len(versions) == 0 {
			versions = []string{"none"}
		}
		fmt.Fprintf(&summary, "| %s | %s | %s | `TIER=%s` |\n", t.of, strings.Join(versions, ", "), t.what, name)
	}
	return before + summaryHeader + summary.String() + "\n" + summaryEnd + after, nil
}

// cut gives what is before a table, its rows, and what is after its end.
func cut(page, header, end string) (before string, rows []string, after string, err error) {
	before, rest, found := strings.Cut(page, header)
	text, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", nil, "", fmt.Errorf("the page has no table of the matrix: expected the line %q, and after the rows %q", strings.SplitN(header, "\n", 2)[0], end)
	}
	rows = slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"), func(row string) bool { return row == "" })
	return before, rows, after, nil
}

// withRow is the page with the row of a minor version replaced, or without it where there is no result.
func (t table) withRow(page, minor string, r result) (string, error) {
	before, rows, after, err := cut(page, t.header, t.end)
	if err != nil {
		return "", err
	}
	rows = slices.DeleteFunc(rows, func(row string) bool { return strings.HasPrefix(row, "| "+minor+".") })
	if r != (result{}) {
		rows = append(rows, fmt.Sprintf("| %s | `%s%s` | %s | %s | `%s` |", r.version, t.command, minor, r.passed, r.leftOut, r.commit))
	}
	slices.Sort(rows)
	text := strings.Join(rows, "\n")
	if text != "" {
		text += "\n"
	}
	return before + t.header + text + "\n" + t.end + after, nil
}
