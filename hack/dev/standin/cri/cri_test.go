// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
	standincri "github.com/holdfast-dev/holdfast/hack/dev/standin/cri"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/runtime"
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

// machine is a stand-in runtime at a socket, and what Holdfast's agent and a kubelet look at it with.
type machine struct {
	*testing.T
	*runtime.Runtime
	options   standincri.Options
	server    *standincri.Server
	agent     *cri.Runtime
	client    runtimeapi.RuntimeServiceClient
	networkUp error
	detached  []string
	detachErr error
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{T: t}
	m.Runtime = runtime.New("node-a", clock.RealClock{}, runtime.NewHistory(clock.RealClock{}), func(string) {})
	m.options = standincri.Options{
		Socket: filepath.Join(t.TempDir(), "cri.sock"), Runtime: m.Runtime,
		NetworkReady: func() error { return m.networkUp },
		Detach: func(_ context.Context, s api.Sandbox) error {
			m.detached = append(m.detached, s.ID)
			return m.detachErr
		},
	}
	m.serve()
	t.Cleanup(func() { m.server.Stop() })
	m.agent = cri.New(cri.Options{Endpoint: m.options.Socket, Timeout: quickly})
	t.Cleanup(func() { m.agent.Close(context.Background()) })
	connection, err := grpc.NewClient("unix://"+m.options.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	m.client = runtimeapi.NewRuntimeServiceClient(connection)
	return m
}

func (m *machine) serve() {
	m.Helper()
	var err error
	if m.server, err = standincri.Serve(m.Context(), m.options); err != nil {
		m.Fatal(err)
	}
}

// expect compares what Holdfast's agent reads with what there is.
func (m *machine) expect(what string, want ...handshake.Sandbox) {
	m.Helper()
	listing, err := m.agent.List(m.Context(), sandbox.Asked{})
	if err != nil {
		m.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, listing.Sandboxes, cmpopts.EquateEmpty()); diff != "" {
		m.Errorf("%s (-want +got):\n%s", what, diff)
	}
	if listing.TellsNamespaces || listing.Tasks.IDs != nil {
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
	if err := m.Kill(id); err != nil {
		t.Fatal(err)
	}
	one.State, one.NotExited = handshake.StateNotReady, 0
	m.expect("once it was killed", one, two)
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
	_, err := m.agent.List(t.Context(), sandbox.Asked{})
	if got := sandbox.FailureOf(err).Failure.Reason; err == nil || got != v1alpha1.ReasonRuntimeUnreachable {
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

func TestASandboxIsEndedThroughTheCRI(t *testing.T) {
	m := newMachine(t)
	id, _ := m.Create(web)
	m.Ready(id)
	m.detachErr = errors.New("no network")
	if _, err := m.client.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err == nil {
		t.Error("it was removed although CNI DEL failed")
	}
	if listed, _ := m.Listed("uid-1"); listed != id || m.Alive(id) {
		t.Errorf("the runtime has sandbox %q, alive: %t; want %s, dead", listed, m.Alive(id), id)
	}
	m.detachErr = nil
	for range 2 { // the second time there is nothing left to do
		if _, err := m.client.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
			t.Error(err)
		}
	}
	m.expect("once it is removed")
	if diff := cmp.Diff([]string{id, id}, m.detached); diff != "" {
		t.Errorf("CNI DEL (-want +got):\n%s", diff)
	}
}

func TestFilters(t *testing.T) {
	m := newMachine(t)
	first, _ := m.Create(web)
	m.Ready(first)
	m.StartContainer(first, "c1", "main")
	second, _ := m.Create(runtime.PodRef{UID: "uid-2", Namespace: "ns", Name: "web-1"})
	cases := map[string]struct {
		filter *runtimeapi.PodSandboxFilter
		want   []string
	}{
		"none":           {nil, []string{first, second}},
		"a whole ID":     {&runtimeapi.PodSandboxFilter{Id: second}, []string{second}},
		"its beginning":  {&runtimeapi.PodSandboxFilter{Id: second[:12]}, []string{second}},
		"a state":        {&runtimeapi.PodSandboxFilter{State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}}, []string{first}},
		"a pod UID":      {&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": "uid-1"}}, []string{first}},
		"nothing has it": {&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": "uid-3"}}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			answer, err := m.client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: tc.filter})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range answer.Items {
				got = append(got, item.Id)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for sandboxID, want := range map[string]int{first: 1, second: 0} {
		answer, err := m.client.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: sandboxID}})
		if err != nil || len(answer.GetContainers()) != want {
			t.Errorf("containers of %s: %v, error %v, want %d", sandboxID, answer.GetContainers(), err, want)
		}
	}
}

func TestStatus(t *testing.T) {
	m := newMachine(t)
	m.networkUp = errors.New("it has no addresses")
	answer, err := m.client.Status(t.Context(), &runtimeapi.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, c := range answer.Status.Conditions {
		got[c.Type] = c.Status
	}
	if diff := cmp.Diff(map[string]bool{runtimeapi.RuntimeReady: true, runtimeapi.NetworkReady: false}, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	_, err = m.client.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: "none"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("a sandbox that is not there: %v, want %s", err, codes.NotFound)
	}
	_, err = m.client.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("making a sandbox: %v, want %s", err, codes.Unimplemented)
	}
}

func TestEventsTellOfEveryChange(t *testing.T) {
	m := newMachine(t)
	stream, err := m.client.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// The stream is there once the first event comes: one that is sent before is lost.
	received := make(chan *runtimeapi.ContainerEventResponse)
	go func() {
		defer close(received)
		for {
			event, err := stream.Recv()
			if err != nil {
				return
			}
			received <- event
		}
	}()
	probe, _ := m.Create(runtime.PodRef{UID: "uid-0"})
	for known := false; !known; {
		m.Attach(probe, api.Address{IP: "10.0.0.9"})
		select {
		case <-received:
			known = true
		case <-time.After(quickly):
		}
	}
	m.Remove(probe)
	want := runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT
	for event := range received {
		if event.ContainerId == probe && event.ContainerEventType == want {
			return
		}
	}
	t.Errorf("the stream ended without %s", want)
}
