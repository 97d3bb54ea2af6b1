// SPDX-License-Identifier: Apache-2.0

// Package page writes docs/performance.md and its plots out of the files of the rows.
package page

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

// Row is a line of the table.
type Row struct {
	Name string
	// Title says what is measured, and Against what it is compared with; empty where the figure stands by itself.
	Title, Against string
	Unit           string
	Target         result.Target
	// Limit says why the target is not met where it is not.
	Limit string
}

// Machine is where the rows were measured.
type Machine struct {
	Cores                        int
	Processor                    string
	Kubernetes, Etcd, Go, Kernel string
}

// Page is what the files are written from.
type Page struct {
	Rows    []Row
	Machine Machine
	// Results is the folder with the files of the rows, Before the one with those of an older version; empty if there is none.
	Results, Before string
	// Quick says that the repeats are too few for a statement.
	Quick bool
}

//go:embed performance.md.tmpl
var text string

var tmpl = template.Must(template.New("performance.md").Funcs(template.FuncMap{"cpu": cpu, "values": values, "number": number, "interval": interval, "percent": percent, "holds": holds}).Parse(text))

type line struct {
	Row
	Measured, HasBefore bool
	Result, Before      result.Result
}

// Write writes the page as performance.md and a plot of each row below pictures/performance, both into dir.
func (p Page) Write(dir string) error {
	pictures := filepath.Join(dir, "pictures", "performance")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	lines, err := p.lines()
	if err != nil {
		return err
	}
	for _, l := range lines {
		if l.Measured {
			if err := os.WriteFile(filepath.Join(pictures, l.Name+".svg"), []byte(plot(l.Result)), 0o644); err != nil {
				return err
			}
		}
	}
	var out strings.Builder
	if err := tmpl.Execute(&out, map[string]any{"Machine": p.Machine, "Lines": lines, "Quick": p.Quick, "Samples": conditionsOf(lines)}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "performance.md"), []byte(out.String()), 0o644)
}

func (p Page) lines() ([]line, error) {
	lines := make([]line, 0, len(p.Rows))
	for _, r := range p.Rows {
		l := line{Row: r}
		var err error
		if l.Result, l.Measured, err = result.Read(p.Results, r.Name); err != nil {
			return nil, err
		}
		if p.Before != "" {
			if l.Before, l.HasBefore, err = result.Read(p.Before, r.Name); err != nil {
				return nil, err
			}
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// conditions under which the samples were taken.
type conditions struct {
	First, Last       string
	LowLoad, HighLoad float64
	Versions, Before  []string
}

func conditionsOf(lines []line) conditions {
	var c conditions
	versions, before := map[string]bool{}, map[string]bool{}
	for _, l := range lines {
		for _, s := range l.Before.Samples {
			before[s.Version] = true
		}
		for _, s := range l.Result.Samples {
			day := s.Began.Format("2006-01-02")
			if len(versions) == 0 {
				c.First, c.Last, c.LowLoad, c.HighLoad = day, day, s.Load, s.Load
			}
			c.First, c.Last = min(c.First, day), max(c.Last, day)
			c.LowLoad, c.HighLoad = min(c.LowLoad, s.Load), max(c.HighLoad, s.Load)
			versions[s.Version] = true
		}
	}
	c.Versions, c.Before = slices.Sorted(maps.Keys(versions)), slices.Sorted(maps.Keys(before))
	return c
}

// cpu lists, for each arm of a row, the medians of the processor time of each process in milliseconds.
func cpu(r result.Result) []string {
	return overArms(r, func(t result.Turn) map[string]float64 {
		all := map[string]float64{"wall time": t.WallSeconds / float64(t.Operations) * 1000}
		for process, seconds := range t.CPUSeconds {
			all[process] = seconds * 1000
		}
		return all
	})
}

// values lists, for each arm of a row, the medians of what the arm measured.
func values(r result.Result) []string {
	return overArms(r, func(t result.Turn) map[string]float64 { return t.Values })
}

func overArms(r result.Result, of func(result.Turn) map[string]float64) []string {
	seen := map[string]map[string][]float64{}
	for _, s := range r.Samples {
		for name, t := range s.Arms {
			if seen[name] == nil {
				seen[name] = map[string][]float64{}
			}
			for what, value := range of(t) {
				seen[name][what] = append(seen[name][what], value)
			}
		}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		var parts []string
		for _, what := range slices.Sorted(maps.Keys(seen[name])) {
			if median := result.Median(seen[name][what]).Median; median != 0 {
				parts = append(parts, fmt.Sprintf("%s %s", what, number(median)))
			}
		}
		if len(parts) > 0 {
			lines = append(lines, fmt.Sprintf("| %s | %s |", name, strings.Join(parts, ", ")))
		}
	}
	return lines
}

func number(value float64) string { return fmt.Sprintf("%.3g", value) }

func interval(i result.Interval) string {
	return fmt.Sprintf("%s (%s to %s)", number(i.Median), number(i.Low), number(i.High))
}

func percent(value float64) string { return fmt.Sprintf("%.2f", value) }

// holds says whether a target holds, and that this is undecided where it would for one end of the interval and not for the other.
func holds(r result.Result) string {
	low, high := r.Target.Holds(r.Ratio.Low), r.Target.Holds(r.Ratio.High)
	switch {
	case low && high:
		return "yes"
	case low || high:
		return "undecided"
	default:
		return "no"
	}
}
