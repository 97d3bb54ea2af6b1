// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/config"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

func TestReadySince(t *testing.T) {
	start := time.Date(2030, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	for what, test := range map[string]struct {
		status    string
		heartbeat time.Time
		want      string // of the error; empty for Ready
	}{
		"the new kubelet reports": {"True", start.Add(time.Second), ""},
		// The API has whole seconds.
		"it reports in the second of its start": {"True", start.Truncate(time.Second), ""},
		"the report is of the one before":       {"True", start.Add(-time.Second), "before its kubelet was started"},
		"the new kubelet is not ready":          {"False", start.Add(time.Second), "no network"},
		"no kubelet reports":                    {"Unknown", start.Add(time.Second), "Unknown"},
	} {
		t.Run(what, func(t *testing.T) {
			object, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{
				map[string]any{"type": "DiskPressure", "status": "False", "lastHeartbeatTime": start.Add(time.Hour)},
				map[string]any{"type": "Ready", "status": test.status, "message": "no network", "lastHeartbeatTime": test.heartbeat},
			}}})
			if err != nil {
				t.Fatal(err)
			}
			got := readySince(object, start)
			if (got == nil) != (test.want == "") || got != nil && !strings.Contains(got.Error(), test.want) {
				t.Errorf("error %v, want %q", got, test.want)
			}
		})
	}
	if err := readySince([]byte(`{}`), start); err == nil {
		t.Error("a Node without a report is ready")
	}
}

func TestOurs(t *testing.T) {
	for name, want := range map[string]bool{
		"hf-ctl": true, "hf-data": true, "hf-ctl-a": true, "hf-data-h": true,
		"hf-ctl-z": false, "hf-other": false, "eth0": false, "hf-": false,
	} {
		if got := ours(name); got != want {
			t.Errorf("ours(%q) is %t", name, got)
		}
	}
}

func newCluster(t *testing.T) *Cluster {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	cni := filepath.Join(dir, "cni")
	if err := os.MkdirAll(cni, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Folder: plan.Folder(dir), Log: os.Stderr, state: &state.Cluster{Version: state.Version}}
	return c
}

