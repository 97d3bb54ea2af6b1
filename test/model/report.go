// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// report is what is written for machines. States are those of the scenarios with all rules; switches and gaps are not counted.
type report struct {
	States     int            `json:"states"`
	Violations int            `json:"violations"`
	Switches   []switchReport `json:"switches"`
}

type switchReport struct {
	Name  string `json:"name"`
	Found bool   `json:"found"`
	Steps int    `json:"steps"`
}

// conclude prints what was found and sums it up. The errors are of the checker itself.
func conclude(w io.Writer, all []*job) (report, error) {
	sum := report{Switches: []switchReport{}}
	for _, j := range all {
		if j.err != nil {
			return sum, j.err
		}
	}
	fmt.Fprintf(w, "\nWith all rules:\n\n  %-38s %10s %11s %6s %9s  %s\n", "scenario", "states", "transitions", "depth", "time", "found")
	for _, j := range all {
		if j.allRules() {
			sum.States += j.result.States
			sum.Violations += j.violations()
			fmt.Fprintf(w, "  %-38s %10d %11d %6d %9s  %s\n", j.scenario, j.result.States, j.result.Steps, j.result.Depth, j.took.Round(10*time.Millisecond), j.found())
		}
	}
	fmt.Fprintf(w, "\n  %d states, %d violations\n", sum.States, sum.Violations)
	for _, j := range all {
		if j.allRules() {
			describe(w, "VIOLATION in "+j.scenario, j.result.Violation)
			describe(w, "NO PROGRESS in "+j.scenario, j.result.Stuck)
		}
	}
	concludeSwitches(w, all, &sum)
	concludeRelaxed(w, all, &sum)
	concludeGaps(w, all)
	return sum, nil
}

func (j *job) violations() int {
	if j.result.Violation != nil || j.result.Stuck != nil {
		return 1
	}
	return 0
}

func (j *job) found() string {
	switch {
	case j.result.Violation != nil:
		return "a violation"
	case j.result.Stuck != nil:
		return "no progress"
	case !j.result.Complete:
		return "no violation, to this depth"
	}
	return "no violation; progress from every state"
}

func concludeSwitches(w io.Writer, all []*job, sum *report) {
	fmt.Fprintf(w, "\nEach rule turned off, with the shortest way to the harm:\n")
	for _, j := range all {
		if j.name == "" || j.relaxed {
			continue
		}
		harm := j.harm()
		sum.Switches = append(sum.Switches, switchReport{Name: j.name, Found: harm != nil, Steps: harm.steps()})
		if harm == nil {
			fmt.Fprintf(w, "\nNOT FOUND: %s (%s, %d states)\n", j.name, j.scenario, j.result.States)
			continue
		}
		describe(w, fmt.Sprintf("Off: %s (%s)", j.name, j.scenario), harm)
	}
}

// concludeRelaxed says which rules save time or writes only. A harm is a violation: the rule is worth more than is written of it.
func concludeRelaxed(w io.Writer, all []*job, sum *report) {
	fmt.Fprintf(w, "\nTurned off without harm in the scenario explored:\n\n")
	for _, j := range all {
		switch {
		case !j.relaxed:
		case j.violations() > 0:
			sum.Violations++
			describe(w, fmt.Sprintf("HARM: %s (%s)", j.name, j.scenario), j.result.Violation)
			describe(w, fmt.Sprintf("HARM: %s (%s)", j.name, j.scenario), j.result.Stuck)
		default:
			fmt.Fprintf(w, "  %s (%s, %d states): %s\n", j.name, j.scenario, j.result.States, j.found())
		}
	}
}

func concludeGaps(w io.Writer, all []*job) {
	fmt.Fprintf(w, "\nWithout an assumption (docs/model.md), with all rules; these are no violations of the design, but where it ends:\n")
	for _, j := range all {
		switch {
		case !j.gap:
		case j.result.Violation == nil:
			fmt.Fprintf(w, "\n%s: nothing found in %d states\n", j.scenario, j.result.States)
		default:
			describe(w, j.scenario+": "+j.about, j.result.Violation)
		}
	}
}

func describe(w io.Writer, title string, found *story) {
	if found == nil {
		return
	}
	fmt.Fprintf(w, "\n%s: %d steps\n", title, found.steps())
	for i, line := range found.lines {
		fmt.Fprintf(w, "  %2d. %s\n", i+1, line)
	}
	fmt.Fprintf(w, "   => %s\n", found.why)
}

// failed says why the run is no success; empty if it is one.
func (r report) failed() string {
	if r.Violations > 0 {
		return fmt.Sprintf("%d explorations that must hold do not", r.Violations)
	}
	missed := 0
	for _, one := range r.Switches {
		if !one.Found {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Sprintf("the model misses %d rules that were turned off", missed)
	}
	return ""
}

func (r report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the report's folder: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
