// SPDX-License-Identifier: Apache-2.0

// Package page writes what was measured into docs/performance.md, with a plot of each row.
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
	"time"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

// Row is a line of the table.
type Row struct {
	Name string
	// Title describes what is measured, and Against what it is compared with; empty where the figure stands by itself.
	Title, Against string
	Unit           string
	Target         result.Target
	// Limit explains why the target is not met where it is not.
	Limit string
}

// Machine is where the rows were measured.
type Machine struct {
	Cores                        int
	Processor                    string
	Kubernetes, Etcd, Go, Kernel string
}

// String names the machine in a sentence.
func (m Machine) String() string {
	return fmt.Sprintf("%d × %s, Linux %s, Kubernetes %s, etcd %s and %s", m.Cores, m.Processor, m.Kernel, m.Kubernetes, m.Etcd, m.Go)
}

// Page is what rows are written into.
type Page struct {
	// Rows are all rows, in the order of the page.
	Rows    []Row
	Machine Machine
	// Quick reports whether the repeats are too few for a statement.
	Quick bool
}

//go:embed performance.md.tmpl
var text string

var tmpl = template.Must(template.New("performance.md").Funcs(template.FuncMap{"cpu": cpu, "values": values, "number": number, "interval": interval, "measured": measured}).Parse(text))

// Add writes rows that were measured now into performance.md below dir, and their plots into pictures/performance. All other rows of the page stay as
// they are. before says that the rows are those of an older version, which have a column of their own.
func (p Page) Add(dir string, rows []result.Result, before bool) error {
	path := filepath.Join(dir, "performance.md")
	shown, err := read(path)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if before {
			shown.before[r.Name] = former(r)
			continue
		}
		if err := p.measure(dir, shown, r); err != nil {
			return err
		}
	}
	var out strings.Builder
	if err := tmpl.ExecuteTemplate(&out, "performance.md", map[string]any{"Quick": p.Quick, "Lines": shown.lines(p.Rows), "Sections": shown.inOrder(p.Rows)}); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}

// measure replaces what the page shows of a row, and its plot.
func (p Page) measure(dir string, shown *shown, r result.Result) error {
	at := slices.IndexFunc(p.Rows, func(row Row) bool { return row.Name == r.Name })
	if at < 0 {
		return fmt.Errorf("row %s was measured and is none of the page", r.Name)
	}
	pictures := filepath.Join(dir, "pictures", "performance")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(pictures, r.Name+".svg"), []byte(plot(r)), 0o644); err != nil {
		return err
	}
	var section strings.Builder
	err := tmpl.ExecuteTemplate(&section, "section", map[string]any{"Row": p.Rows[at], "Result": r, "Machine": p.Machine.String()})
	shown.cells[r.Name], shown.sections[r.Name] = cells(p.Rows[at], &r), strings.TrimSpace(section.String())
	return err
}

// cells are those of a row in the table, but for the column of an older version; result is nil where the row was never measured.
func cells(r Row, measured *result.Result) []string {
	target := fmt.Sprintf("%s %s", r.Target.Op, number(r.Target.Value))
	if r.Unit != "ratio" {
		target += " " + r.Unit
	}
	if measured == nil {
		return []string{r.Title, r.Against, target, "not measured", "", ""}
	}
	return []string{fmt.Sprintf("[%s](#%s)", r.Title, r.Name), r.Against, target, interval(measured.Ratio), holds(*measured), commits(*measured)}
}

// former is what an older version gave: a figure, or why that version cannot have the row.
func former(r result.Result) string {
	if len(r.Samples) == 0 {
		return "none: " + r.Limit
	}
	return interval(r.Ratio) + " at " + commits(r)
}

// commits are the versions of a row's samples.
func commits(r result.Result) string {
	versions := map[string]bool{}
	for _, s := range r.Samples {
		versions["`"+s.Version+"`"] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(versions)), ", ")
}

// measured describes at which commit, when and under which load a row was measured.
func measured(r result.Result) string {
	first, last := r.Samples[0].Began, r.Samples[len(r.Samples)-1].Began
	on := first.Format(time.DateOnly)
	if day := last.Format(time.DateOnly); day != on {
		on += " to " + day
	}
	low, high := r.Samples[0].Load, r.Samples[0].Load
	for _, s := range r.Samples {
		low, high = min(low, s.Load), max(high, s.Load)
	}
	return fmt.Sprintf("Measured at %s on %s, at a load average of %.2f to %.2f when a repeat began", commits(r), on, low, high)
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

// holds reports whether a target holds, and that this is undecided where it would for one end of the interval and not for the other.
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
