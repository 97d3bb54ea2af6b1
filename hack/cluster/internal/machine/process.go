// SPDX-License-Identifier: Apache-2.0

//go:build linux

package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

// Program is one to be started in the background.
type Program struct {
	Name string
	// Command is the program and its arguments.
	Command []string
	// Log gets the output, appended.
	Log string
	// Cgroup is joined before the program runs, so that it cannot be lost.
	Cgroup string
	// Namespaces is a process whose network, mount and UTS namespaces the program
	// runs in; 0 for those of the host.
	Namespaces int
	// NewNamespaces gives the program network, mount and UTS namespaces of its own.
	NewNamespaces bool
	Env           []string
	Dir           string
}

// joinScript lets the shell itself join the cgroup and then become the program:
// it keeps its process ID, and there is no moment at which the program runs
// outside.
const joinScript = `echo 0 >"$1" || exit 125; shift; exec "$@"`

// Join puts before a command what runs it in a cgroup.
func (c *Cgroups) Join(group string, command []string) []string {
	return append([]string{"/bin/sh", "-c", joinScript, "sh", c.procsFile(group)}, command...)
}

// Start starts the program in a session of its own, so that it outlives this
// command and its terminal.
func (c *Cgroups) Start(p Program) (state.Process, error) {
	fail := func(err error) (state.Process, error) {
		return state.Process{}, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	if err := os.MkdirAll(filepath.Dir(p.Log), 0o755); err != nil {
		return fail(err)
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fail(err)
	}
	defer log.Close()
	command := c.Join(p.Cgroup, Enter(p.Namespaces, p.Command))
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, p.Dir
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if p.NewNamespaces {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS
	}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	go cmd.Wait() //nolint:errcheck // reaps it, in case it ends before this command does; who waits for it looks at the log
	started, err := startOf(cmd.Process.Pid)
	if err != nil {
		return fail(fmt.Errorf("%w%s", err, LogTail(p.Log)))
	}
	return state.Process{Name: p.Name, PID: cmd.Process.Pid, Started: started, Log: p.Log}, nil
}

// Enter puts before a command what runs it in the namespaces of a process; 0 is
// the host.
func Enter(pid int, command []string) []string {
	if pid == 0 {
		return command
	}
	return append([]string{"nsenter", "--target", strconv.Itoa(pid), "--mount", "--net", "--uts", "--wd=/", "--"}, command...)
}

// Alive reports whether the very same process still runs.
func Alive(p state.Process) bool {
	started, err := startOf(p.PID)
	return err == nil && started == p.Started
}

// errEnded: there is no such process, or only its exit status is left.
var errEnded = errors.New("the process has ended")

// startOf distinguishes processes of one ID (proc(5), starttime).
func startOf(pid int) (string, error) {
	if pid <= 0 {
		return "", errEnded
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", errEnded
	}
	ticks, err := parseStat(string(content))
	return strings.TrimSpace(string(boot)) + "/" + ticks, err
}

// parseStat returns the start of a process that has not ended.
func parseStat(content string) (ticks string, err error) {
	// The name, in parentheses, may hold anything; state is the field behind it.
	const stateField, startField = 0, 19 // 3rd and 22nd of all
	fields := strings.Fields(content[strings.LastIndex(content, ")")+1:])
	if len(fields) <= startField {
		return "", fmt.Errorf("/proc/PID/stat: unexpected format %q", content)
	}
	if s := fields[stateField]; s == "Z" || s == "X" {
		return "", errEnded
	}
	return fields[startField], nil
}

// Signal sends a signal to the very same process.
func Signal(p state.Process, signal syscall.Signal) error {
	if !Alive(p) {
		return fmt.Errorf("%s (process %d) does not run%s", p.Name, p.PID, LogTail(p.Log))
	}
	if err := syscall.Kill(p.PID, signal); err != nil {
		return fmt.Errorf("sending %q to %s (process %d): %w", signal, p.Name, p.PID, err)
	}
	return nil
}

const (
	stopPoll = 20 * time.Millisecond
	// stopGrace is the time a process gets to end by itself, and then to die.
	stopGrace = 20 * time.Second
)

// Stop asks the process to end, kills it when it has not ended after a while,
// and returns when it is gone. A process that ended already is left alone.
func Stop(ctx context.Context, p state.Process) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !Alive(p) {
			return nil
		}
		// A frozen process would not see the request.
		if err := errors.Join(Signal(p, signal), Signal(p, syscall.SIGCONT)); err != nil && Alive(p) {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, stopGrace)
		err := Poll(bounded, stopPoll, func(context.Context) error {
			if Alive(p) {
				return fmt.Errorf("%s (process %d) still runs", p.Name, p.PID)
			}
			return nil
		})
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("%s (process %d) did not end when it was killed; log: %s", p.Name, p.PID, p.Log)
}

// Poll repeats check until it returns nil. When ctx ends before, the error is
// that of the last check.
func Poll(ctx context.Context, period time.Duration, check func(context.Context) error) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// Run runs a command to its end, in a cgroup, and returns its standard output.
// The error has what it said.
func (c *Cgroups) Run(ctx context.Context, group string, input []byte, command ...string) ([]byte, error) {
	joined := c.Join(group, command)
	cmd := exec.CommandContext(ctx, joined[0], joined[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err,
			strings.TrimSpace(stderr.String()+stdout.String()))
	}
	return stdout.Bytes(), nil
}

const logTailBytes = 2000

// LogTail returns the end of a log file on lines of its own, to be appended to
// an error.
func LogTail(path string) string {
	content, err := os.ReadFile(path)
	content = bytes.TrimSpace(content)
	if err != nil || len(content) == 0 {
		return ""
	}
	if len(content) > logTailBytes {
		content = content[len(content)-logTailBytes:]
	}
	return fmt.Sprintf("; %s ends:\n%s", path, content)
}

// Describe returns the state of a process, such as "running".
func Describe(p state.Process) string {
	if !Alive(p) {
		return "ended"
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return "ended"
	}
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) > 0 && fields[0] == "T" {
		return "frozen"
	}
	return "running"
}
