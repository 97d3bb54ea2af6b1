// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	criapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

// foreignRuntime is a runtime with the responses of a fuzz input.
type foreignRuntime struct {
	criapi.RuntimeService
	Name       string                         `json:"name"`
	Conditions []*runtimeapi.RuntimeCondition `json:"conditions"`
	Sandboxes  []*runtimeapi.PodSandbox       `json:"sandboxes"`
	Containers []*runtimeapi.Container        `json:"containers"`
	// Info is the verbose status by sandbox ID; a sandbox without one cannot be read.
	Info map[string]string `json:"info"`
	// Tasks are the specifications in the folders of containerd's tasks, by ID.
	Tasks map[string]string `json:"tasks"`

	mu      sync.Mutex
	verbose []string
}

func (r *foreignRuntime) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: r.Name}, nil
}

func (r *foreignRuntime) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: r.Conditions}}, nil
}

func (r *foreignRuntime) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return r.Sandboxes, nil
}

func (r *foreignRuntime) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return r.Containers, nil
}

func (r *foreignRuntime) PodSandboxStatus(_ context.Context, id string, _ bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verbose = append(r.verbose, id)
	info, known := r.Info[id]
	if !known {
		return nil, errors.New("no such sandbox")
	}
	return &runtimeapi.PodSandboxStatusResponse{Info: map[string]string{infoKey: info}}, nil
}

// taskID keeps a fuzz input inside its folder.
var taskID = regexp.MustCompile(`^\.?[a-zA-Z0-9]{1,64}$`)

// decodeForeign gives the runtime of an input; false for one that no runtime could be: the wire format has no absent element.
func decodeForeign(raw []byte) (*foreignRuntime, bool) {
	r := &foreignRuntime{}
	if json.Unmarshal(raw, r) != nil || len(r.Tasks) > 4 {
		return nil, false
	}
	for id := range r.Tasks {
		if !taskID.MatchString(id) {
			return nil, false
		}
	}
	return r, !slices.Contains(r.Conditions, nil) && !slices.Contains(r.Sandboxes, nil) && !slices.Contains(r.Containers, nil)
}

// writeTasks makes containerd's state directory.
func (r *foreignRuntime) writeTasks(t *testing.T) string {
	t.Helper()
	if len(r.Tasks) == 0 {
		return "/nonexistent"
	}
	dir := t.TempDir()
	for id, spec := range r.Tasks {
		folder := filepath.Join(dir, taskPlugins[0], criNamespace, id)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, specFile), []byte(spec), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// FuzzList: every sandbox and every container that has not exited is in the listing, only the status of queried sandboxes is read, once, and no sandbox
// that the runtime may still run is reported as ready for release.
func FuzzList(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte, queried string) {
		r, ok := decodeForeign(raw)
		if !ok {
			return
		}
		listing, err := list(t.Context(), r, r.writeTasks(t))
		if err != nil {
			if listing != nil {
				t.Errorf("an error with a list: %v", err)
			}
			return
		}
		readNetworks(t.Context(), r, listing, sandbox.Queried{IDs: sets.New(queried)}, time.Hour)
		checkNothingIsLost(t, r, listing)
		checkCalls(t, r, listing)
		checkEvidence(t, r, listing, queried)
	})
}

func checkNothingIsLost(t *testing.T, r *foreignRuntime, listing *handshake.Listing) {
	t.Helper()
	if len(listing.Sandboxes) != len(r.Sandboxes) {
		t.Errorf("%d sandboxes became %d", len(r.Sandboxes), len(listing.Sandboxes))
	}
	running, counted := 0, 0
	for _, c := range r.Containers {
		if c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			running++
		}
	}
	for i, s := range listing.Sandboxes {
		counted += s.NotExited
		if state := r.Sandboxes[i].State; s.ID != r.Sandboxes[i].Id || (s.State == handshake.StateNotReady) != (state == runtimeapi.PodSandboxState_SANDBOX_NOTREADY) {
			t.Errorf("sandbox %q in state %d became %+v", r.Sandboxes[i].Id, state, s)
		}
	}
	for _, stray := range listing.Strays {
		counted += stray.NotExited
	}
	if counted != running {
		t.Errorf("%d containers have not exited, and %d are counted", running, counted)
	}
}

