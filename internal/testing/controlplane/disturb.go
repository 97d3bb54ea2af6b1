// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// StopAPIServer stops kube-apiserver alone, so that connections to it are
// refused; etcd and the other components keep running.
func (c *ControlPlane) StopAPIServer() error {
	if err := c.env.ControlPlane.APIServer.Stop(); err != nil {
		return fmt.Errorf("stopping %s: %w%s", apiServerName, err, c.describeLog(apiServerName))
	}
	return os.Remove(c.pidFile(apiServerName)) // the kernel may give the ID to somebody else
}

// StartAPIServer starts kube-apiserver again after StopAPIServer: same port,
// certificates and data. It returns when the server is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.StartTimeout)
	defer cancel()
	var err error
	process.OnParentThread(func() { err = c.env.ControlPlane.APIServer.Start() })
	if err != nil {
		return fmt.Errorf("starting %s again: %w%s", apiServerName, err, c.describeLog(apiServerName))
	}
	return c.awaitAPIServer(ctx)
}

// PauseAPIServer freezes kube-apiserver: connections stay open and calls hang
// until their own timeouts, as with a server that is overloaded or cut off.
func (c *ControlPlane) PauseAPIServer() error {
	if err := c.signalAPIServer(syscall.SIGSTOP); err != nil {
		return err
	}
	c.apiServerPaused = true
	return c.awaitStopped()
}

// awaitStopped waits until the kernel has stopped every thread of kube-apiserver: the signal alone leaves them time for another answer.
func (c *ControlPlane) awaitStopped() error {
	pid, err := c.PID(apiServerName)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), c.options.StopTimeout, errors.New("it takes too long"))
	defer cancel()
	return c.await(ctx, apiServerName+" to stand still", func(context.Context) error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		for _, thread := range threads { // none where the kernel has no /proc
			if state := stateOf(thread); state != "" && state != "T" {
				return fmt.Errorf("a thread of it has the state %s", state)
			}
		}
		return nil
	})
}

// stateOf is the state of a thread in its stat file, after the name in brackets (proc_pid_stat(5)); empty for one that has ended.
func stateOf(stat string) string {
	content, err := os.ReadFile(stat)
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(content), ") ")
	state, _, _ := strings.Cut(after, " ")
	return state
}

// ResumeAPIServer lets a paused kube-apiserver go on.
func (c *ControlPlane) ResumeAPIServer() error {
	c.apiServerPaused = false
	return c.signalAPIServer(syscall.SIGCONT)
}

func (c *ControlPlane) signalAPIServer(s syscall.Signal) error {
	pid, err := c.PID(apiServerName)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, s); err != nil {
		return fmt.Errorf("sending %q to %s (process %d): %w", s, apiServerName, pid, err)
	}
	return nil
}

// PID is the process ID of etcd or kube-apiserver; an error when the latter
// was stopped.
func (c *ControlPlane) PID(component string) (int, error) {
	content, err := os.ReadFile(c.pidFile(component))
	if err != nil {
		return 0, fmt.Errorf("process ID of %s: is it running? %w", component, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("process ID of %s in %s: %w", component, c.pidFile(component), err)
	}
	return pid, nil
}
