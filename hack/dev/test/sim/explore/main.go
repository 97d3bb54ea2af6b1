// SPDX-License-Identifier: Apache-2.0

// Command explore plays as many histories of the simulation as a budget allows, in a process for each processor, and writes a report. One
// seed is one history; a seed that was violated is printed with its shrunk history and the command that plays it again.
//
//	go run ./test/sim/explore [-seed N] [-budget 20m] [-twice N] [-report FILE]
//	go run ./test/sim/explore -only SEED [-keep i,j,k] [-times N]
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/hack/dev/test/sim"
)

const (
	defaultBudget = 3 * time.Minute
	defaultTwice  = 20
	// progressEvery is how often the state of an exploration is printed.
	progressEvery = 30 * time.Second
	// seeds bounds a new seed, and seedStep leaves room behind it for more histories than a budget allows.
	seeds, seedStep = 1_000_000, 1_000_000
)

type options struct {
	seed         uint64
	budget       time.Duration
	twice        int
	report, keep string
	only         uint64
	times        int
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 0, "first seed; 0 takes a new one")
	flag.DurationVar(&o.budget, "budget", defaultBudget, "time to explore")
	flag.IntVar(&o.twice, "twice", defaultTwice, "number of histories that are played twice")
	flag.StringVar(&o.report, "report", "bin/robustness/report.json", "file for the report")
	flag.Uint64Var(&o.only, "only", 0, "seed of one history to tell")
	flag.StringVar(&o.keep, "keep", "all", "which of its faults are played, as i,j,k, or none")
	flag.IntVar(&o.times, "times", 1, "how many times it is played")
	flag.Parse()
	if o.seed == 0 {
		o.seed = uint64(time.Now().Unix()) % seeds * seedStep
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "explore:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	folder, err := os.MkdirTemp("", "holdfast-explore-")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir(), 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "sim.test")
	build := exec.Command("go", "test", "-c", "-o", program, "./test/sim")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the simulation: %w", err)
	}
	if o.only != 0 {
		return play(program, "-test.run", "^TestReplay$", "-sim.only", strconv.FormatUint(o.only, 10), "-sim.keep", o.keep,
			"-sim.times", strconv.Itoa(o.times), "-sim.dir", o.dir())
	}
	fmt.Printf("Exploring for %s from seed %d\n", o.budget, o.seed)
	e := &exploration{options: o, program: program, folder: folder, began: time.Now(), workers: runtime.GOMAXPROCS(0)}
	return e.run()
}

// dir is where the schedules of violated histories are: beside the report.
func (o options) dir() string {
	path, err := filepath.Abs(filepath.Dir(o.report))
	if err != nil {
		return os.TempDir()
	}
	return path
}

// play runs the program on one processor: what is not decided by the scheduler is then the same in every run.
func play(program string, args ...string) error {
	c := exec.Command(program, append([]string{"-test.timeout", "0"}, args...)...)
	c.Env = append(os.Environ(), "GOMAXPROCS=1")
	c.Dir, c.Stdout, c.Stderr = "test/sim", os.Stdout, os.Stderr
	return c.Run()
}

// exploration is a number of processes that share the seeds.
type exploration struct {
	options
	program, folder string
	began           time.Time
	workers         int

	mu sync.Mutex
	// files are the reports of all processes so far.
	files []string
	// died are the seeds that ended their process.
	died []uint64
}

func (e *exploration) run() error {
	var workers sync.WaitGroup
	for i := range e.workers {
		workers.Go(func() { e.work(uint64(i)) })
	}
	done := make(chan struct{})
	go e.progress(done)
	workers.Wait()
	close(done)
	total := e.total()
	fmt.Println(total)
	if err := total.Write(e.report); err != nil {
		return err
	}
	fmt.Println("Report:", e.report)
	if total.Violations > 0 {
		return fmt.Errorf("%d of %d histories were violated", total.Violations, total.Histories)
	}
	return nil
}

// work is one process after the other: a seed that ends its process is a violation, and the next one begins behind it.
func (e *exploration) work(number uint64) {
	next := e.seed + number
	for left := e.budget; left > 0; left = e.budget - time.Since(e.began) {
		file := filepath.Join(e.folder, fmt.Sprintf("report-%d-%d.json", number, next))
		e.mu.Lock()
		e.files = append(e.files, file)
		e.mu.Unlock()
		err := play(e.program, "-test.run", "^TestExplore$", "-sim.seed", strconv.FormatUint(next, 10), "-sim.stride", strconv.Itoa(e.workers),
			"-sim.budget", left.String(), "-sim.twice", strconv.Itoa(e.twice/e.workers), "-sim.out", file, "-sim.dir", e.dir())
		if err == nil {
			return
		}
		raw, _ := os.ReadFile(file + ".seed")
		died, err := strconv.ParseUint(string(raw), 10, 64)
		if err != nil {
			died = next
		}
		fmt.Printf("seed %d ended its process\n  play it again: make explore ONLY=%d\n", died, died)
		e.mu.Lock()
		e.died = append(e.died, died)
		e.mu.Unlock()
		next = died + uint64(e.workers)
	}
}

// total is the report of all processes so far.
func (e *exploration) total() *sim.Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	total := sim.NewReport()
	for _, file := range e.files {
		report := &sim.Report{}
		if raw, err := os.ReadFile(file); err == nil && json.Unmarshal(raw, report) == nil {
			total.Merge(report)
		}
	}
	for _, seed := range e.died {
		total.Merge(&sim.Report{Histories: 1, Violations: 1, Seeds: []uint64{seed}})
	}
	total.First, total.Seconds = e.seed, time.Since(e.began).Seconds()
	return total
}

func (e *exploration) progress(done <-chan struct{}) {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			total := e.total()
			fmt.Printf("%.0f s: %d histories, %d violated\n", total.Seconds, total.Histories, total.Violations)
		}
	}
}
