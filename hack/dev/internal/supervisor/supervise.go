// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
)

// Options of a development cluster in the background.
type Options struct {
	// Root is the repository, Dir the folder for everything that is written.
	Root, Dir string
	// Program is the holdfast-dev binary.
	Program string
	// Nodes are the names of the stand-in nodes.
	Nodes []string
	// Mode of the unsafe-release webhook; empty is as installed.
	Mode configv1alpha1.ReleaseMode
	// Evidence is whose word proves a sandbox gone; empty is the default of a
	// development cluster.
	Evidence configv1alpha1.Evidence
	// Guard installs Holdfast.
	Guard bool
	// Log gets progress.
	Log io.Writer
}

// Supervise brings the cluster up, and keeps it until ctx ends; then it stops
// everything in the reverse order. It is the background process.
func Supervise(ctx context.Context, o Options) (err error) {
	s := &supervisor{Options: o}
	if s.state.Supervisor, err = Identify("supervisor", os.Getpid()); err != nil {
		return err
	}
	s.state.Phase = Starting
	if err := s.save(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeState(o.Dir)) }()
	c, err := s.start(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(o.Log, upLine)
	s.await(ctx, c)
	s.update(func(state *State) { state.Phase = Stopping })
	return c.Stop()
}

// upLine is the last line of progress.
const upLine = "the development cluster is up"

type supervisor struct {
	Options
	mutex sync.Mutex
	state State
}

func (s *supervisor) start(ctx context.Context) (*cluster.Cluster, error) {
	c, err := cluster.Start(ctx, cluster.Options{
		Root: s.Root, Dir: s.Dir, Nodes: s.Nodes, Log: s.Log, Started: s.started,
	})
	if err != nil {
		return nil, err
	}
	if s.Guard {
		if err := c.InstallGuard(ctx, cluster.GuardOptions{Mode: s.Mode, Evidence: s.Evidence}); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	s.update(func(state *State) {
		state.Phase, state.Kubeconfig, state.Socket = Up, c.Kubeconfig(), c.Socket()
	})
	return c, nil
}

// await returns when ctx ends. A child that ends before is told of, and left: the
// cluster without it is still of use, and somebody may want to see why.
func (s *supervisor) await(ctx context.Context, c *cluster.Cluster) {
	if manager := c.Manager(); manager != nil {
		select {
		case <-ctx.Done():
			return
		case <-manager.Done():
			fmt.Fprintf(s.Log, "the manager ended; see %s\n", manager.LogFile())
		}
	}
	<-ctx.Done()
}

func (s *supervisor) started(child cluster.Child) {
	p, err := Identify(child.Name, child.PID)
	if err != nil { // it ended already, and the start will say so
		return
	}
	s.update(func(state *State) { state.Children = append(state.Children, p) })
}

func (s *supervisor) update(change func(*State)) {
	s.mutex.Lock()
	change(&s.state)
	s.mutex.Unlock()
	if err := s.save(); err != nil {
		fmt.Fprintln(s.Log, err)
	}
}

func (s *supervisor) save() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.state.write(s.Dir)
}

// Elapsed is a writer that puts the seconds since its making before each line.
func Elapsed(w io.Writer) io.Writer { return &elapsed{w, time.Now()} }

type elapsed struct {
	io.Writer
	began time.Time
}

// Write expects whole lines, as fmt.Fprintf gives them.
func (e *elapsed) Write(line []byte) (int, error) {
	if _, err := fmt.Fprintf(e.Writer, "%6.1fs  %s", time.Since(e.began).Seconds(), line); err != nil {
		return 0, err
	}
	return len(line), nil
}
