// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tally counts leaf tests: a test with subtests is its subtests, and a Ginkgo
// suite is its specs, without those that its labels leave out. leftOut are
// specs that the API server cannot show.
type tally struct{ passed, failed, skipped, leftOut int }

func (t tally) plus(o tally) tally {
	return tally{t.passed + o.passed, t.failed + o.failed, t.skipped + o.skipped, t.leftOut + o.leftOut}
}

func (t tally) String() string {
	line := fmt.Sprintf("%d passed, %d failed", t.passed, t.failed)
	if t.skipped > 0 {
		line += fmt.Sprintf(", %d skipped", t.skipped)
	}
	if t.leftOut > 0 {
		line += fmt.Sprintf(", %d left out", t.leftOut)
	}
	return line
}

// seconds is the time that each tier took, in the order in which they ended. Tiers run side by side.
type seconds []tierTime

type tierTime struct {
	tier  string
	spent time.Duration
}

func (s *seconds) add(tier string, spent time.Duration) {
	at := slices.IndexFunc(*s, func(t tierTime) bool { return t.tier == tier })
	if at < 0 {
		*s = append(*s, tierTime{tier, spent})
		return
	}
	(*s)[at].spent += spent
}

func (s seconds) String() string {
	var tiers []string
	for _, t := range s {
		tiers = append(tiers, fmt.Sprintf("%s %.0f s", t.tier, t.spent.Seconds()))
	}
	return strings.Join(tiers, ", ")
}

// event is a line of go test -json; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// colors are what Ginkgo puts around each word, also when no terminal reads it.
var colors = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// specs is how a Ginkgo suite ends its report, without the colors.
var specs = regexp.MustCompile(`-- (\d+) Passed \| (\d+) Failed \| (\d+) Pending`)

// leftOut is the line by which a suite says how many of its specs the API server cannot show (test/e2e/cluster).
var leftOut = regexp.MustCompile(`^==> left out: (\d+) specs`)

// shown are the lines that a long suite wants to be seen as they come, also when it passes: steps, and the rows of a
// table (test/e2e/cluster, test/fixture).
var shown = regexp.MustCompile(`^(==> |\| )`)

// result is what is known of one package so far.
type result struct {
	tests   map[string]tally
	output  map[string]*strings.Builder
	leftOut int
}

// count reads the events of one go test and writes a line per package to w, and
// the output of what failed.
func count(r io.Reader, w io.Writer) (tally, error) {
	packages := map[string]*result{}
	builds := map[string]*strings.Builder{}
	var total tally
	for decoder := json.NewDecoder(r); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return total, nil
		} else if err != nil {
			return tally{}, err
		}
		if e.Action == "build-output" {
			buffer(builds, e.ImportPath).WriteString(e.Output)
			continue
		}
		if packages[e.Package] == nil {
			packages[e.Package] = &result{tests: map[string]tally{}, output: map[string]*strings.Builder{}}
		}
		current := packages[e.Package]
		if e.Test != "" || e.Action == "output" {
			if line := current.add(e); shown.MatchString(line) {
				fmt.Fprint(w, line)
			}
			continue
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			total = total.plus(current.finish(e, w, builds[e.FailedBuild]))
			delete(packages, e.Package)
		}
	}
}

// add takes in an event of a test, or a line of output, which it gives without colors.
func (p *result) add(e event) (line string) {
	switch e.Action {
	case "output":
		line = colors.ReplaceAllString(e.Output, "")
		buffer(p.output, e.Test).WriteString(line)
		if m := specs.FindStringSubmatch(line); m != nil && e.Test != "" {
			p.tests[e.Test] = tally{passed: atoi(m[1]), failed: atoi(m[2]), skipped: atoi(m[3])}
		}
		if m := leftOut.FindStringSubmatch(line); m != nil {
			p.leftOut += atoi(m[1])
		}
	case "pass":
		p.end(e.Test, tally{passed: 1})
		delete(p.output, e.Test)
	case "fail":
		p.end(e.Test, tally{failed: 1})
	case "skip":
		p.end(e.Test, tally{skipped: 1})
	}
	return line
}

// end records how a test ended, unless its subtests or its specs say it better.
func (p *result) end(test string, how tally) {
	counted := p.tests[test]
	for name, t := range p.tests {
		if strings.HasPrefix(name, test+"/") {
			counted = counted.plus(t)
		}
	}
	if counted == (tally{}) || how.failed > counted.failed {
		p.tests[test] = how
	}
}

// finish closes a package: a package that failed with no failing test (it did
// not build, it panicked, it ran out of time) counts as one failure.
func (p *result) finish(e event, w io.Writer, build *strings.Builder) tally {
	t := tally{leftOut: p.leftOut}
	for _, counted := range p.tests {
		t = t.plus(counted)
	}
	if e.Action == "fail" && t.failed == 0 {
		t.failed = 1
	}
	word := "ok  "
	if e.Action == "fail" {
		word = "FAIL"
		if build != nil {
			fmt.Fprint(w, build)
		}
		for _, name := range slices.Sorted(maps.Keys(p.output)) {
			fmt.Fprint(w, p.output[name])
		}
	}
	fmt.Fprintf(w, "%s %s: %s in %.1f s\n", word, e.Package, t, e.Elapsed)
	return t
}

func buffer(m map[string]*strings.Builder, key string) *strings.Builder {
	if m[key] == nil {
		m[key] = &strings.Builder{}
	}
	return m[key]
}

// atoi reads a number that a regular expression has already found to be one.
func atoi(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}
