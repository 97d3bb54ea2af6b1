// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cluster starts, breaks, mends and removes a cluster of real nodes on
// one machine. What runs is written to state.json as soon as it is started, and
// every process is in a cgroup of the cluster, so that another command finds all
// of it also after this one was killed.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/config"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/machine"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

const (
	pollPeriod = 200 * time.Millisecond
	// startTimeout bounds the start of one component or node on a busy machine.
	startTimeout = 3 * time.Minute
	// endTimeout bounds the end of killed processes, namespaces and cgroups.
	endTimeout = 30 * time.Second
)

// ErrNotUp says that no cluster was started in a folder.
var ErrNotUp = errors.New("no cluster is up: run make cluster-up")

// Cluster is one that was started, or is about to be. Its methods may be called
// by several processes at once: those that change the state file wait for one
// another.
type Cluster struct {
	Folder plan.Folder
	Log    io.Writer

	cgroups *machine.Cgroups
	mutex   sync.Mutex
	state   *state.Cluster
}

// Open finds the cluster of a folder, which is an absolute path.
func Open(folder plan.Folder, log io.Writer) (*Cluster, error) {
	cgroups, err := machine.FindCgroups()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Folder: folder, Log: log, cgroups: cgroups}
	return c, c.reload()
}

func (c *Cluster) reload() (err error) {
	c.state, err = state.Read(c.Folder.StateFile())
	return err
}

// State is what is written down; ErrNotUp when there is nothing.
func (c *Cluster) State() (*state.Cluster, error) {
	if c.state == nil {
		return nil, ErrNotUp
	}
	return c.state, nil
}

// locked lets one command at a time change the cluster, and gives it the state
// that the one before left.
func (c *Cluster) locked(do func() error) error {
	return c.alone(func() error {
		if err := c.reload(); err != nil {
			return err
		}
		return do()
	})
}

// alone lets one command at a time do something, in any state.
func (c *Cluster) alone(do func() error) error {
	path := string(c.Folder) + ".lock"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return fmt.Errorf("lock of the cluster: %w", err)
	}
	defer file.Close() // and with it the lock
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		fmt.Fprintln(c.Log, "another command is changing the cluster: waiting for it")
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("lock of the cluster: %w", err)
	}
	return do()
}

// update changes the state and writes it down.
func (c *Cluster) update(change func(*state.Cluster)) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	change(c.state)
	return c.state.Write(c.Folder.StateFile())
}

// options are those that the cluster was started with.
func (c *Cluster) options() config.Options {
	return config.Options{Arguments: c.state.Arguments, Platform: c.state.Platform}
}

// node finds the plan and the state of a node.
func (c *Cluster) node(name string) (plan.Node, *state.Node, error) {
	if c.state == nil {
		return plan.Node{}, nil, ErrNotUp
	}
	known, err := c.state.Node(name)
	if err != nil {
		return plan.Node{}, nil, err
	}
	for i := range plan.MaxNodes {
		if n := plan.NodeAt(i); n.Name == name {
			return n, known, nil
		}
	}
	return plan.Node{}, nil, fmt.Errorf("%s is in the state but in no plan: it was written by another version of this program", name)
}

// runningNode is node for what needs one that runs.
func (c *Cluster) runningNode(name string) (plan.Node, *state.Node, error) {
	n, known, err := c.node(name)
	if err == nil && known.State != state.Running {
		err = fmt.Errorf("%s does not run (%s): start it with holdfast-cluster node start %s", name, known.State, name)
	}
	return n, known, err
}

// step is a part of what a command does.
type step struct {
	what string
	do   func(context.Context) error
}

// all does one after the other, says what it does, and how long each took.
func (c *Cluster) all(ctx context.Context, steps []step) error {
	for _, s := range steps {
		fmt.Fprintf(c.Log, "==> %s\n", s.what)
		began := time.Now()
		if err := s.do(ctx); err != nil {
			fmt.Fprintf(c.Log, "==> %s: FAILED after %.1f s\n", s.what, time.Since(began).Seconds())
			if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
				err = fmt.Errorf("%w: %w", cause, err)
			}
			return fmt.Errorf("%s: %w", s.what, err)
		}
		fmt.Fprintf(c.Log, "==> %s: %.1f s\n", s.what, time.Since(began).Seconds())
	}
	return nil
}

// await repeats a check until it passes, for a bounded time.
func await(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("gave up after %s", limit))
	defer cancel()
	return machine.Poll(ctx, pollPeriod, check)
}

// awaitProcess is await for something that a process is to do, and gives up as
// soon as that process ended.
func awaitProcess(ctx context.Context, limit time.Duration, p state.Process, check func(context.Context) error) error {
	ended := false
	err := await(ctx, limit, func(ctx context.Context) error {
		ended = !machine.Alive(p) // before the check, so that its last output counts
		err := check(ctx)
		if ended {
			return nil
		}
		return err
	})
	if ended {
		return fmt.Errorf("%s (process %d) ended by itself%s", p.Name, p.PID, machine.LogTail(p.Log))
	}
	if err != nil {
		return fmt.Errorf("%s (process %d) is not ready: %w%s", p.Name, p.PID, err, machine.LogTail(p.Log))
	}
	return nil
}
