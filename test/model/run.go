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
	"github.com/holdfast-dev/holdfast/test/model/world"
)

// progressEvery is how often the run says how far it is.
const progressEvery = 3 * time.Second

// job is one exploration: a scenario with all rules, one with a rule turned off, or one without an assumption.
type job struct {
	scenario world.Scenario
	off      world.Switch
	// name is the switch's; empty for a scenario with all rules. holds: the harm is a hold that nothing ends.
	name  string
	holds bool
	// gap: an assumption is given up, so that a violation is expected and reported as such.
	gap bool

	result checker.Result[world.State]
	err    error
	took   time.Duration
}

// jobs are what is explored. The large ones come first.
func jobs() []*job {
	var all []*job
	for _, scenario := range world.Scenarios() {
		all = append(all, &job{scenario: scenario})
	}
	for _, one := range world.Switches() {
		scenario, found := world.Find(one.Scenario)
		j := &job{scenario: scenario, off: one.Switch, name: one.Name, holds: one.Holds}
		if !found {
			j.err = fmt.Errorf("switch %q names scenario %q, which does not exist", one.Name, one.Scenario)
		}
		all = append(all, j)
	}
	for _, scenario := range world.Gaps() {
		all = append(all, &job{scenario: scenario, gap: true})
	}
	return all
}

// maxStates bounds a search for a counterexample.
const maxStates = 3_000_000

// explore runs one job and counts its states as they come.
func (j *job) explore(states *atomic.Int64) {
	if j.err != nil {
		return
	}
	begun, last := time.Now(), 0
	options := checker.Options{MaxDepth: j.scenario.Depth, SafetyOnly: (j.off != world.SwitchNone && !j.holds) || j.gap || j.scenario.Depth > 0,
		Progress: func(now, _ int) {
			states.Add(int64(now - last))
			last = now
		}}
	if j.off != world.SwitchNone || j.gap {
		options.MaxDepth, options.MaxStates = 0, maxStates
	}
	j.result, j.err = checker.Explore[world.State](&world.Model{Scenario: j.scenario, Off: j.off}, options)
	j.took = time.Since(begun)
}

// harm is what a rule turned off led to; nil if nothing.
func (j *job) harm() *checker.Trace[world.State] {
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
		return "beyond: " + j.scenario.Name
	}
	return j.scenario.Name
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
