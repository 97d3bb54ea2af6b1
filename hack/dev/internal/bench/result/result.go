// SPDX-License-Identifier: Apache-2.0

// Package result has what a row of the benchmark measured: samples, their median with its interval, and whether the target holds.
package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Result is the file of a row.
type Result struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Ratio is the figure of the row: what was measured over what it is compared with, or the measured value where the row has no comparison.
	Ratio  Interval `json:"ratio"`
	Target Target   `json:"target"`
	Holds  bool     `json:"holds"`
	// Limit explains why a target that does not hold is not met.
	Limit   string   `json:"limit"`
	Samples []Sample `json:"samples"`
}

// Interval is a median and the interval in which it lies with a confidence of 95 %.
type Interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Sample is one repeat: a turn of each arm, one after the other.
type Sample struct {
	// Version is that of the manager.
	Version string    `json:"version"`
	Began   time.Time `json:"began"`
	// Load is the load average of the last minute when the repeat began.
	Load   float64         `json:"load"`
	Figure float64         `json:"figure"`
	Arms   map[string]Turn `json:"arms"`
}

// Turn is what one arm did in one repeat.
type Turn struct {
	Operations  int     `json:"operations"`
	WallSeconds float64 `json:"wallSeconds"`
	// CPUSeconds of each process, for one operation.
	CPUSeconds map[string]float64 `json:"cpuSecondsPerOperation"`
	// Values are measured by the arm itself: a latency in seconds, calls, bytes.
	Values map[string]float64 `json:"values,omitempty"`
}

// PerSecond is the throughput of a turn.
func (t Turn) PerSecond() float64 { return float64(t.Operations) / t.WallSeconds }

// Plus adds a slice of the same turn. What the arm measured is averaged over the operations.
func (t Turn) Plus(slice Turn) Turn {
	sum := Turn{Operations: t.Operations + slice.Operations, WallSeconds: t.WallSeconds + slice.WallSeconds}
	share := float64(slice.Operations) / float64(sum.Operations)
	sum.CPUSeconds, sum.Values = average(t.CPUSeconds, slice.CPUSeconds, share), average(t.Values, slice.Values, share)
	return sum
}

func average(a, b map[string]float64, share float64) map[string]float64 {
	if len(a)+len(b) == 0 {
		return nil
	}
	all := map[string]float64{}
	for name, value := range a {
		all[name] += value * (1 - share)
	}
	for name, value := range b {
		all[name] += value * share
	}
	return all
}

// Op compares a median with a target.
type Op string

const (
	// AtLeast holds for a median that is not below the target.
	AtLeast Op = ">="
	// AtMost holds for a median that is not above the target.
	AtMost Op = "<="
)

// Target of a row.
type Target struct {
	Op    Op      `json:"op"`
	Value float64 `json:"value"`
}

// Holds reports whether a median meets the target.
func (t Target) Holds(median float64) bool {
	switch t.Op {
	case AtLeast:
		return median >= t.Value
	case AtMost:
		return median <= t.Value
	}
	return false
}

// New makes the result of a row out of its samples. limit is kept where the target does not hold.
func New(name, unit, limit string, target Target, samples []Sample) (Result, error) {
	figures := make([]float64, 0, len(samples))
	for i, s := range samples {
		if math.IsNaN(s.Figure) || math.IsInf(s.Figure, 0) {
			return Result{}, fmt.Errorf("row %s: the figure of repeat %d is no number: an arm did no operation, or took no time", name, i+1)
		}
		figures = append(figures, s.Figure)
	}
	r := Result{Name: name, Unit: unit, Ratio: Median(figures), Target: target, Samples: samples}
	if r.Holds = target.Holds(r.Ratio.Median); !r.Holds {
		r.Limit = limit
	}
	return r, nil
}

// Write writes the file of the row into a folder, which it makes.
func (r Result) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false) // the comparison of the target stays readable
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("row %s: %w", r.Name, err)
	}
	return os.WriteFile(file(dir, r.Name), content.Bytes(), 0o644)
}

// Read reads the file of a row; measured is false where there is none.
func Read(dir, name string) (r Result, measured bool, err error) {
	content, err := os.ReadFile(file(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil {
		return r, false, fmt.Errorf("%s: %w; delete the file to measure the row again", file(dir, name), err)
	}
	return r, true, nil
}

func file(dir, name string) string { return filepath.Join(dir, name+".json") }
