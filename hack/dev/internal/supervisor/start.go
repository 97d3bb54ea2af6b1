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
	"time"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const followPoll = 100 * time.Millisecond

// Start runs a program that calls Supervise for this folder, shows its progress, and returns when the cluster is up, with
// already true if it was before. When ctx ends first, the program is stopped.
func Start(ctx context.Context, dir, program string, args []string, out io.Writer) (state *State, already bool, err error) {
	pid, err := Owner(dir)
	if err != nil {
		return nil, false, err
	}
	if pid != 0 {
		if state, err = ReadState(dir); err == nil && state == nil {
			err = fmt.Errorf("a development cluster in %s is starting or stopping (process %d): wait for it, or run make dev-down", dir, pid)
		}
		return state, true, err
	}
	log := filepath.Join(dir, "logs", "supervisor.log")
	if err := os.RemoveAll(log); err != nil {
		return nil, false, err
	}
	p, err := process.Start(process.Options{Name: "supervisor", Path: program, Args: args, LogFile: log, Detached: true})
	if err != nil {
		return nil, false, err
	}
	state, err = follow(ctx, dir, p, out)
	return state, false, err
}

// follow shows the program's log until the cluster is up.
func follow(ctx context.Context, dir string, p *process.Process, out io.Writer) (*State, error) {
	ticker := time.NewTicker(followPoll)
	defer ticker.Stop()
	for shown := 0; ; {
		ended := p.Exited() // before the log is read, so that its last lines are seen
		log, err := os.ReadFile(p.LogFile())
		if err != nil {
			return nil, err
		}
		whole := bytes.LastIndexByte(log, '\n') + 1
		fmt.Fprint(out, string(log[shown:whole]))
		shown = whole
		if state, err := ReadState(dir); state != nil || err != nil {
			return state, err
		}
		if ended {
			return nil, fmt.Errorf("the development cluster did not come up; log: %s", p.LogFile())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, errors.Join(errors.New("interrupted while the cluster was starting"), p.Stop(stopGrace))
		}
	}
}
