// SPDX-License-Identifier: Apache-2.0

// Package process runs real programs as children of a test, a demo or a
// development cluster: output into a log file, readiness by a probe, graceful
// stop by process ID, and, on Linux, death together with the parent, so that a
// killed test run leaves nothing behind.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// DefaultStopGrace is the time that Stop gives a program before it is killed
// when the caller names none.
const DefaultStopGrace = 20 * time.Second

// Options describe one program.
type Options struct {
	// Name is used in messages; the base name of Path when empty.
	Name string
	// Path of the executable. Required.
	Path string
	// Args are the arguments without the program's name.
	Args []string
	// Env holds KEY=value entries on top of this process's environment.
	Env []string
	// Dir is the working directory; this process's own when empty.
	Dir string
	// LogFile gets stdout and stderr, appended; its folder is created. Required.
	LogFile string
	// Detached starts the program in a session of its own that outlives this
	// process. It is meant for the supervisor of a development cluster, which
	// in turn owns children that die with it.
	Detached bool
}

// Process is a program that was started. Its methods are safe for concurrent
// use.
type Process struct {
	name    string
	logFile string
	cmd     *exec.Cmd
	done    chan struct{}
	waitErr error // valid once done is closed
	ending  atomic.Bool
}

// Start runs the program and returns once it exists, not once it is ready: see
// WaitReady. It fails when the log file cannot be opened or the program cannot
// be executed.
func Start(o Options) (*Process, error) {
	if o.Path == "" || o.LogFile == "" {
		return nil, fmt.Errorf("starting a process: Path (%q) and LogFile (%q) are both required", o.Path, o.LogFile)
	}
	if o.Name == "" {
		o.Name = filepath.Base(o.Path)
	}
	if err := os.MkdirAll(filepath.Dir(o.LogFile), 0o755); err != nil {
		return nil, fmt.Errorf("starting %s: folder of its log file: %w", o.Name, err)
	}
	log, err := os.OpenFile(o.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", o.Name, err)
	}
	defer log.Close() // the child holds its own descriptor

	p := &Process{name: o.Name, logFile: o.LogFile, cmd: exec.Command(o.Path, o.Args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), o.Env...)
	p.cmd.Dir = o.Dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = sysProcAttr(o.Detached)
	OnParentThread(func() { err = p.cmd.Start() })
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", o.Name, err)
	}
	go func() {
		p.waitErr = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Name of the program, as used in messages.
func (p *Process) Name() string { return p.name }

// PID is the process ID; it stays the same after the program ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LogFile is the path of the file with the program's output.
func (p *Process) LogFile() string { return p.logFile }

// Done is closed when the program ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exited reports whether the program ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop asks the program to end (SIGTERM) and kills it when it has not ended
// within grace; zero means DefaultStopGrace. The program is gone when Stop
// returns. An error says that it had ended by itself before, or had to be
// killed; in both cases with its log file. Stopping twice is allowed.
func (p *Process) Stop(grace time.Duration) error {
	if grace <= 0 {
		grace = DefaultStopGrace
	}
	if p.Exited() {
		if p.ending.Load() {
			return nil
		}
		return p.unexpectedExit()
	}
	p.ending.Store(true)
	// A paused program would not see the first signal before the second.
	if err := errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	if err := p.Kill(); err != nil {
		return err
	}
	return fmt.Errorf("%s (process %d) did not stop within %s and was killed; log: %s", p.name, p.PID(), grace, p.logFile)
}

// Kill ends the program at once (SIGKILL), as a crash or a power cut does, and
// waits until it is reaped.
func (p *Process) Kill() error {
	p.ending.Store(true)
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Pause freezes the program (SIGSTOP): it keeps its sockets and responds
// nothing, like a machine that hangs.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume continues a paused program.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return fmt.Errorf("sending %q to %s (process %d): %w", s, p.name, p.PID(), err)
}

func (p *Process) unexpectedExit() error {
	state := "exit status 0"
	if p.waitErr != nil {
		state = p.waitErr.Error()
	}
	return fmt.Errorf("%s (process %d) ended by itself: %s; log: %s%s", p.name, p.PID(), state, p.logFile, LogTail(p.logFile))
}
