// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/client"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
)

// socketPath is short enough for a socket, unlike that of t.TempDir may be.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "simnode-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "s")
}

// newFleet returns machines that do not run, behind their control socket.
func newFleet(t *testing.T) (*Fleet, *client.Client) {
	t.Helper()
	o := Options{
		Config: &rest.Config{Host: "https://127.0.0.1:1"}, Nodes: []string{"node-a", "node-b"}, Socket: socketPath(t),
		Log: slog.New(slog.DiscardHandler),
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	f.client = fake.NewClientset(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-a"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	listener, err := f.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: f.handler(), ReadHeaderTimeout: requestTimeout}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	c := client.New(o.Socket)
	t.Cleanup(func() {
		c.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return f, c
}

func TestTheAgentIsStoppedForLongerThanABoot(t *testing.T) {
	f, c := newFleet(t)
	check := func(what string, stopped bool, act string) {
		t.Helper()
		if err := c.Do(t.Context(), act, "node-a"); err != nil {
			t.Fatal(err)
		}
		nodes, err := c.Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if nodes[0].AgentStopped != stopped || nodes[0].AgentPID != 0 || nodes[1].AgentStopped {
			t.Errorf("%s: %+v", what, nodes)
		}
	}
	check("stopped", true, api.EventStopAgent)
	check("stopped, the node powered off", true, api.EventPowerOff)
	check("stopped, the node booted", true, api.EventStart)
	check("started", false, api.EventStartAgent)
	var kinds []string
	for _, event := range f.history.List() {
		kinds = append(kinds, event.Event)
	}
	if diff := cmp.Diff([]string{api.EventStopAgent, api.EventPowerOff, api.EventStart, api.EventStartAgent}, kinds); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestNodeActions(t *testing.T) {
	f, c := newFleet(t)
	check := func(what string, want ...api.Node) {
		t.Helper()
		got, err := c.Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	do := func(act string) {
		t.Helper()
		if err := c.Do(t.Context(), act, "node-a"); err != nil {
			t.Error(err)
		}
	}
	other := api.Node{Name: "node-b", CRI: f.machine("node-b").socket} // whose Node object does not exist
	socket := f.machine("node-a").socket
	check("at first", api.Node{Name: "node-a", CRI: socket, Ready: true}, other)
	do(api.EventFreeze)
	do(api.EventCutCNI)
	check("frozen, its CNI cut", api.Node{Name: "node-a", CRI: socket, Ready: true, Frozen: true, APICut: true}, other)
	do(api.EventThaw)
	do(api.EventMendCNI)
	check("thawed and mended", api.Node{Name: "node-a", CRI: socket, Ready: true}, other)
	do(api.EventCutOff)
	check("cut off", api.Node{Name: "node-a", CRI: socket, Ready: true, CutOff: true}, other)
	do(api.EventReconnect)
	check("reconnected", api.Node{Name: "node-a", CRI: socket, Ready: true}, other)
	do(api.EventPowerOff)
	do(api.EventPowerOff)
	check("powered off", api.Node{Name: "node-a", CRI: socket, Ready: true, PoweredOff: true}, other)
	do(api.EventStart)
	check("started", api.Node{Name: "node-a", CRI: socket, Ready: true}, other)
	var kinds []string
	history, err := c.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range history {
		kinds = append(kinds, event.Event)
	}
	want := []string{api.EventFreeze, api.EventCutCNI, api.EventThaw, api.EventMendCNI, api.EventCutOff, api.EventReconnect,
		api.EventPowerOff, api.EventStart}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestActionsThatTheMachineIsInTheWrongStateFor(t *testing.T) {
	_, c := newFleet(t)
	refused := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", what, err, want)
		}
	}
	refused("freezing an unknown node", c.Do(t.Context(), api.EventFreeze, "node-x"), `no simulated node "node-x"`)
	refused("start of a machine that is on", c.Do(t.Context(), api.EventStart, "node-a"), "409 Conflict: node node-a is on")
	if err := c.Do(t.Context(), api.EventPowerOff, "node-a"); err != nil {
		t.Fatal(err)
	}
	for _, act := range []string{api.EventFreeze, api.EventThaw, api.EventCutCNI, api.EventMendCNI, api.EventCutOff, api.EventReconnect} {
		refused(act+" of a dead machine", c.Do(t.Context(), act, "node-a"), "powered off")
	}
}

func TestSandboxes(t *testing.T) {
	f, c := newFleet(t)
	id, _ := f.machines[1].runtime.Create(runtime.PodRef{UID: "uid-1", Namespace: "ns", Name: "web-0"})
	list, err := c.Sandboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].ID != id || list[0].Node != "node-b" || !list[0].Alive {
		t.Errorf("sandboxes: %+v", list)
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"no nodes":           {Options{Config: config, Socket: "s"}, "at least one node name"},
		"no socket":          {Options{Config: config, Nodes: []string{"a"}}, "control socket"},
		"no cluster":         {Options{Nodes: []string{"a"}, Socket: "s"}, "client configuration"},
		"one name for two":   {Options{Config: config, Nodes: []string{"a", "a"}, Socket: socketPath(t)}, "two simulated nodes are named a"},
		"an unusable folder": {Options{Config: config, Nodes: []string{"a"}, Socket: "s", StateDir: "/dev/null/x"}, "/dev/null"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(tc.options); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestASocketThatIsServedIsNotTaken(t *testing.T) {
	f, _ := newFleet(t)
	second, err := New(f.options)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another process serves it") {
		t.Errorf("error %v", err)
	}
}

func TestIsWhereabouts(t *testing.T) {
	owned := func(namespace, kind, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, OwnerReferences: []metav1.OwnerReference{
			{Kind: kind, Name: name, Controller: new(true)},
		}}}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"the DaemonSet's pod":                {owned("kube-system", "DaemonSet", "whereabouts"), true},
		"that of another namespace":          {owned("other", "DaemonSet", "whereabouts"), false},
		"the reconciler's":                   {owned("kube-system", "ReplicaSet", "whereabouts-reconciler-1"), false},
		"another DaemonSet's":                {owned("kube-system", "DaemonSet", "multus"), false},
		"one without an owner, in the place": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isWhereabouts(tc.pod); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
