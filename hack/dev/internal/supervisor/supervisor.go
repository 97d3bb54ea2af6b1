// SPDX-License-Identifier: Apache-2.0

// Package supervisor keeps a development cluster up in the background: one detached process owns all others, which on Linux
// end with it (internal/testing/process). A lock that this process holds on a file says that it runs, and who it is.
package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
)

// Options of a development cluster in the background. Its folder is cluster.Options.Dir.
type Options struct {
	cluster.Options
	// Guard installs Holdfast; nil does not.
	Guard *cluster.GuardOptions
}

// State is what is written down of a cluster that is up.
type State struct {
	// Children are in the order of their starts.
	Children []cluster.Child `json:"children"`
	// Kubeconfig and Socket are paths.
	Kubeconfig string `json:"kubeconfig"`
	Socket     string `json:"socket"`
}

func stateFile(dir string) string { return filepath.Join(dir, "state.json") }

// ReadState returns nil unless a cluster is up in this folder.
func ReadState(dir string) (*State, error) {
	pid, err := Owner(dir)
	if err != nil || pid == 0 {
		return nil, err
	}
	content, err := os.ReadFile(stateFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	state := &State{}
	if err == nil {
		err = json.Unmarshal(content, state)
	}
	if err != nil {
		return nil, fmt.Errorf("state of the development cluster in %s: %w", stateFile(dir), err)
	}
	return state, nil
}

// write replaces the file as a whole, so that a reader never sees half of it.
func (s *State) write(dir string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(stateFile(dir)+".new", append(content, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(stateFile(dir)+".new", stateFile(dir))
}

// Supervise brings the cluster up, and keeps it until ctx is done; then it stops everything in the reverse order. It is the
// background process.
func Supervise(ctx context.Context, o Options) error {
	lock, err := takeLock(o.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := os.RemoveAll(stateFile(o.Dir)); err != nil {
		return err
	}
	var state State
	o.Started = func(child cluster.Child) { state.Children = append(state.Children, child) }
	c, err := cluster.Start(ctx, o.Options)
	if err != nil {
		return err
	}
	if o.Guard != nil {
		err = c.InstallGuard(ctx, *o.Guard)
	}
	if err == nil {
		state.Kubeconfig, state.Socket = c.Kubeconfig(), c.Socket()
		err = state.write(o.Dir)
	}
	if err == nil {
		await(ctx, c, o.Log)
	}
	return errors.Join(err, os.RemoveAll(stateFile(o.Dir)), c.Stop())
}

// await returns when ctx is done. A manager that ends before is reported: the cluster without it is still of use.
func await(ctx context.Context, c *cluster.Cluster, log io.Writer) {
	if manager := c.Manager(); manager != nil {
		select {
		case <-ctx.Done():
		case <-manager.Done():
			fmt.Fprintf(log, "the manager ended; see %s\n", manager.LogFile())
		}
	}
	<-ctx.Done()
}

func lockFile(dir string) string { return filepath.Join(dir, "lock") }

// takeLock makes this process the owner of the folder until it ends, however it ends.
func takeLock(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(lockFile(dir), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		return nil, errors.Join(fmt.Errorf("another process owns the development cluster in %s: %w", dir, err), file.Close())
	}
	return file, nil
}

// Owner is the ID of the process that runs the cluster in this folder; 0 if there is none. The kernel says so, so that
// another process with the same ID is never taken for it.
func Owner(dir string) (int, error) {
	file, err := os.OpenFile(lockFile(dir), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lock := &syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, lock); err != nil || lock.Type == syscall.F_UNLCK {
		return 0, err
	}
	return int(lock.Pid), nil
}

const (
	stopPoll = 50 * time.Millisecond
	// stopGrace is the time that the owner gets to stop everything, and then to die.
	stopGrace = 90 * time.Second
)

// Stop stops the cluster in this folder, and returns when its owner is gone; none is no error.
func Stop(ctx context.Context, dir string, out io.Writer) error {
	return stop(ctx, dir, out, stopGrace)
}

func stop(ctx context.Context, dir string, out io.Writer, grace time.Duration) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		pid, err := Owner(dir)
		if err != nil || pid == 0 {
			return err
		}
		fmt.Fprintf(out, "stopping the development cluster (process %d, %s)\n", pid, signal)
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping process %d: %w", pid, err)
		}
		gone := func(context.Context) (bool, error) {
			now, err := Owner(dir)
			return now != pid, err
		}
		if err := wait.PollUntilContextTimeout(ctx, stopPoll, grace, true, gone); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("the development cluster in %s did not end within %s of being killed", dir, grace)
}
