// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// parentRole makes the test below, run in a process of its own, play a parent
// that is killed: its value is the folder for the child's log.
const parentRole = "HOLDFAST_TEST_PARENT"

func playParent(t *testing.T, dir string) {
	child, err := process.Start(process.Options{
		Path: "/bin/sleep", Args: []string{"600"}, LogFile: filepath.Join(dir, "child.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("child=%d;\n", child.PID())
	<-child.Done()
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	if dir := os.Getenv(parentRole); dir != "" {
		playParent(t, dir)
		return
	}
	dir := t.TempDir()
	parent, err := process.Start(process.Options{
		Path: os.Args[0], Args: []string{"-test.run=^" + t.Name() + "$"}, Env: []string{parentRole + "=" + dir}, LogFile: filepath.Join(dir, "parent.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var child int
	err = parent.WaitReady(waitContext(t), func(context.Context) error {
		log, err := os.ReadFile(parent.LogFile())
		if err != nil {
			return err
		}
		_, after, _ := strings.Cut(string(log), "child=")
		number, _, _ := strings.Cut(after, ";")
		child, err = strconv.Atoi(number)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	handle, err := unix.PidfdOpen(child, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handle)
	if err := parent.Kill(); err != nil {
		t.Fatal(err)
	}
	// A process handle becomes readable when its process ends (pidfd_open(2)).
	ready, err := 0, error(unix.EINTR)
	for errors.Is(err, unix.EINTR) { // the runtime's own signals interrupt poll
		ready, err = unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	}
	if err != nil || ready != 1 {
		_ = unix.Kill(child, unix.SIGKILL)
		t.Errorf("the child outlived its killed parent: poll gave %d, %v", ready, err)
	}
}
