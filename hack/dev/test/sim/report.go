// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Report is the result of an exploration, as in bin/robustness/report.json.
type Report struct {
	Histories  int            `json:"histories"`
	Steps      int            `json:"steps"`
	Faults     map[string]int `json:"faults"`
	Rows       map[string]int `json:"rows"`
	Violations int            `json:"violations"`
	// Seeds are those whose history was violated.
	Seeds   []uint64 `json:"seeds"`
	Seconds float64  `json:"seconds"`
	// ByHand is how many addresses waited for a user in the end, as described in the runbook.
	ByHand int `json:"byHand"`
	// Twice and Different count the histories that were played again, and those that were not the same then.
	Twice     int `json:"twice"`
	Different int `json:"different"`
	// First and Stride say which seeds were played: First, First+Stride, …
	First  uint64 `json:"first"`
	Stride uint64 `json:"stride,omitempty"`
}

// NewReport counts every kind of fault and every row from zero, so that one that never came true shows.
func NewReport() *Report {
	r := &Report{Faults: map[string]int{}, Rows: map[string]int{}, Seeds: []uint64{}}
	for _, kind := range slices.Concat(kinds, rareKinds) {
		r.Faults[string(kind)] = 0
	}
	for table, rows := range rowsOf {
		for _, row := range rows {
			r.Rows[fmt.Sprintf("%s-%s", table, row)] = 0
		}
	}
	return r
}

// Add counts a history.
func (r *Report) Add(seed uint64, result Result) {
	r.Histories++
	r.Steps += result.Steps
	r.ByHand += result.ByHand
	for kind, n := range result.Faults {
		r.Faults[string(kind)] += n
	}
	for row, n := range result.Rows {
		r.Rows[row] += n
	}
	if len(result.Violations) > 0 {
		r.Violations++
		r.Seeds = append(r.Seeds, seed)
	}
}

// Merge adds another process's report; the time is not added.
func (r *Report) Merge(o *Report) {
	r.Histories += o.Histories
	r.Steps += o.Steps
	r.ByHand += o.ByHand
	r.Violations += o.Violations
	r.Twice += o.Twice
	r.Different += o.Different
	r.Seeds = append(r.Seeds, o.Seeds...)
	slices.Sort(r.Seeds)
	for key, n := range o.Faults {
		r.Faults[key] += n
	}
	for key, n := range o.Rows {
		r.Rows[key] += n
	}
}

// Write writes the report to a file.
func (r *Report) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Never are the kinds of faults and the rows that never came true. A history that comes to Unclassified is violated.
func (r *Report) Never() []string {
	var never []string
	for _, counts := range []map[string]int{r.Faults, r.Rows} {
		for _, key := range slices.Sorted(maps.Keys(counts)) {
			if counts[key] == 0 && key != unclassified {
				never = append(never, key)
			}
		}
	}
	return never
}

// String is the report in a few lines.
func (r *Report) String() string {
	var lines []string
	lines = append(lines, fmt.Sprintf("%d histories, %d steps, %d violated %v; %d addresses released by hand; %d played twice, %d of them not the same; %.0f s",
		r.Histories, r.Steps, r.Violations, r.Seeds, r.ByHand, r.Twice, r.Different, r.Seconds))
	for name, counts := range map[string]map[string]int{"faults": r.Faults, "rows": r.Rows} {
		var all []string
		for _, key := range slices.Sorted(maps.Keys(counts)) {
			all = append(all, fmt.Sprintf("%s %d", key, counts[key]))
		}
		lines = append(lines, name+": "+strings.Join(all, ", "))
	}
	slices.Sort(lines[1:])
	if never := r.Never(); len(never) > 0 {
		lines = append(lines, "NEVER PLAYED: "+strings.Join(never, ", "))
	}
	return strings.Join(lines, "\n")
}
