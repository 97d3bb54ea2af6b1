// SPDX-License-Identifier: Apache-2.0

//go:build linux

package machine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

func TestParseMounts(t *testing.T) {
	got, err := parseMounts(`31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
42 27 254:0 /a\040b /mnt/c\134d rw,relatime shared:1 master:2 - ext4 /dev/vda rw
`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Mount{
		{Root: "/", Point: "/sys/fs/cgroup", Type: "tmpfs", Source: "tmpfs"},
		{Root: "/a b", Point: `/mnt/c\d`, Type: "ext4", Source: "/dev/vda"},
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := parseMounts("31 23 0:28 / /x rw"); err == nil {
		t.Error("a line without a type is accepted")
	}
}

func TestParseStat(t *testing.T) {
	const rest = " 1 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 4711 1 1"
	for what, test := range map[string]struct {
		content string
		want    string
		err     error
	}{
		"a process that runs":            {"12 (kubelet) S" + rest, "4711", nil},
		"a frozen process runs":          {"12 (kubelet) T" + rest, "4711", nil},
		"a name may look like the rest":  {"12 (a) Z (b) S" + rest, "4711", nil},
		"of a zombie only the status":    {"12 (kubelet) Z" + rest, "", errEnded},
		"a process that is just exiting": {"12 (kubelet) X" + rest, "", errEnded},
	} {
		t.Run(what, func(t *testing.T) {
			got, err := parseStat(test.content)
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, test.want, test.err)
			}
		})
	}
	if _, err := parseStat("12 (a) S 1"); err == nil || errors.Is(err, errEnded) {
		t.Errorf("half a line gives %v: an unreadable process is not one that ended", err)
	}
}

