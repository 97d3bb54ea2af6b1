// SPDX-License-Identifier: Apache-2.0

// Command explore plays as many histories of the simulation as a budget allows, in a process for each processor, and writes a report. One
// seed is one history; a seed that was violated is printed with its shrunk history and the command that plays it again.
//
//	go run ./sim/explore [-seed N] [-budget 20m] [-twice N] [-report FILE]
//	go run ./sim/explore -only SEED [-keep i,j,k]
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

	"github.com/holdfast-dev/holdfast/hack/dev/sim"
)

type options struct {
	seed         uint64
	budget       time.Duration
	twice        int
	report, keep string
	only         uint64
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 0, "first seed; 0 takes a new one")
	flag.DurationVar(&o.budget, "budget", 3*time.Minute, "time to explore")
	flag.IntVar(&o.twice, "twice", 20, "number of histories that are played twice")
	flag.StringVar(&o.report, "report", "bin/robustness/report.json", "file for the report")
	flag.Uint64Var(&o.only, "only", 0, "seed of one history to tell")
	flag.StringVar(&o.keep, "keep", "all", "which of its faults are played")
	flag.Parse()
	if o.seed == 0 {
		o.seed = uint64(time.Now().Unix()) % 1_000_000 * 1_000_000
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
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "sim.test")
	build := exec.Command("go", "test", "-c", "-o", program, "./sim")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the simulation: %w", err)
	}
	if o.only != 0 {
		return play(program, "-test.run", "^TestReplay$", "-sim.only", strconv.FormatUint(o.only, 10), "-sim.keep", o.keep)
	}
	fmt.Printf("Exploring for %s from seed %d\n", o.budget, o.seed)
	return explore(o, program, folder)
}

// play runs the program on one processor: what is not decided by the scheduler is then the same in every run.
func play(program string, args ...string) error {
	c := exec.Command(program, append([]string{"-test.timeout", "0"}, args...)...)
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
	c.Dir, c.Stdout, c.Stderr = "sim", os.Stdout, os.Stderr
	return c.Run()
}

func explore(o options, program, folder string) error {
	began, total := time.Now(), sim.NewReport()
	total.First = o.seed
	var lock sync.Mutex
	var workers sync.WaitGroup
	for i := range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			next := o.seed + uint64(i)
			for left := o.budget; left > 0; left = o.budget - time.Since(began) {
				file := filepath.Join(folder, fmt.Sprintf("report-%d-%d.json", i, next))
				report, died := work(o, program, file, next, left)
				lock.Lock()
				total.Merge(report)
				lock.Unlock()
				if died == 0 {
					return
				}
				next = died + uint64(runtime.GOMAXPROCS(0))
			}
		})
	}
	workers.Wait()
	total.Seconds = time.Since(began).Seconds()
	fmt.Println(total)
	if err := total.Write(o.report); err != nil {
		return err
	}
	fmt.Println("Report:", o.report)
	if total.Violations > 0 {
		return fmt.Errorf("%d of %d histories were violated", total.Violations, total.Histories)
	}
	return nil
}

// work is one process. A seed that ends the process is a violation too, and given back.
func work(o options, program, file string, first uint64, left time.Duration) (report *sim.Report, died uint64) {
	err := play(program, "-test.run", "^TestExplore$", "-sim.seed", strconv.FormatUint(first, 10), "-sim.stride", strconv.Itoa(runtime.GOMAXPROCS(0)),
		"-sim.budget", left.String(), "-sim.twice", strconv.Itoa(o.twice/runtime.GOMAXPROCS(0)), "-sim.out", file)
	report = sim.NewReport()
	if raw, readErr := os.ReadFile(file); readErr == nil {
		_ = json.Unmarshal(raw, report)
	}
	if err == nil {
		return report, 0
	}
	raw, _ := os.ReadFile(file + ".seed")
	if died, err = strconv.ParseUint(string(raw), 10, 64); err != nil {
		died = first
	}
	fmt.Printf("seed %d ended its process: make explore ONLY=%d\n", died, died)
	report.Histories++
	report.Violations++
	report.Seeds = append(report.Seeds, died)
	return report, died
}
