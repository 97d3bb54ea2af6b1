// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	criapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

func TestTasks(t *testing.T) {
	ids := func(all ...string) map[string]bool {
		found := map[string]bool{}
		for _, id := range all {
			found[id] = true
		}
		return found
	}
	cases := map[string]struct {
		folders []string
		want    map[string]bool
		problem bool
	}{
		"of sandboxes and containers":           {[]string{"io.containerd.runtime.v2.task/k8s.io/a", "io.containerd.runtime.v2.task/k8s.io/b"}, ids("a", "b"), false},
		"of sandboxes with a shim of their own": {[]string{"io.containerd.runtime.v2.task/k8s.io/a", "io.containerd.sandbox.controller.v1.shim/k8s.io/b"}, ids("a", "b"), false},
		"of runtime v1":                         {[]string{"io.containerd.runtime.v1.linux/k8s.io/a"}, ids("a"), false},
		"not those that are being removed":      {[]string{"io.containerd.runtime.v2.task/k8s.io/a", "io.containerd.runtime.v2.task/k8s.io/.b"}, ids("a"), false},
		"not those of another namespace":        {[]string{"io.containerd.runtime.v2.task/k8s.io/a", "io.containerd.runtime.v2.task/moby/b"}, ids("a"), false},
		"no task is a problem":                  {nil, ids(), true},
		"a state directory with nothing in it":  {[]string{"io.containerd.runtime.v2.task/k8s.io"}, ids(), true},
		"a file in place of a folder":           {[]string{"io.containerd.runtime.v2.task/k8s.io/a", "io.containerd.runtime.v1.linux/k8s.io!"}, ids("a"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, folder := range tc.folders {
				makeFolder(t, filepath.Join(dir, folder))
			}
			got := readTasks(dir, nil)
			if diff := cmp.Diff(tc.want, got.IDs); diff != "" || (got.Problem != "") != tc.problem {
				t.Errorf("problem %q (-want +got)\n%s", got.Problem, diff)
			}
		})
	}
}

// makeFolder makes a folder; one that ends in "!" is a file.
func makeFolder(t *testing.T, path string) {
	t.Helper()
	if filepath.Base(path) == criNamespace+"!" {
		path = path[:len(path)-1]
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestTheSpecificationOfAnUnlistedTaskIsRead(t *testing.T) {
	spec := func(kind, pod string) string {
		return `{"ociVersion":"1.0.2","annotations":{"io.kubernetes.cri.container-type":"` + kind + `","io.kubernetes.cri.sandbox-uid":"` + pod + `"}}`
	}
	dir := t.TempDir()
	for id, content := range map[string]string{"listed": spec("sandbox", "uid-listed"), "unloaded": spec("sandbox", "uid-unloaded"), "container": spec("container", "uid-c"),
		"broken": "{", "old": `{"annotations":{"io.kubernetes.cri.container-type":"sandbox"}}`, "bare": ""} {
		folder := filepath.Join(dir, taskPlugins[0], criNamespace, id)
		makeFolder(t, folder)
		if content == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, specFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := readTasks(dir, sets.New("listed"))
	if diff := cmp.Diff(map[string]types.UID{"unloaded": "uid-unloaded"}, got.Pods); diff != "" || len(got.IDs) != 6 || got.Problem != "" {
		t.Errorf("%+v (-want +got)\n%s", got, diff)
	}
	makeFolder(t, filepath.Join(dir, taskPlugins[0], criNamespace, "bare", specFile))
	if got := readTasks(dir, sets.New("listed")); got.Problem == "" {
		t.Error("a specification that cannot be read counts as that of no sandbox")
	}
}

func TestTasksAreReadOfContainerdBesideItsSocketOrAsConfigured(t *testing.T) {
	elsewhere := t.TempDir()
	makeFolder(t, filepath.Join(elsewhere, "io.containerd.runtime.v2.task/k8s.io/configured"))
	cases := map[string]struct {
		name, configured string
		want             map[string]bool
	}{
		"beside the socket":          {"containerd", "", map[string]bool{"beside": true}},
		"as configured":              {"containerd", elsewhere, map[string]bool{"configured": true}},
		"CRI-O keeps none":           {"cri-o", "", nil},
		"nor are they read of CRI-O": {"cri-o", elsewhere, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := socket(t)
			makeFolder(t, filepath.Join(filepath.Dir(path), "io.containerd.runtime.v2.task/k8s.io/beside"))
			serve(t, &server{name: tc.name}, path)
			r := New(Options{Endpoint: "unix://" + path, StateDir: tc.configured, Timeout: 5 * time.Second})
			t.Cleanup(func() { r.Close(context.Background()) })
			got, err := r.List(t.Context(), sandbox.Queried{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Tasks.IDs); diff != "" || got.Tasks.Problem != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// stopped is a containerd with many stopped sandboxes, all queried.
func stopped(count int) (*server, sandbox.Queried) {
	s := &server{name: "containerd", info: map[string]string{}}
	queried := sandbox.Queried{IDs: sets.New[string](), Pods: sets.New[types.UID]()}
	for i := range count {
		id := fmt.Sprintf("s%02d", i)
		s.sandboxes = append(s.sandboxes, listedSandbox(id, runtimeapi.PodSandboxState_SANDBOX_NOTREADY))
		s.info[id] = closed
		queried.IDs.Insert(id)
	}
	return s, queried
}

// counting is a runtime that responds only once the test allows it.
type counting struct {
	criapi.RuntimeService
	calls atomic.Int32
	let   chan struct{}
}

func (c *counting) PodSandboxStatus(context.Context, string, bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	c.calls.Add(1)
	<-c.let
	return &runtimeapi.PodSandboxStatusResponse{Info: map[string]string{infoKey: closed}}, nil
}

func TestStatusCallsAreConcurrentWithinALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listing, queried := &handshake.Listing{}, sandbox.Queried{IDs: sets.New[string]()}
		for i := range 5 * networkCalls {
			id := fmt.Sprint(i)
			listing.Sandboxes = append(listing.Sandboxes, handshake.Sandbox{ID: id, State: handshake.StateNotReady})
			queried.IDs.Insert(id)
		}
		service := &counting{let: make(chan struct{})}
		go readNetworks(t.Context(), service, listing, queried, time.Hour)
		synctest.Wait()
		if got := service.calls.Load(); got != networkCalls {
			t.Errorf("%d calls at once, not %d", got, networkCalls)
		}
		close(service.let)
		synctest.Wait()
		for _, one := range listing.Sandboxes {
			if one.Network != handshake.NamespaceClosed {
				t.Errorf("%s: %d", one.ID, one.Network)
			}
		}
	})
}

func TestASandboxThatHangsLeavesTheOthersAndTheListAlone(t *testing.T) {
	s, queried := stopped(3 * networkCalls)
	ended := make(chan struct{})
	s.status = func(_ context.Context, id string) {
		if id == "s00" {
			<-ended // not the end of its context: the runtime could respond before the client gives up
		}
	}
	path := socket(t)
	serve(t, s, path)
	t.Cleanup(func() { close(ended) })
	r := New(Options{Endpoint: path, Timeout: 2 * time.Second})
	t.Cleanup(func() { r.Close(context.Background()) })
	got, err := r.List(t.Context(), queried)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range got.Sandboxes {
		if known := one.Network == handshake.NamespaceClosed; known != (one.ID != "s00") {
			t.Errorf("%s: %d", one.ID, one.Network)
		}
	}
}
