// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"
)

// ignored is the mask of the signals that a process ignores, in proc_pid_status(5).
var ignored = regexp.MustCompile(`(?m)^SigIgn:\s*([0-9a-f]+)$`)

// childVariable makes the test binary be the workload.
const childVariable = "BE_THE_WORKLOAD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func workload(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	return cmd
}

func TestExitCodes(t *testing.T) {
	tests := map[string]struct {
		args []string
		want int
	}{
		"a Job's pod that is done":  {[]string{"complete"}, 0},
		"a Job's pod that fails":    {[]string{"fail"}, 1},
		"a word that is no command": {[]string{"complet"}, 2},
		"too many words":            {[]string{"complete", "fail"}, 2},
		"a question for help":       {[]string{"--help"}, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := workload(t, test.args...).Run()
			got := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				got = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("exited with %d: want %d", got, test.want)
			}
		})
	}
}

// running starts a workload and returns when it waits for signals.
func running(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := workload(t, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "running\n" {
		t.Fatalf("it said %q (%v): want running", line, err)
	}
	return cmd
}

func TestItEndsInOrderOnASignal(t *testing.T) {
	cmd := running(t)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM it ended with %v: want exit code 0", err)
	}
}

func TestADeafOneIgnoresTheSignalToEnd(t *testing.T) {
	cmd := running(t, "deaf")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	found := ignored.FindSubmatch(status)
	if found == nil {
		t.Fatalf("the process does not say what it ignores:\n%s", status)
	}
	mask, err := strconv.ParseUint(string(found[1]), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	if mask&(1<<(syscall.SIGTERM-1)) == 0 {
		t.Errorf("it ignores the signals %x: want SIGTERM among them", mask)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt it ended with %v: want exit code 0", err)
	}
}
