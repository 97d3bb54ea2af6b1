// SPDX-License-Identifier: Apache-2.0

// Command mutants breaks the product, one rule at a time, and demands that a test
// notices each breakage.
//
//	go run ./hack/mutants [-only TEXT] [-workers N] [-report FILE] [-assets DIR] [-simulation N]
//
// It works on copies of the tracked files below bin/mutants, and writes what it
// found to the report. It fails if a mutant is missed, no longer applies, or does
// not compile. A suite that fails before its first spec has not noticed anything. -only takes the mutants whose rule has TEXT.
// -simulation tries them with N histories of the simulation alone.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// report is what bin/mutants/report.json has.
type report struct {
	// Total is how many mutants were tried, and Caught how many of them a test noticed.
	Total  int `json:"total"`
	Caught int `json:"caught"`
	// Missed are the rules whose mutants no test noticed.
	Missed []string `json:"missed"`
	// By names the test that noticed, with its package, for each rule.
	By map[string]string `json:"by"`
}

func main() {
	only := flag.String("only", "", "try the mutants whose rule has this text")
	workers := flag.Int("workers", 2, "how many mutants are tried at a time")
	histories := flag.Int("simulation", 0, "try the mutants with so many histories of the simulation, and with nothing else")
	path := flag.String("report", "bin/mutants/report.json", "the file of the report")
	assets := flag.String("assets", "bin/kube", "folder with etcd, kube-apiserver and kubectl, for the mutants of policies")
	flag.Parse()
	mutants := selected(*only)
	for i := range mutants {
		if *histories > 0 {
			mutants[i].by, mutants[i].histories = inSimulation, *histories
		}
	}
	result, err := run(mutants, *workers, *assets)
	if writeErr := write(*path, result); writeErr != nil {
		err = errors.Join(err, writeErr)
	}
	for _, rule := range result.Missed {
		fmt.Println("MISSED:", rule)
	}
	fmt.Printf("%d mutants, %d caught. Report: %s\n", result.Total, result.Caught, *path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if result.Caught < result.Total {
		os.Exit(1)
	}
}

// run tries the mutants on as many copies of the tree as there are workers.
func run(mutants []mutant, workers int, assets string) (report, error) {
	result := report{Missed: []string{}, By: map[string]string{}}
	if err := check(".", mutants); err != nil {
		return result, err
	}
	assets, err := filepath.Abs(assets)
	if err != nil {
		return result, err
	}
	queue := make(chan mutant)
	var mu sync.Mutex
	var failures []error
	var wait sync.WaitGroup
	for n := range workers {
		tree := filepath.Join("bin", "mutants", fmt.Sprintf("tree-%d", n))
		if err := copyTree(tree); err != nil {
			return result, err
		}
		wait.Go(func() {
			for m := range queue {
				start := time.Now()
				catcher, err := try(tree, assets, m)
				mu.Lock()
				failures = append(failures, err)
				result.note(m, catcher, err)
				fmt.Printf("%3d/%d  %4.0f s  %-70s %s\n", result.Total, len(mutants), time.Since(start).Seconds(), m.rule, statusOf(catcher, err))
				mu.Unlock()
			}
		})
	}
	for _, m := range mutants {
		queue <- m
	}
	close(queue)
	wait.Wait()
	return result, errors.Join(failures...)
}

func (r *report) note(m mutant, catcher string, err error) {
	r.Total++
	switch {
	case err != nil:
	case catcher == "":
		r.Missed = append(r.Missed, m.rule)
	default:
		r.Caught++
		r.By[m.rule] = catcher
	}
}

func statusOf(catcher string, err error) string {
	switch {
	case err != nil:
		return "could not be tried"
	case catcher == "":
		return "MISSED"
	}
	return catcher
}

func write(path string, r report) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