func TestCertificatesAreMadeOnce(t *testing.T) {
	c := newCluster(t)
	read := func() map[string]string {
		if err := c.makeCertificates(); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		err := filepath.WalkDir(string(c.Folder), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			files[path] = string(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	first := read()
	for _, path := range []string{
		c.Folder.Kubeconfig(), c.Folder.Certificate(config.CA), c.Folder.Key(config.APIServerCert),
		c.Folder.Path("kubeconfigs", config.Scheduler),
	} {
		if first[path] == "" {
			t.Errorf("%s is missing", path)
		}
	}
	if diff := cmp.Diff(first, read()); diff != "" {
		t.Errorf("a second up makes others: what runs would not be known any more:\n%s", diff)
	}
}

func TestIdentities(t *testing.T) {
	c, n := newCluster(t), plan.NodeAt(0)
	boot := func() string {
		id, err := readID(c.Folder.Node(n.Name).BootID())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if err := c.makeKernelFiles(n); err != nil {
		t.Fatal(err)
	}
	first := boot()
	if parts := strings.Split(first, "-"); len(parts) != 5 || len(first) != 36 {
		t.Errorf("boot ID %q does not look like the kernel's", first)
	}
	if err := c.makeKernelFiles(n); err != nil || boot() != first {
		t.Errorf("%v; a start without a reboot has the boot ID %s, want %s", err, boot(), first)
	}
	if err := c.newBootID(n); err != nil || boot() == first {
		t.Errorf("%v; a reboot has the boot ID of before", err)
	}
	for name, want := range sysctls {
		got, err := readID(filepath.Join(c.Folder.Node(n.Name).Kernel(), name))
		if err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestCommandsChangeTheStateOneAfterTheOther(t *testing.T) {
	c := newCluster(t)
	if err := c.state.Write(c.Folder.StateFile()); err != nil {
		t.Fatal(err)
	}
	const commands = 8
	var group sync.WaitGroup
	for range commands {
		group.Go(func() { // each is a process of its own in real life
			other := &Cluster{Folder: c.Folder, Log: discard{}}
			err := other.locked(func() error {
				return other.update(func(s *state.Cluster) { s.Images = append(s.Images, "x") })
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := c.reload(); err != nil || len(c.state.Images) != commands {
		t.Errorf("%v; %d of %d changes are in the state", err, len(c.state.Images), commands)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestCommandsWithoutACluster(t *testing.T) {
	c := &Cluster{Folder: plan.Folder(filepath.Join(t.TempDir(), "cluster")), Log: discard{}}
	ctx := t.Context()
	for what, do := range map[string]func() error{
		"kill":       func() error { return c.KillNode(ctx, "node-a") },
		"start":      func() error { return c.StartNode(ctx, "node-a", NewBoot, true) },
		"cut-off":    func() error { return c.Connect("node-a", false) },
		"freeze":     func() error { return c.SignalKubelet("node-a", 0) },
		"containerd": func() error { return c.StopService(ctx, "node-a", config.Containerd) },
		"api server": func() error { return c.StopComponent(ctx, config.APIServer) },
		"import":     func() error { return c.Import(ctx, []string{"x"}) },
	} {
		if err := do(); !errors.Is(err, ErrNotUp) {
			t.Errorf("%s: %v, want %v", what, err, ErrNotUp)
		}
	}
}

func TestAllStopsAtTheFirstFailure(t *testing.T) {
	c := newCluster(t)
	var done []string
	add := func(name string, err error) step {
		return step{name, func(context.Context) error { done = append(done, name); return err }}
	}
	err := c.all(t.Context(), []step{add("one", nil), add("two", os.ErrClosed), add("three", nil)})
	if !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), "two") {
		t.Errorf("error %v, want that of two, with its name", err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, done); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

func TestUpGoesOnOnlyWithTheSameCluster(t *testing.T) {
	running := func() *Cluster {
		return &Cluster{Log: discard{}, state: &state.Cluster{
			KubeDirectory: "/kube", CNIDirectory: "/cni", Arguments: map[string]map[string]string{"etcd": {"a": "b"}},
		}}
	}
	for what, test := range map[string]struct {
		wanted UpOptions
		want   string // of the error; empty for none
	}{
		"the same":              {UpOptions{Kube: "/kube", CNI: "/cni", Arguments: map[string]map[string]string{"etcd": {"a": "b"}}}, ""},
		"nothing said of flags": {UpOptions{Kube: "/kube", CNI: "/cni"}, ""},
		"another Kubernetes":    {UpOptions{Kube: "/kube-1.36", CNI: "/cni"}, "take it down"},
		"another Multus":        {UpOptions{Kube: "/kube", CNI: "/cni-2"}, "take it down"},
		"another containerd":    {UpOptions{Kube: "/kube", CNI: "/cni", Containerd: "/containerd-2.4"}, "take it down"},
		"another platform":      {UpOptions{Kube: "/kube", CNI: "/cni", Platform: "k3s"}, "take it down"},
		"other flags":           {UpOptions{Kube: "/kube", CNI: "/cni", Arguments: map[string]map[string]string{"etcd": {"a": "c"}}}, "take it down"},
	} {
		t.Run(what, func(t *testing.T) {
			err := running().continues(test.wanted)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestFaultsOfANodeThatDoesNotRun(t *testing.T) {
	c := &Cluster{Log: discard{}, state: &state.Cluster{Nodes: []*state.Node{{Name: "node-a", State: state.Killed}}}}
	for what, do := range map[string]func() error{
		"freeze":     func() error { return c.SignalKubelet("node-a", 0) },
		"freeze all": func() error { return c.FreezeAll("node-a", true) },
		"cut-off":    func() error { return c.Connect("node-a", false) },
		"containerd": func() error { return c.StopService(t.Context(), "node-a", config.Containerd) },
		"exec":       func() error { _, err := c.EnterNode("node-a", []string{"true"}); return err },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "node start node-a") {
			t.Errorf("%s: error %v, want one with the command that starts it", what, err)
		}
	}
}
