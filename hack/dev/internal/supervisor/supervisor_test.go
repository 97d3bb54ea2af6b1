// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const patience = 30 * time.Second

// startChild starts a program that would outlive the test, and reaps it.
func startChild(t *testing.T, script string) Process {
	t.Helper()
	command := exec.Command("/bin/sh", "-c", script)
	ready, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // it is stopped or killed in any case
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended
		<-ended
	})
	p, err := Identify("child", command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestIdentity(t *testing.T) {
	child := startChild(t, "echo; exec sleep 600")
	if !child.Alive() {
		t.Error("a process that runs counts as ended")
	}
	another := child
	another.Started = "another time"
	if another.Alive() {
		t.Error("a process is taken for an earlier one of the same ID")
	}
	if killed, err := another.Stop(patience); killed || err != nil || !child.Alive() {
		t.Errorf("another one's process was stopped: killed %t, error %v", killed, err)
	}
	if (Process{PID: 1 << 30, Started: child.Started}).Alive() {
		t.Error("a process that cannot exist counts as running")
	}
}

func TestStopOfAProcess(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		grace  time.Duration
		killed bool
	}{
		"one that listens":         {"echo; exec sleep 600", patience, false},
		"one that does not listen": {`trap "" TERM; echo; while :; do sleep 0.1; done`, 100 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			child := startChild(t, tc.script)
			killed, err := child.Stop(tc.grace)
			if err != nil || killed != tc.killed || child.Alive() {
				t.Errorf("killed %t, error %v, alive %t", killed, err, child.Alive())
			}
		})
	}
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	if state, err := ReadState(dir); state != nil || err != nil {
		t.Errorf("where nothing was started: %v, error %v", state, err)
	}
	want := &State{Phase: Up, Supervisor: Process{"supervisor", 7, "x"}, Children: []Process{{"etcd", 8, "y"}}, Kubeconfig: "k"}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := ReadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(dir); err == nil || !strings.Contains(err.Error(), "state.json") {
		t.Errorf("a broken file: error %v", err)
	}
}

func TestStopEndsTheChildrenOfASupervisorThatWasKilled(t *testing.T) {
	dir := t.TempDir()
	first, second := startChild(t, "echo; exec sleep 600"), startChild(t, "echo; exec sleep 600")
	first.Name, second.Name = "first", "second"
	gone := second
	gone.Name, gone.Started = "gone", "another time"
	state := &State{Phase: Up, Supervisor: Process{"supervisor", 1 << 30, "x"}, Children: []Process{first, gone, second}}
	if err := state.write(dir); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Stop(dir, &out); err != nil {
		t.Fatal(err)
	}
	if first.Alive() || second.Alive() {
		t.Error("a child lives")
	}
	said := out.String()
	if i, j := strings.Index(said, "second"), strings.Index(said, "first"); i < 0 || j < i || strings.Contains(said, "gone") {
		t.Errorf("expected the second child to be stopped before the first, and no other: %s", said)
	}
	if state, err := ReadState(dir); state != nil || err != nil {
		t.Errorf("state after Stop: %v, error %v", state, err)
	}
	if err := Stop(dir, &out); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
}

func TestElapsed(t *testing.T) {
	var out bytes.Buffer
	if n, err := Elapsed(&out).Write([]byte("a line\n")); err != nil || n != len("a line\n") {
		t.Errorf("wrote %d, error %v", n, err)
	}
	if !strings.HasSuffix(out.String(), "s  a line\n") {
		t.Errorf("got %q", out.String())
	}
}
