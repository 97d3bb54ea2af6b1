// SPDX-License-Identifier: Apache-2.0

package hostlocal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodestore"
)

const (
	content = "s1\r\neth0"
	// patience is longer than a busy machine takes for anything here.
	patience = time.Minute
)

// patient is a source that waits for its lock for as long as a busy machine may need.
func patient(dir string, networks []string) *Source {
	s := New(dir, networks)
	s.lockTimeout = patience
	return s
}

// network makes a data directory with the network a, which has 10.0.0.2 for sandbox s1, and gives the directory.
func network(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir+"/a/10.0.0.2", content)
	write(t, dir+"/a/10.0.0.3", "s2\r\neth0")
	write(t, dir+"/a/lock", "")
	write(t, dir+"/a/last_reserved_ip.0", "10.0.0.3")
	return dir
}

// files are the names and contents of the network's folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, dir)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestReclaimRemovesTheEntryAndNothingElse(t *testing.T) {
	dir := network(t)
	reason, err := patient(dir, []string{"a"}).Reclaim(t.Context(), entryOf(dir, "a", "10.0.0.2", "s1", "eth0"))
	if err != nil || reason != v1alpha1.ReasonAddressReclaimed {
		t.Fatalf("%s, %v", reason, err)
	}
	want := map[string]string{"/a/10.0.0.3": "s2\r\neth0", "/a/lock": "", "/a/last_reserved_ip.0": "10.0.0.3"}
	if diff := gocmp.Diff(want, files(t, dir)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	held := lockOf(t, dir)
	if err := unix.Flock(held, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the lock is still held: %v", err)
	}
}

// TestI7ReclaimComparesAgain: if any field of the entry differs by now, nothing is removed.
func TestI7ReclaimComparesAgain(t *testing.T) {
	cases := map[string]struct {
		networks []string
		change   func(t *testing.T, dir string)
		entry    func(dir string) nodestore.Entry
		want     v1alpha1.Reason
		err      string
	}{
		"the address is another sandbox's by now": {
			change: func(t *testing.T, dir string) { write(t, dir+"/a/10.0.0.2", "s9\r\neth0") }, want: v1alpha1.ReasonAddressChanged},
		"the same sandbox has it with another interface": {
			change: func(t *testing.T, dir string) { write(t, dir+"/a/10.0.0.2", "s1\r\nnet1") }, want: v1alpha1.ReasonAddressChanged},
		"the interface is not named any more": {
			change: func(t *testing.T, dir string) { write(t, dir+"/a/10.0.0.2", "s1") }, want: v1alpha1.ReasonAddressChanged},
		"a DEL came before": {
			change: func(t *testing.T, dir string) { remove(t, dir+"/a/10.0.0.2") }, want: v1alpha1.ReasonAddressChanged},
		"the network is not there any more": {
			change: func(t *testing.T, dir string) { remove(t, dir+"/a") }, want: v1alpha1.ReasonAddressChanged},
		"the file is empty": {change: func(t *testing.T, dir string) { write(t, dir+"/a/10.0.0.2", "") }, err: "the file is empty"},
		"the file is a link": {change: func(t *testing.T, dir string) {
			remove(t, dir+"/a/10.0.0.2")
			link(t, dir+"/a/10.0.0.3", dir+"/a/10.0.0.2")
		}, err: "not a regular file"},
		"the folder has no lock":    {change: func(t *testing.T, dir string) { remove(t, dir+"/a/lock") }, err: "lock"},
		"the lock is a link":        {change: func(t *testing.T, dir string) { remove(t, dir+"/a/lock"); link(t, dir+"/a/10.0.0.3", dir+"/a/lock") }, err: "lock"},
		"the network is not ours":   {networks: []string{"b"}, change: func(*testing.T, string) {}, err: "not an entry of"},
		"the data directory is not": {entry: func(string) nodestore.Entry { return entryOf("/elsewhere", "a", "10.0.0.2", "s1", "eth0") }, change: func(*testing.T, string) {}, err: "not an entry of"},
		"a network outside":         {networks: []string{"../a"}, entry: func(dir string) nodestore.Entry { return entryOf(dir, "../a", "10.0.0.2", "s1", "eth0") }, change: func(*testing.T, string) {}, err: "not an entry of"},
		"an entry of another backend": {entry: func(dir string) nodestore.Entry {
			e := entryOf(dir, "a", "10.0.0.2", "s1", "eth0")
			e.Store.Backend = nodestore.AWSIPAMD
			return e
		}, change: func(*testing.T, string) {}, err: "not an entry of"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := network(t)
			e := entryOf(dir, "a", "10.0.0.2", "s1", "eth0")
			if tc.entry != nil {
				e = tc.entry(dir)
			}
			tc.change(t, dir)
			before := files(t, dir)
			reason, err := patient(dir, tc.networks).Reclaim(t.Context(), e)
			if reason != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("want %q and an error with %q, got %q and %v", tc.want, tc.err, reason, err)
			}
			if diff := gocmp.Diff(before, files(t, dir)); diff != "" {
				t.Errorf("something was changed (-before +after)\n%s", diff)
			}
		})
	}
}

