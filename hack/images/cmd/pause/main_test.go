// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// reapingTimeout bounds what needs no waiting but for a busy machine.
const reapingTimeout = 30 * time.Second

func TestReapCollectsEveryChildThatHasEnded(t *testing.T) {
	binary, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGCHLD)
	defer signal.Stop(changes)

	left := map[int]bool{}
	for range 3 {
		pid, err := syscall.ForkExec(binary, []string{"true"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		left[pid] = true
	}
	for len(left) > 0 {
		select {
		case <-changes:
		case <-time.After(reapingTimeout):
			t.Fatalf("the children %v have ended, and were not reaped in %s", left, reapingTimeout)
		}
		reap()
		for pid := range left {
			// A zombie can still be sent a signal; a child that was reaped cannot.
			if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				delete(left, pid)
			}
		}
	}
}
