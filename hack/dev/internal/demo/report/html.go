// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	_ "embed" // for the page's template
	"fmt"
	"html/template"

	"github.com/holdfast-dev/holdfast/internal/inspect/timeline"
)

//go:embed page.html.tmpl
var pageTemplate string

var page = template.Must(timeline.Templates().Funcs(template.FuncMap{
	"plural": plural,
	"ended":  (*Run).ended,
}).New("page").Parse(pageTemplate))

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
	Timeline timeline.Measured
	Label    string
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
			part.Runs = append(part.Runs, viewOf(run, run == s.On))
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

func viewOf(run *Run, guard bool) runView {
	state := "off"
	if guard {
		state = "on"
	}
	return runView{Guard: guard, Run: run, Timeline: timeline.Measure(run.figure()), Label: "Timeline of each address, guard " + state}
}

// figure is what is drawn of a run.
func (r *Run) figure() *timeline.Figure {
	f := &timeline.Figure{From: r.Started, To: r.Ended}
	for i := range r.Holds {
		h := &r.Holds[i]
		f.Holds = append(f.Holds, timeline.Hold{IP: h.IP, SandboxID: h.SandboxID, Node: h.Node, Pod: h.Pod, PodUID: h.PodUID, From: h.From, To: h.To, Open: h.Open})
	}
	for i := range r.Records {
		e := &r.Records[i]
		f.Entries = append(f.Entries, timeline.Entry{IP: e.IP, SandboxID: e.SandboxID, Pool: e.Pool, PodRef: e.PodRef, From: e.From, To: e.To, LeakedAt: e.LeakedAt})
	}
	for _, o := range r.Overlaps {
		f.Overlaps = append(f.Overlaps, timeline.Overlap{IP: o.IP, First: o.First, Second: o.Second, From: o.From, To: o.To})
	}
	for _, e := range r.Events {
		f.Events = append(f.Events, timeline.Event{At: e.At, Text: e.Text})
	}
	return f
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

// harm describes a run's counts.
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