// start runs a program whose cgroup is a plain file, so that the test needs no
// rights: the shell writes there what the kernel would take.
func start(t *testing.T, command ...string) (state.Process, *Cgroups) {
	t.Helper()
	c := &Cgroups{tracking: t.TempDir()}
	if err := os.Mkdir(filepath.Join(c.tracking, "group"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(Program{
		Name: "test", Command: command, Cgroup: "group", Log: filepath.Join(t.TempDir(), "log", "test.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if Alive(p) {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	})
	return p, c
}

func TestStartJoinsTheCgroupBeforeTheProgramRuns(t *testing.T) {
	p, c := start(t, "/bin/sh", "-c", `echo "I am $$"; exec sleep 1000`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := Poll(ctx, time.Millisecond, func(context.Context) error {
		log, err := os.ReadFile(p.Log)
		if err == nil && len(log) == 0 {
			err = errors.New("it has not run yet")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	joined, err := os.ReadFile(c.procsFile("group"))
	if err != nil || strings.TrimSpace(string(joined)) != "0" {
		t.Errorf("cgroup.procs got %q, %v; want 0, the process that writes", joined, err)
	}
	if log := LogTail(p.Log); !strings.Contains(log, "I am ") {
		t.Errorf("its output is not in the log: %q", log)
	}
}

func TestStartOutsideOfItsCgroupIsRefused(t *testing.T) {
	c := &Cgroups{tracking: filepath.Join(t.TempDir(), "missing")}
	log := filepath.Join(t.TempDir(), "test.log")
	p, err := c.Start(Program{Name: "test", Command: []string{"/bin/sh", "-c", "echo ran"}, Cgroup: "group", Log: log})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := Poll(ctx, time.Millisecond, func(context.Context) error {
		if err == nil && Alive(p) {
			return errors.New("it runs")
		}
		return nil
	})
	if tail := LogTail(log); ended != nil || strings.Contains(tail, "ran") {
		t.Errorf("%v; the program ran where nothing would find it: %s", ended, tail)
	}
}

func TestStop(t *testing.T) {
	t.Run("a program that ends when it is asked", func(t *testing.T) {
		p, _ := start(t, "sleep", "1000")
		if err := Stop(t.Context(), p); err != nil || Alive(p) || Describe(p) != "ended" {
			t.Errorf("%v, it is %s", err, Describe(p))
		}
		if err := Stop(t.Context(), p); err != nil {
			t.Errorf("once more: %v", err)
		}
	})
	t.Run("a frozen program", func(t *testing.T) {
		p, _ := start(t, "sleep", "1000")
		if err := Signal(p, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if err := Stop(t.Context(), p); err != nil || Alive(p) {
			t.Errorf("%v, it is %s", err, Describe(p))
		}
	})
}

func TestAnotherProcessOfTheSameIDIsLeftAlone(t *testing.T) {
	p, _ := start(t, "sleep", "1000")
	other := p
	other.Started = "another boot/1"
	if err := Stop(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := Signal(other, syscall.SIGKILL); err == nil {
		t.Error("a process that is not the one got a signal")
	}
	if !Alive(p) || Alive(other) || Alive(state.Process{}) {
		t.Errorf("alive: the process %t, another of its ID %t, none %t", Alive(p), Alive(other), Alive(state.Process{}))
	}
}

func TestProcessesOfAGroupAreThoseBelowToo(t *testing.T) {
	c := &Cgroups{tracking: t.TempDir()}
	for group, pids := range map[string]string{"node": "", "node/services": "12\n13\n", "node/pods/a/b": "14\n", "other": "15\n"} {
		dir := filepath.Join(c.tracking, group)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pids), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Processes("node")
	slices.Sort(got)
	if diff := cmp.Diff([]int{12, 13, 14}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := c.Processes("gone"); len(got) > 0 || err != nil {
		t.Errorf("a group that is gone has %v, %v", got, err)
	}
}

func TestCreateAndRemove(t *testing.T) {
	c := &Cgroups{mounts: []string{t.TempDir(), t.TempDir()}}
	for range 2 { // the second time all is there already
		if err := c.Create("/hf-cluster/node-a/pods"); err != nil {
			t.Fatal(err)
		}
	}
	if left := c.Left("/hf-cluster/node-a/pods"); len(left) != 2 {
		t.Errorf("made in %q, want both hierarchies", left)
	}
	if err := c.Remove(t.Context(), "/hf-cluster"); err != nil {
		t.Fatal(err)
	}
	if left := c.Left("/hf-cluster"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestACpusetInheritsItsParents(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "group")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		filepath.Join(parent, "cpuset.cpus"): "0-1\n", filepath.Join(dir, "cpuset.cpus"): "\n",
		filepath.Join(parent, "cpuset.mems"): "0\n", filepath.Join(dir, "cpuset.mems"): "7\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&Cgroups{mounts: []string{parent}}).Create("group"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "7\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestMountsBelow(t *testing.T) {
	if got, err := MountsBelow(t.TempDir()); err != nil || len(got) > 0 {
		t.Errorf("a fresh folder has the mounts %q, %v", got, err)
	}
	if got, err := MountsBelow("/proc"); err != nil || len(got) == 0 {
		t.Errorf("/proc has the mounts %q, %v; want itself", got, err)
	}
	for what, test := range map[string]struct {
		path, folder string
		want         bool
	}{
		"itself":             {"/a/b", "/a/b", true},
		"a folder in it":     {"/a/b/c", "/a/b", true},
		"a longer name":      {"/a/bc", "/a/b", false},
		"the folder that it": {"/a", "/a/b", false},
	} {
		if got := below(test.path, test.folder); got != test.want {
			t.Errorf("%s: below(%q, %q) is %t", what, test.path, test.folder, got)
		}
	}
}

func TestEnter(t *testing.T) {
	if diff := cmp.Diff([]string{"ip", "link"}, Enter(0, []string{"ip", "link"})); diff != "" {
		t.Errorf("on the host (-want +got):\n%s", diff)
	}
	want := []string{"nsenter", "--target", "7", "--mount", "--net", "--uts", "--wd=/", "--", "ip", "link"}
	if diff := cmp.Diff(want, Enter(7, []string{"ip", "link"})); diff != "" {
		t.Errorf("in a node (-want +got):\n%s", diff)
	}
}

func TestRunSaysWhatFailed(t *testing.T) {
	c := &Cgroups{tracking: t.TempDir()}
	output, err := c.Run(t.Context(), "", []byte("in"), "cat")
	if err != nil || string(output) != "in" {
		t.Errorf("%q, %v", output, err)
	}
	if joined, err := os.ReadFile(c.procsFile("")); err != nil || strings.TrimSpace(string(joined)) != "0" {
		t.Errorf("cgroup.procs got %q, %v; want 0", joined, err)
	}
	_, err = c.Run(t.Context(), "", nil, "/bin/sh", "-c", "echo reason >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "reason") || !strings.HasPrefix(err.Error(), "/bin/sh -c echo reason >&2; exit 3: exit status 3") {
		t.Errorf("error %v, want one with the command, the status and the reason", err)
	}
}
