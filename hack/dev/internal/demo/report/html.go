// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	_ "embed" // for the page's template
	"fmt"
	"html/template"
)

//go:embed page.html.tmpl
var pageTemplate string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"px":     func(v float64) string { return fmt.Sprintf("%.1f", v) },
	"add":    func(a, b float64) float64 { return a + b },
	"plural": plural,
	"ended":  (*Run).ended,
}).Parse(pageTemplate))

// pageView is what the template shows.
type pageView struct {
	Report  Report
	Passed  bool
	Failed  []string
	OffText string
	OnText  string
	Parts   []partView
}

type partView struct {
	Scenario
	ID   string
	Runs []runView
}

type runView struct {
	Guard    bool
	Run      *Run
	Timeline timeline
}

// HTML is the page: one file, with no reference to any other.
func (r Report) HTML() ([]byte, error) {
	view := pageView{Report: r, Failed: r.failures()}
	view.Passed = len(view.Failed) == 0
	var off, on Run
	for _, s := range r.Scenarios {
		part := partView{Scenario: s, ID: s.Name}
		for _, run := range []*Run{s.Off, s.On} {
			if run == nil {
				continue
			}
			sum := &off
			if run == s.On {
				sum = &on
			}
			if run.ended() {
				sum.Duplicates += run.Duplicates
				sum.Leaks += run.Leaks
			}
			part.Runs = append(part.Runs, runView{Guard: run == s.On, Run: run, Timeline: timelineOf(run)})
		}
		view.Parts = append(view.Parts, part)
	}
	view.OffText, view.OnText = harm(&off), harm(&on)
	var b bytes.Buffer
	if err := page.Execute(&b, view); err != nil {
		return nil, fmt.Errorf("rendering report.html: %w", err)
	}
	return b.Bytes(), nil
}

// failures are the lines of Verdict's error.
func (r Report) failures() []string {
	var lines []string
	for _, s := range r.Scenarios {
		for _, err := range []error{s.verdictOff(), s.verdictOn()} {
			if err != nil {
				lines = append(lines, err.Error())
			}
		}
	}
	return lines
}

// harm tells a run's counts in words.
func harm(r *Run) string {
	if !r.Harmed() {
		return "no duplicate, no leak"
	}
	return plural(r.Duplicates, "duplicate") + ", " + plural(r.Leaks, "leak")
}

func plural(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
