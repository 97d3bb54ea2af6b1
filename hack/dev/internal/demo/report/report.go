// SPDX-License-Identifier: Apache-2.0

// Package report renders what the demo saw: report.json for programs, a table for the terminal, and one HTML page with
// a timeline for each address. It is pure: it takes judged histories and returns bytes.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/history"
)

// Report is the whole demo.
type Report struct {
	Scenarios []Scenario
	// Setting says in a sentence each what was real and what stood in.
	Setting []string
}

// Scenario is one failure, without the guard and with it.
type Scenario struct {
	// Name is the scenario's name in report.json.
	Name string
	// Title is one line for people.
	Title string
	// Harm explains what happens without the guard.
	Harm string
	// Guard explains what the guard does about it.
	Guard string
	// Off and On are the two runs; nil where there was none.
	Off, On *Run
}

// Run is one scenario with the guard off or on, judged.
type Run struct {
	Started, Ended time.Time
	// Failed reports whether the run did not come to an end, or that its counts are not valid. It is drawn, and counts
	// for nothing.
	Failed     bool
	Duplicates int
	Leaks      int
	Holds      []history.Hold
	Records    []history.Record
	Overlaps   []history.Overlap
	Events     []history.Event
}

// Judge counts the harm that a history shows.
func Judge(h history.History, events []history.Event, started, ended time.Time) *Run {
	return &Run{
		Started: started, Ended: ended,
		Duplicates: h.Duplicates(), Leaks: h.Leaks(),
		Holds: h.Holds(), Records: h.Records(), Overlaps: h.Overlaps(),
		Events: events,
	}
}

// Harmed reports whether the run showed a duplicate or a leak.
func (r *Run) Harmed() bool { return r.Duplicates+r.Leaks > 0 }

// ended reports whether there is a run with valid counts.
func (r *Run) ended() bool { return r != nil && !r.Failed }

// Seconds is how long the run took, in tenths.
func (r *Run) Seconds() float64 { return math.Round(r.Ended.Sub(r.Started).Seconds()*10) / 10 }

// jsonRun is an element of report.json, whose form others rely on.
type jsonRun struct {
	Name       string  `json:"name"`
	Guard      bool    `json:"guard"`
	Duplicates int     `json:"duplicates"`
	Leaks      int     `json:"leaks"`
	Seconds    float64 `json:"seconds"`
}

// JSON is the content of report.json: every run that came to an end, each scenario first with the guard off.
func (r Report) JSON() ([]byte, error) {
	file := struct {
		Scenarios []jsonRun `json:"scenarios"`
	}{Scenarios: []jsonRun{}}
	for _, s := range r.Scenarios {
		for _, run := range []*Run{s.Off, s.On} {
			if !run.ended() {
				continue
			}
			file.Scenarios = append(file.Scenarios, jsonRun{
				Name: s.Name, Guard: run == s.On,
				Duplicates: run.Duplicates, Leaks: run.Leaks, Seconds: run.Seconds(),
			})
		}
	}
	content, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("rendering report.json: %w", err)
	}
	return append(content, '\n'), nil
}

// Verdict is nil when every scenario harmed with the guard off and none did with it on. The error otherwise names
// each scenario that did not come out so.
func (r Report) Verdict() error {
	var errs []error
	for _, s := range r.Scenarios {
		errs = append(errs, s.verdictOff(), s.verdictOn())
	}
	return errors.Join(errs...)
}

func (s Scenario) verdictOff() error {
	switch {
	case !s.Off.ended():
		return fmt.Errorf("%s, guard off: the run did not come to an end", s.Name)
	case !s.Off.Harmed():
		return fmt.Errorf("%s, guard off: no duplicate and no leak, so the scenario shows nothing; want at least one", s.Name)
	}
	return nil
}

func (s Scenario) verdictOn() error {
	switch {
	case !s.On.ended():
		return fmt.Errorf("%s, guard on: the run did not come to an end", s.Name)
	case s.On.Harmed():
		return fmt.Errorf("%s, guard on: duplicates %d, leaks %d; want none", s.Name, s.On.Duplicates, s.On.Leaks)
	}
	return nil
}
