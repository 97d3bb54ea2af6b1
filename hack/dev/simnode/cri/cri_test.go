// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	simnodecri "github.com/holdfast-dev/holdfast/hack/dev/simnode/cri"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
	"github.com/holdfast-dev/holdfast/internal/sandbox/cri"
)

const (
	callTimeout = 10 * time.Second
	// quickly bounds the look at a runtime that cannot be reached.
	quickly = 200 * time.Millisecond
)

var web = runtime.PodRef{UID: "uid-1", Namespace: "ns", Name: "web-0"}

// machine is a simulated runtime at a socket, and what Holdfast's agent looks at it with.
type machine struct {
	*testing.T
	*runtime.Runtime
	options simnodecri.Options
	server  *simnodecri.Server
	agent   *cri.Runtime
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{T: t}
	m.Runtime = runtime.New("node-a", clock.RealClock{}, runtime.NewHistory(clock.RealClock{}))
	m.options = simnodecri.Options{Socket: filepath.Join(t.TempDir(), "cri.sock"), Runtime: m.Runtime}
	m.serve()
	t.Cleanup(func() { m.server.Stop() })
	m.agent = cri.New(cri.Options{Endpoint: m.options.Socket, Timeout: quickly})
	t.Cleanup(func() { m.agent.Close(context.Background()) })
	return m
}

func (m *machine) serve() {
	m.Helper()
	var err error
	if m.server, err = simnodecri.Serve(m.Context(), m.options); err != nil {
		m.Fatal(err)
	}
}

// expect compares what Holdfast's agent reads with what there is.
func (m *machine) expect(what string, want ...handshake.Sandbox) {
	m.Helper()
	listing, err := m.agent.List(m.Context(), sandbox.Queried{})
	if err != nil {
		m.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, listing.Sandboxes, cmpopts.EquateEmpty()); diff != "" {
		m.Errorf("%s (-want +got):\n%s", what, diff)
	}
	if listing.ReportsNamespaces || listing.Tasks.IDs != nil {
		m.Errorf("%s: the agent takes the runtime %s for containerd", what, listing.Runtime)
	}
}

func TestAnAgentSeesWhatTheMachineHas(t *testing.T) {
	m := newMachine(t)
	m.expect("before the first pod")
	id, _ := m.Create(web)
	one := handshake.Sandbox{ID: id, Pod: handshake.Pod{UID: "uid-1", Namespace: "ns", Name: "web-0"}, State: handshake.StateNotReady}
	m.expect("while its networks are attached", one)
	m.Ready(id)
	m.StartContainer(id, "c1", "main")
	m.StartContainer(id, "c2", "sidecar")
	one.State, one.NotExited = handshake.StateReady, 2
	m.expect("while it runs", one)
	m.ExitContainer("c2")
	one.NotExited = 1
	m.expect("once a container has ended", one)
	second, _ := m.Create(runtime.PodRef{UID: "uid-2", Namespace: "ns", Name: "web-0"})
	two := handshake.Sandbox{ID: second, Pod: handshake.Pod{UID: "uid-2", Namespace: "ns", Name: "web-0"}, State: handshake.StateNotReady}
	m.expect("with another pod of its name", one, two)
	m.Stop(id)
	one.State, one.NotExited = handshake.StateNotReady, 0
	m.expect("once it is stopped", one, two)
	m.CloseNetNS(id)
	m.expect("once its network namespace is closed", one, two)
	m.Remove(id)
	m.expect("once it is removed", two)
}

func TestAMachineThatIsOffRefuses(t *testing.T) {
	m := newMachine(t)
	id, _ := m.Create(web)
	m.Ready(id)
	m.expect("while it is on", handshake.Sandbox{ID: id, Pod: handshake.Pod{UID: "uid-1", Namespace: "ns", Name: "web-0"}, State: handshake.StateReady})
	m.server.Stop()
	m.PowerOff()
	_, err := m.agent.List(t.Context(), sandbox.Queried{})
	if got := sandbox.LookOf(nil, err, "").Failure.Reason; err == nil || got != v1alpha1.ReasonRuntimeUnreachable {
		t.Errorf("error %v with reason %s, want %s", err, got, v1alpha1.ReasonRuntimeUnreachable)
	}
	if _, err := os.Stat(m.options.Socket); err != nil {
		t.Errorf("the socket's file is not there any more: %v", err)
	}
	m.PowerOn()
	m.serve()
	m.agent = cri.New(cri.Options{Endpoint: m.options.Socket, Timeout: callTimeout})
	m.expect("after the boot", handshake.Sandbox{ID: id, Pod: handshake.Pod{UID: "uid-1", Namespace: "ns", Name: "web-0"}, State: handshake.StateNotReady})
}
