// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	followPoll = 100 * time.Millisecond

	// stopGrace is the time that the supervisor gets to stop everything.
	stopGrace = 90 * time.Second
	// childGrace is the time that each child of a killed supervisor gets.
	childGrace = 10 * time.Second
)

// ErrAlreadyUp says that Start found a cluster that is up.
var ErrAlreadyUp = errors.New("the development cluster is up already")

// LogFile is the supervisor's.
func LogFile(dir string) string { return filepath.Join(dir, "logs", "supervisor.log") }

// Start starts a supervisor with these arguments of the program, shows its
// progress in o.Log, and returns when the cluster is up. When ctx ends before, the
// supervisor is stopped. Leftovers of a supervisor that was killed are stopped
// first.
func Start(ctx context.Context, o Options, args []string) (*State, error) {
	state, err := ReadState(o.Dir)
	if err != nil {
		return nil, err
	}
	switch {
	case state == nil:
	case !state.Supervisor.Alive():
		if err := Stop(o.Dir, o.Log); err != nil {
			return nil, err
		}
	case state.Phase == Up:
		return state, ErrAlreadyUp
	default:
		return nil, fmt.Errorf("a development cluster in %s is %s (process %d): wait for it, or run make dev-down",
			o.Dir, strings.ToLower(string(state.Phase)), state.Supervisor.PID)
	}
	if err := os.RemoveAll(LogFile(o.Dir)); err != nil {
		return nil, err
	}
	p, err := process.Start(process.Options{
		Name: "supervisor", Path: o.Program, Args: args, LogFile: LogFile(o.Dir), Detached: true,
	})
	if err != nil {
		return nil, err
	}
	if err := follow(ctx, p, o.Log); err != nil {
		return nil, errors.Join(err, Stop(o.Dir, o.Log))
	}
	return ReadState(o.Dir)
}

// follow shows the supervisor's log until the cluster is up.
func follow(ctx context.Context, p *process.Process, out io.Writer) error {
	ticker := time.NewTicker(followPoll)
	defer ticker.Stop()
	shown := 0
	for {
		ended := p.Exited() // before the log is read, so that its last words are seen
		log, err := os.ReadFile(p.LogFile())
		if err != nil {
			return err
		}
		for line := range bytes.Lines(log[shown:]) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			shown += len(line)
			if strings.Contains(string(line), upLine) {
				return nil
			}
			fmt.Fprint(out, string(line))
		}
		if ended {
			return fmt.Errorf("the development cluster did not come up; log: %s", p.LogFile())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(errors.New("interrupted while the cluster was starting"), p.Stop(stopGrace))
		}
	}
}

// Stop stops exactly what was started in this folder. It returns when all of it
// is gone; nothing to stop is no error.
func Stop(dir string, out io.Writer) error {
	state, err := ReadState(dir)
	if err != nil || state == nil {
		return err
	}
	if state.Supervisor.Alive() {
		fmt.Fprintf(out, "stopping the development cluster (process %d)\n", state.Supervisor.PID)
		if killed, err := state.Supervisor.Stop(stopGrace); err != nil {
			return err
		} else if killed {
			fmt.Fprintf(out, "its supervisor did not stop within %s and was killed\n", stopGrace)
		}
	}
	// In the ordinary case the supervisor has stopped them all, in this order.
	var errs []error
	for i := len(state.Children) - 1; i >= 0; i-- {
		child := state.Children[i]
		if !child.Alive() {
			continue
		}
		fmt.Fprintf(out, "stopping %s (process %d), which its supervisor left\n", child.Name, child.PID)
		_, err := child.Stop(childGrace)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return removeState(dir)
}
