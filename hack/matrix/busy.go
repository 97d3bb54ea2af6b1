// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

// warnIfBusy prints a line to file, and for people, if other programs keep the machine from the suites. It refuses nothing.
func warnIfBusy(file io.Writer) {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return // only Linux has it
	}
	if warning := busy(string(load), runtime.NumCPU()); warning != "" {
		fmt.Fprint(io.MultiWriter(os.Stderr, file), warning)
	}
}

// busy is a warning where more tasks than processors ran in the last minute, and still run: what was built before has ended by now.
func busy(loadavg string, processors int) string {
	var minute, five, fifteen float64
	var running int
	if _, err := fmt.Sscanf(loadavg, "%f %f %f %d/", &minute, &five, &fifteen, &running); err != nil {
		return ""
	}
	running-- // this one
	if minute <= float64(processors) || running <= processors {
		return ""
	}
	return fmt.Sprintf("==> warning: the machine is busy: load average %.1f, %d tasks of other programs run now, %d processors. "+
		"Specs may time out, and a row that is missing says nothing about the version: run it again when the machine is quiet.\n", minute, running, processors)
}