// checkCalls: one call for a sandbox at most, and none for one that is ready.
func checkCalls(t *testing.T, r *foreignRuntime, listing *handshake.Listing) {
	t.Helper()
	calls := map[string]int{}
	for _, id := range r.verbose {
		calls[id]++
	}
	for _, s := range listing.Sandboxes {
		if s.State == handshake.StateNotReady {
			calls[s.ID]--
		}
	}
	for id, more := range calls {
		if more > 0 {
			t.Errorf("the status of %q was read %d times more often than it is listed as not ready", id, more)
		}
	}
}

// checkEvidence judges the list as the agent of a pod "agent" does, twice, so that a sandbox may have been seen before.
func checkEvidence(t *testing.T, r *foreignRuntime, listing *handshake.Listing, queried string) {
	t.Helper()
	start := time.Unix(1000, 0)
	listing.Began, listing.Ended = start, start
	look := handshake.Check(listing, "agent")
	if look.Listing == nil {
		return
	}
	var memory handshake.Memory
	for _, s := range r.Sandboxes {
		q := handshake.Query{SandboxID: queried, NodeUID: "node", RecordUID: types.UID(s.GetMetadata().GetUid()), Seen: start}
		memory.Expect([]handshake.Query{q})
		memory.Observe(look)
		outcome := handshake.Judge(q, look, memory.Recall(q), handshake.Settings{SandboxCreationMax: time.Minute})
		if outcome.Kind == handshake.Decided && outcome.Verdict == "ReadyForRelease" && r.mayRun(queried, string(q.RecordUID)) {
			t.Errorf("%q of pod UID %q is ready for release (%s), and the runtime may run it", queried, q.RecordUID, outcome.Message)
		}
	}
}

// mayRun is the oracle: it shares no code with the product.
func (r *foreignRuntime) mayRun(id, uid string) bool {
	running := func(c *runtimeapi.Container) bool {
		return c.PodSandboxId == id && c.State != runtimeapi.ContainerState_CONTAINER_EXITED
	}
	if slices.ContainsFunc(r.Containers, running) {
		return true
	}
	if _, hasTask := r.Tasks[id]; hasTask && r.Name == containerd && !strings.HasPrefix(id, ".") {
		return true
	}
	return slices.ContainsFunc(r.Sandboxes, func(s *runtimeapi.PodSandbox) bool {
		if s.Id == id && !r.isReadable(id) {
			return true
		}
		ready := s.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		return ready && (s.Id == id || uid != "" && s.GetMetadata().GetUid() == uid)
	})
}

// isReadable says whether the runtime reports the network namespace of a sandbox.
func (r *foreignRuntime) isReadable(id string) bool {
	return r.Name == containerd && json.Valid([]byte(r.Info[id]))
}

// FuzzNetwork: a network namespace counts as closed or open only by an explicit value.
func FuzzNetwork(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		var info map[string]any
		parsed := json.Unmarshal([]byte(text), &info) == nil
		switch got := parseNetwork(text); {
		case got != 0 && !parsed:
			t.Errorf("%q cannot be parsed, and gives %d", text, got)
		case got != 0 && len(info) == 0:
			t.Errorf("%q is empty, and gives %d", text, got)
		}
	})
}

// FuzzTaskSpec: a task is a sandbox of a pod only by its own annotations.
func FuzzTaskSpec(f *testing.F) {
	f.Fuzz(func(t *testing.T, content []byte) {
		uid := podIn(content)
		var spec struct{ Annotations map[string]string }
		if uid != "" && (json.Unmarshal(content, &spec) != nil || spec.Annotations[podUIDAnnotation] != string(uid) || spec.Annotations[typeAnnotation] != sandboxType) {
			t.Errorf("%q is pod UID %q", content, uid)
		}
	})
}
