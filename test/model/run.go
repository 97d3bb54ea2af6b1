// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/test/model/checker"
	"github.com/holdfast-dev/holdfast/test/model/nodes"
	"github.com/holdfast-dev/holdfast/test/model/world"
)

// progressEvery is how often the run says how far it is.
const progressEvery = 3 * time.Second

// job is one exploration: a scenario with all rules, one with a rule turned off, or one without an assumption.
type job struct {
	// scenario and about are its name and what it is about, depth its bound; 0 does not bound it.
	scenario, about string
	depth           int
	// name is the switch's; empty for a scenario with all rules. holds: the harm is something that is never done. relaxed: there is no harm.
	name           string
	holds, relaxed bool
	// gap: an assumption is given up, so that a violation is expected and reported as such.
	gap bool

	explorer func(checker.Options) (outcome, error)
	result   outcome
	err      error
	took     time.Duration
}

// outcome is a checker.Result of any world.
type outcome struct {
	States, Steps, Depth int
	Complete             bool
	Violation, Stuck     *story
}

// story is a checker.Trace of any world.
type story struct {
	why   string
	lines []string
}

func (s *story) steps() int {
	if s == nil {
		return 0
	}
	return len(s.lines)
}

func storyOf[S comparable](trace *checker.Trace[S]) *story {
	if trace == nil {
		return nil
	}
	found := &story{why: trace.Why}
	for _, line := range trace.Lines[1:] {
		found.lines = append(found.lines, line.Label)
	}
	return found
}

func explorerOf[S comparable](system checker.System[S]) func(checker.Options) (outcome, error) {
	return func(options checker.Options) (outcome, error) {
		r, err := checker.Explore(system, options)
		return outcome{States: r.States, Steps: r.Steps, Depth: r.Depth, Complete: r.Complete, Violation: storyOf(r.Violation), Stuck: storyOf(r.Stuck)}, err
	}
}

// jobs are what is explored. The large ones come first.
func jobs() []*job {
	handshakes := jobsOf(world.Scenarios(), world.Switches(), nil, world.Gaps(), world.Find, func(s world.Scenario, off world.Switch) *job {
		return &job{scenario: s.Name, about: s.About, depth: s.Depth, explorer: explorerOf[world.State](&world.Model{Scenario: s, Off: off})}
	})
	objects := jobsOf(nodes.Scenarios(), nodes.Switches(), nodes.Relaxed(), nodes.Gaps(), nodes.Find, func(s nodes.Scenario, off nodes.Switch) *job {
		return &job{scenario: s.Name, about: s.About, depth: s.Depth, explorer: explorerOf[nodes.State](&nodes.Model{Scenario: s, Off: off})}
	})
	return append(handshakes, objects...)
}

// jobsOf are those of one model: its scenarios, each rule turned off, and the gaps.
func jobsOf[Scenario any, Switch ~uint8](scenarios []Scenario, switches, relaxed []checker.Named[Switch], gaps []Scenario,
	find func(name string) (Scenario, bool), jobOf func(Scenario, Switch) *job) (all []*job) {
	add := func(scenario Scenario, off Switch) *job {
		all = append(all, jobOf(scenario, off))
		return all[len(all)-1]
	}
	turnOff := func(one checker.Named[Switch]) *job {
		scenario, found := find(one.Scenario)
		j := add(scenario, one.Switch)
		j.name, j.holds = one.Name, one.Holds
		if !found {
			j.err = fmt.Errorf("switch %q names scenario %q, which does not exist", one.Name, one.Scenario)
		}
		return j
	}
	for _, scenario := range scenarios {
		add(scenario, 0)
	}
	for _, one := range switches {
		turnOff(one)
	}
	for _, one := range relaxed {
		turnOff(one).relaxed = true
	}
	for _, scenario := range gaps {
		add(scenario, 0).gap = true
	}
	return all
}

// maxStates bounds a search for a counterexample.
const maxStates = 3_000_000

// allRules: it is a scenario with all rules and all assumptions.
func (j *job) allRules() bool { return j.name == "" && !j.gap }

// explore runs one job and counts its states as they come.
func (j *job) explore(states *atomic.Int64) {
	if j.err != nil {
		return
	}
	begun, last := time.Now(), 0
	search := (j.name != "" && !j.relaxed) || j.gap
	options := checker.Options{MaxDepth: j.depth, SafetyOnly: (search && !j.holds) || j.depth > 0,
		Progress: func(now, _ int) {
			states.Add(int64(now - last))
			last = now
		}}
	if search {
		options.MaxDepth, options.MaxStates = 0, maxStates
	}
	j.result, j.err = j.explorer(options)
	j.took = time.Since(begun)
}

// harm is what a rule turned off led to; nil if nothing.
func (j *job) harm() *story {
	if j.holds {
		return j.result.Stuck
	}
	return j.result.Violation
}

// title is what a line of progress calls it.
func (j *job) title() string {
	switch {
	case j.name != "":
		return "off: " + j.name
	case j.gap:
		return "beyond: " + j.scenario
	}
	return j.scenario
}

// run explores all, as many at a time as there are processors, and says every few seconds how far it is.
func run(out io.Writer, all []*job) {
	w := &lines{out: out}
	var states, done atomic.Int64
	queue := make(chan *job)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range queue {
				j.explore(&states)
				done.Add(1)
				fmt.Fprintf(w, "%s: %d states, %s\n", j.title(), j.result.States, j.took.Round(10*time.Millisecond))
			}
		})
	}
	finished := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { progress(w, &states, &done, len(all), finished) })
	for _, j := range all {
		queue <- j
	}
	close(queue)
	workers.Wait()
	close(finished)
	watcher.Wait()
}

func progress(w io.Writer, states, done *atomic.Int64, all int, finished <-chan struct{}) {
	begun := time.Now()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-finished:
			return
		case <-ticker.C:
			fmt.Fprintf(w, "... %d of %d explorations done, %d states, %d s\n", done.Load(), all, states.Load(), int(time.Since(begun).Seconds()))
		}
	}
}

// lines lets several write whole lines.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

// Write is io.Writer's.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(line)
}
