// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
)

// ownerRole makes this test binary, run as a process of its own, own the folder that is its value. deafRole makes it ignore SIGTERM.
const ownerRole, deafRole = "HOLDFAST_TEST_OWNER", "HOLDFAST_TEST_DEAF"

func TestMain(m *testing.M) {
	dir := os.Getenv(ownerRole)
	if dir == "" {
		os.Exit(m.Run())
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	if os.Getenv(deafRole) != "" {
		signal.Ignore(syscall.SIGTERM)
	}
	lock, err := takeLock(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("owns")
	<-end
	_ = lock.Close()
}

// startOwner starts a process that owns the folder, and reaps it.
func startOwner(t *testing.T, dir string, env ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), append(env, ownerRole+"="+dir)...)
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
	return command
}

// checkOwner: the process of that ID owns the folder, or none if it is 0.
func checkOwner(t *testing.T, dir, when string, want int) {
	t.Helper()
	if pid, err := Owner(dir); pid != want || err != nil {
		t.Fatalf("%s: owner %d, error %v, expected %d", when, pid, err, want)
	}
}

// checkState: that is the state of the folder.
func checkState(t *testing.T, dir, when string, want *State) {
	t.Helper()
	got, err := ReadState(dir)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%s: error %v, state (-want +got):\n%s", when, err, diff)
	}
}

func TestStopEndsTheOwnerAndNoOtherProcess(t *testing.T) {
	for name, tc := range map[string]struct {
		env     []string
		grace   time.Duration
		signals int
	}{
		"one that listens":         {nil, stopGrace, 1},
		"one that does not listen": {[]string{deafRole + "=1"}, 100 * time.Millisecond, 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir, elsewhere := t.TempDir(), t.TempDir()
			owner, other := startOwner(t, dir, tc.env...), startOwner(t, elsewhere)
			checkOwner(t, dir, "while it runs", owner.Process.Pid)
			if _, err := takeLock(dir); err == nil {
				t.Error("a second process owns the folder")
			}
			var out bytes.Buffer
			err := stop(t.Context(), dir, &out, tc.grace)
			if tc.signals == 2 && err != nil { // killed, and within the short grace not yet gone
				err = stop(t.Context(), dir, &out, stopGrace)
			}
			if err != nil || strings.Count(out.String(), "stopping") < tc.signals {
				t.Errorf("error %v, output %s", err, &out)
			}
			checkOwner(t, dir, "after it was stopped", 0)
			checkOwner(t, elsewhere, "another folder", other.Process.Pid)
			if err := stop(t.Context(), dir, &out, tc.grace); err != nil {
				t.Errorf("stopping twice: %v", err)
			}
		})
	}
}

func TestAStateCountsWhileItsOwnerRuns(t *testing.T) {
	dir := t.TempDir()
	checkState(t, dir, "where nothing was started", nil)
	want := &State{Children: []cluster.Child{{Name: "etcd", PID: 8}}, Kubeconfig: "k", Socket: "s"}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	checkState(t, dir, "without an owner", nil)
	owner := startOwner(t, dir)
	checkState(t, dir, "while its owner runs", want)
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(dir); err == nil || !strings.Contains(err.Error(), "state.json") {
		t.Errorf("a broken file: error %v", err)
	}
	if err := errors.Join(owner.Process.Kill(), Stop(t.Context(), dir, &bytes.Buffer{})); err != nil {
		t.Fatal(err)
	}
	checkState(t, dir, "after the owner was killed", nil)
}

func TestStartSaysWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Start(t.Context(), dir, "/bin/false", nil, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "did not come up") {
		t.Errorf("a program that ends: error %v", err)
	}
	startOwner(t, dir)
	if _, _, err := Start(t.Context(), dir, "/bin/false", nil, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "starting or stopping") {
		t.Errorf("a cluster that is not up yet: error %v", err)
	}
	if err := (&State{Kubeconfig: "k"}).write(dir); err != nil {
		t.Fatal(err)
	}
	state, already, err := Start(t.Context(), dir, "/bin/false", nil, &bytes.Buffer{})
	if err != nil || !already || state.Kubeconfig != "k" {
		t.Errorf("a cluster that is up: %v, already %t, error %v", state, already, err)
	}
}