// TestReclaimWaitsForTheLock: what another process writes under the lock is seen, because the content is read after the lock is had.
func TestReclaimWaitsForTheLock(t *testing.T) {
	dir := network(t)
	held := lockOf(t, dir)
	if err := unix.Flock(held, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	type result struct {
		reason v1alpha1.Reason
		err    error
	}
	done := make(chan result)
	go func() {
		reason, err := patient(dir, nil).Reclaim(t.Context(), entryOf(dir, "a", "10.0.0.2", "s1", "eth0"))
		done <- result{reason, err}
	}()
	waiting(t, dir)
	write(t, dir+"/a/10.0.0.2", "s9\r\neth0")
	if err := unix.Flock(held, unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.reason != v1alpha1.ReasonAddressChanged || got.err != nil {
		t.Errorf("%+v", got)
	}
	if files(t, dir)["/a/10.0.0.2"] != "s9\r\neth0" {
		t.Error("the entry of another sandbox is gone")
	}
}

func TestReclaimGivesUpWhenTheLockIsNotHad(t *testing.T) {
	for name, kind := range map[string]int{"a writer has it": unix.LOCK_EX, "a reader has it": unix.LOCK_SH} {
		t.Run(name, func(t *testing.T) {
			dir := network(t)
			if err := unix.Flock(lockOf(t, dir), kind); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := patient(dir, nil).Reclaim(ctx, entryOf(dir, "a", "10.0.0.2", "s1", "eth0"))
				done <- err
			}()
			waiting(t, dir)
			cancel()
			if err := <-done; err == nil || !strings.Contains(err.Error(), "host-local's lock") {
				t.Errorf("%v", err)
			}
			if files(t, dir)["/a/10.0.0.2"] != content {
				t.Error("the entry was removed without the lock")
			}
		})
	}
}

func TestTheLockIsNotWaitedForForEver(t *testing.T) {
	dir := network(t)
	if err := unix.Flock(lockOf(t, dir), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	s := New(dir, nil)
	s.lockTimeout = lockRetry
	if _, err := s.Reclaim(t.Context(), entryOf(dir, "a", "10.0.0.2", "s1", "eth0")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestAReplacedLockBlocksNoOtherProcess: an administrator who clears the folder gives host-local another lock.
func TestAReplacedLockBlocksNoOtherProcess(t *testing.T) {
	dir := network(t)
	held := lockOf(t, dir)
	if err := unix.Flock(held, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := patient(dir, nil).Reclaim(t.Context(), entryOf(dir, "a", "10.0.0.2", "s1", "eth0"))
		done <- err
	}()
	waiting(t, dir)
	remove(t, dir+"/a/lock")
	write(t, dir+"/a/lock", "")
	if err := unix.Flock(held, unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("%v", err)
	}
	if files(t, dir)["/a/10.0.0.2"] != content {
		t.Error("the entry was removed without the lock")
	}
}

// lockOf opens the lock as host-local does.
func lockOf(t *testing.T, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir+"/a/lock", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// waiting returns once a second open file of the lock is there: another goroutine is about to lock it, or waits for it.
func waiting(t *testing.T, dir string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for opened := 0; opened < 2; {
		if time.Now().After(deadline) {
			t.Fatal("the lock is not opened")
		}
		opened = 0
		links, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range links {
			if target, err := os.Readlink(path); err == nil && target == dir+"/a/lock" {
				opened++
			}
		}
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}
