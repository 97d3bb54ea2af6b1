// SPDX-License-Identifier: Apache-2.0

// Command model explores the models (docs/model.md), the one of the release handshake and the one of node objects: every scenario with all rules,
// which must hold, and one scenario for each rule turned off, which must not. It prints the shortest counterexamples and writes a report.
//
//	go run ./test/model [-report FILE]
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	path := flag.String("report", "bin/model/report.json", "file for the report")
	flag.Parse()
	if err := model(*path); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1) //nolint:forbidigo // a command, though it stands with the tests
	}
}

func model(path string) error {
	all := jobs()
	fmt.Printf("Exploring %d scenarios, %d rules turned off, and what lies beyond the assumptions.\n", len(scenariosOf(all)), switchesOf(all))
	run(os.Stdout, all)
	sum, err := conclude(os.Stdout, all)
	if err != nil {
		return err
	}
	if err := sum.write(path); err != nil {
		return err
	}
	fmt.Printf("\n%d states in %d scenarios, %d violations; %d of %d rules turned off were found. Report: %s\n",
		sum.States, len(scenariosOf(all)), sum.Violations, sum.foundSwitches(), len(sum.Switches), path)
	if why := sum.failed(); why != "" {
		return fmt.Errorf("%s: see above", why)
	}
	return nil
}

func scenariosOf(all []*job) []string {
	var names []string
	for _, j := range all {
		if j.allRules() {
			names = append(names, j.scenario)
		}
	}
	return names
}

func switchesOf(all []*job) int {
	count := 0
	for _, j := range all {
		if j.name != "" && !j.relaxed {
			count++
		}
	}
	return count
}

func (r report) foundSwitches() int {
	count := 0
	for _, one := range r.Switches {
		if one.Found {
			count++
		}
	}
	return count
}
