// SPDX-License-Identifier: Apache-2.0

// Command workload is what the containers of test pods run.
//
//	workload           run until SIGTERM, then exit with 0
//	workload complete  exit with 0 at once, as a Job's pod that is done
//	workload fail      exit with 1 at once
//	workload deaf      run and ignore SIGTERM, so that the kubelet has to kill it
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = "usage: workload [complete|fail|deaf]"

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	mode := ""
	if len(args) == 1 {
		mode = args[0]
	}
	ended := make(chan os.Signal, 1)
	switch {
	case len(args) > 1 || mode == "-h" || mode == "--help":
		fmt.Fprintln(os.Stderr, usage)
		return 2
	case mode == "complete":
		return 0
	case mode == "fail":
		fmt.Fprintln(os.Stderr, "workload: failing as requested")
		return 1
	case mode == "deaf":
		signal.Ignore(syscall.SIGTERM)
		signal.Notify(ended, os.Interrupt) // for a person at a terminal
	case mode == "":
		signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	default:
		fmt.Fprintf(os.Stderr, "workload: %q is no command\n%s\n", mode, usage)
		return 2
	}
	fmt.Println("running")
	<-ended
	return 0
}
