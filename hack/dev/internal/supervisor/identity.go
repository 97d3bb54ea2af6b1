// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one that was started, so identified that another one with the same
// process ID is not taken for it.
type Process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Started tells processes of the same ID apart.
	Started string `json:"started"`
}

// Identify describes a running process.
func Identify(name string, pid int) (Process, error) {
	started, err := startOf(pid)
	return Process{Name: name, PID: pid, Started: started}, err
}

// Alive says whether the very same process still runs. What cannot be read does
// not: the kernel lets everybody read this of every process.
func (p Process) Alive() bool {
	started, err := startOf(p.PID)
	return err == nil && started == p.Started
}

// errEnded says that there is no such process, or that only its exit status is
// left.
var errEnded = errors.New("the process has ended")

// startOf identifies the start of a process: on Linux the boot and the time
// since then (proc(5), starttime), elsewhere the wall clock.
func startOf(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return startByPS(pid)
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", errEnded
	}
	// The name, in parentheses, may hold anything; state is the field behind it.
	_, rest, found := cutLast(string(content), ") ")
	fields := strings.Fields(rest)
	const stateField, startField = 0, 19 // 3rd and 22nd of all
	if !found || len(fields) <= startField {
		return "", fmt.Errorf("/proc/%d/stat: unexpected format", pid)
	}
	if state := fields[stateField]; state == "Z" || state == "X" {
		return "", errEnded
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[startField], nil
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

func startByPS(pid int) (string, error) {
	output, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	state, started, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
	if err != nil || strings.HasPrefix(state, "Z") {
		return "", errEnded
	}
	return strings.TrimSpace(started), nil
}

const stopPoll = 50 * time.Millisecond

// Stop asks the process to end, kills it when it has not ended within grace, and
// returns when it is gone. A process that has ended already, also one whose ID
// another one has now, is left alone.
func (p Process) Stop(grace time.Duration) (killed bool, err error) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !p.Alive() {
			return killed, nil
		}
		killed = signal == syscall.SIGKILL
		if err := syscall.Kill(p.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return killed, fmt.Errorf("stopping %s (process %d): %w", p.Name, p.PID, err)
		}
		if p.awaitEnd(grace) {
			return killed, nil
		}
	}
	return killed, fmt.Errorf("%s (process %d) did not end within %s of being killed", p.Name, p.PID, grace)
}

func (p Process) awaitEnd(limit time.Duration) bool {
	ticker := time.NewTicker(stopPoll)
	defer ticker.Stop()
	over := time.After(limit)
	for p.Alive() {
		select {
		case <-ticker.C:
		case <-over:
			return !p.Alive()
		}
	}
	return true
}
