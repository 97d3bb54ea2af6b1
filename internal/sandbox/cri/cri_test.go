// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

// server is a runtime with the responses of a test. Other calls are unimplemented.
type server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	name       string
	notReady   bool
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	info       map[string]string // of each sandbox
	fail       map[string]error  // of each call
	filtered   []string
	mu         sync.Mutex
	verbose    []string
	status     func(context.Context, string) // called in every PodSandboxStatus
	version    string
	events     int           // of each reader
	readers    chan struct{} // gets one for each
}

func (s *server) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: s.name, RuntimeVersion: orDefault(s.version), RuntimeApiVersion: "v1"}, s.fail["Version"]
}

func (s *server) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.NetworkReady, Status: true}, {Type: runtimeapi.RuntimeReady, Status: !s.notReady}}}}, s.fail["Status"]
}

func (s *server) ListPodSandbox(_ context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	if r.Filter != nil {
		s.filtered = append(s.filtered, "sandboxes")
	}
	return &runtimeapi.ListPodSandboxResponse{Items: s.sandboxes}, s.fail["ListPodSandbox"]
}

func (s *server) ListContainers(_ context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	if r.Filter != nil {
		s.filtered = append(s.filtered, "containers")
	}
	return &runtimeapi.ListContainersResponse{Containers: s.containers}, s.fail["ListContainers"]
}

func (s *server) PodSandboxStatus(ctx context.Context, r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	s.mu.Lock()
	s.verbose = append(s.verbose, r.PodSandboxId)
	s.mu.Unlock()
	if s.status != nil {
		s.status(ctx, r.PodSandboxId)
	}
	answer := &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{Id: r.PodSandboxId, CreatedAt: 1, Metadata: &runtimeapi.PodSandboxMetadata{Name: "n", Namespace: "n", Uid: "u"}}}
	if r.Verbose {
		answer.Info = map[string]string{infoKey: s.info[r.PodSandboxId]}
	}
	return answer, s.fail["PodSandboxStatus"]
}

func orDefault(version string) string {
	if version == "" {
		return "1.6.20"
	}
	return version
}

func (s *server) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream runtimeapi.RuntimeService_GetContainerEventsServer) error {
	s.readers <- struct{}{}
	for range s.events {
		if err := stream.Send(&runtimeapi.ContainerEventResponse{ContainerId: "a"}); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// serve serves the runtime at a socket until the test ends or stop is called.
func serve(t testing.TB, s *server, path string) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(g, s)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	stop = func() { g.Stop() }
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return stop
}

func newRuntime(t testing.TB, endpoint string) *Runtime {
	t.Helper()
	r := New(Options{Endpoint: endpoint, Timeout: 5 * time.Second})
	t.Cleanup(func() { r.Close(context.Background()) })
	return r
}

func socket(t testing.TB) string { return filepath.Join(t.TempDir(), "cri.sock") }

func listedSandbox(id string, state runtimeapi.PodSandboxState) *runtimeapi.PodSandbox {
	return &runtimeapi.PodSandbox{Id: id, State: state, Metadata: &runtimeapi.PodSandboxMetadata{Uid: "uid-" + id, Namespace: "default", Name: id}}
}

func sandboxOf(id, pod string, state runtimeapi.PodSandboxState) *runtimeapi.PodSandbox {
	s := listedSandbox(pod, state)
	s.Id = id
	return s
}

const (
	isReady  = runtimeapi.PodSandboxState_SANDBOX_READY
	notReady = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	closed   = `{"pid":0,"netNamespaceClosed":true}`
	open     = `{"pid":12,"netNamespaceClosed":false}`
)

func pod(id string) handshake.Pod {
	return handshake.Pod{UID: types.UID("uid-" + id), Namespace: "default", Name: id}
}

func TestList(t *testing.T) {
	cases := map[string]struct {
		server  *server
		queried []string
		pods    []types.UID
		strays  map[string]handshake.Stray
		want    []handshake.Sandbox
		reports bool
		// verbose are the sandboxes whose verbose status was read.
		verbose []string
	}{
		"nothing": {server: &server{name: "containerd"}, reports: true},
		"ready and not ready, both, in one list without a filter": {
			server: &server{name: "cri-o", sandboxes: []*runtimeapi.PodSandbox{listedSandbox("a", isReady), listedSandbox("b", notReady)}},
			want:   []handshake.Sandbox{{ID: "a", Pod: pod("a"), State: handshake.StateReady}, {ID: "b", Pod: pod("b"), State: handshake.StateNotReady}}},
		"an unknown state": {
			server: &server{name: "cri-o", sandboxes: []*runtimeapi.PodSandbox{listedSandbox("a", 7)}}, want: []handshake.Sandbox{{ID: "a", Pod: pod("a")}}},
		"a sandbox without metadata": {
			server: &server{name: "cri-o", sandboxes: []*runtimeapi.PodSandbox{{Id: "a"}}}, want: []handshake.Sandbox{{ID: "a", State: handshake.StateReady}}},
		"containers count while they have not exited, in every other state": {
			server: &server{name: "cri-o", sandboxes: []*runtimeapi.PodSandbox{listedSandbox("a", notReady)}, containers: []*runtimeapi.Container{
				{Id: "1", PodSandboxId: "a", State: runtimeapi.ContainerState_CONTAINER_RUNNING}, {Id: "2", PodSandboxId: "a", State: runtimeapi.ContainerState_CONTAINER_EXITED},
				{Id: "3", PodSandboxId: "a", State: runtimeapi.ContainerState_CONTAINER_CREATED}, {Id: "4", PodSandboxId: "a", State: runtimeapi.ContainerState_CONTAINER_UNKNOWN},
				{Id: "5", PodSandboxId: "z", State: runtimeapi.ContainerState_CONTAINER_RUNNING}}},
			want: []handshake.Sandbox{{ID: "a", Pod: pod("a"), State: handshake.StateNotReady, NotExited: 3}}, strays: map[string]handshake.Stray{"z": {NotExited: 1}}},
		"a sandbox that is not listed has the pod of its containers": {
			server: &server{name: "cri-o", containers: []*runtimeapi.Container{
				{Id: "1", PodSandboxId: "z", State: runtimeapi.ContainerState_CONTAINER_UNKNOWN}, {Id: "2", PodSandboxId: "z", Labels: map[string]string{"io.kubernetes.pod.uid": "uid-z"}},
				{Id: "3", PodSandboxId: "y", State: runtimeapi.ContainerState_CONTAINER_EXITED, Labels: map[string]string{"io.kubernetes.pod.uid": "uid-y"}}}},
			strays: map[string]handshake.Stray{"z": {NotExited: 2, Pod: "uid-z"}}},
		"containerd reports network namespaces, read for queried sandboxes that are not ready": {
			server: &server{name: "containerd", info: map[string]string{"a": closed, "b": open, "c": closed, "d": closed},
				sandboxes: []*runtimeapi.PodSandbox{listedSandbox("a", notReady), listedSandbox("b", notReady), listedSandbox("c", notReady), listedSandbox("d", isReady)}},
			queried: []string{"a", "b", "d", "absent"}, reports: true, verbose: []string{"a", "b"},
			want: []handshake.Sandbox{{ID: "a", Pod: pod("a"), State: handshake.StateNotReady, Network: handshake.NamespaceClosed},
				{ID: "b", Pod: pod("b"), State: handshake.StateNotReady, Network: handshake.NamespaceOpen},
				{ID: "c", Pod: pod("c"), State: handshake.StateNotReady}, {ID: "d", Pod: pod("d"), State: handshake.StateReady}}},
		"the other sandboxes of a pod are queried with one of them, and all of a queried pod UID": {
			server: &server{name: "containerd", info: map[string]string{"a2": closed, "b1": closed, "c1": closed}, sandboxes: []*runtimeapi.PodSandbox{
				sandboxOf("a1", "a", isReady), sandboxOf("a2", "a", notReady), sandboxOf("b1", "b", notReady), sandboxOf("c1", "c", notReady), {Id: "d1", State: notReady}}},
			queried: []string{"a1"}, pods: []types.UID{"uid-b", ""}, reports: true, verbose: []string{"a2", "b1"},
			want: []handshake.Sandbox{{ID: "a1", Pod: pod("a"), State: handshake.StateReady}, {ID: "a2", Pod: pod("a"), State: handshake.StateNotReady, Network: handshake.NamespaceClosed},
				{ID: "b1", Pod: pod("b"), State: handshake.StateNotReady, Network: handshake.NamespaceClosed}, {ID: "c1", Pod: pod("c"), State: handshake.StateNotReady},
				{ID: "d1", State: handshake.StateNotReady}}},
		"of any other runtime it is not read": {
			server:  &server{name: "docker", info: map[string]string{"a": closed}, sandboxes: []*runtimeapi.PodSandbox{listedSandbox("a", notReady)}},
			queried: []string{"a"}, want: []handshake.Sandbox{{ID: "a", Pod: pod("a"), State: handshake.StateNotReady}}},
		"a verbose status that fails leaves one sandbox unknown": {
			server: &server{name: "containerd", fail: map[string]error{"PodSandboxStatus": errors.New("no such sandbox")},
				sandboxes: []*runtimeapi.PodSandbox{listedSandbox("a", notReady)}},
			queried: []string{"a"}, reports: true, verbose: []string{"a"}, want: []handshake.Sandbox{{ID: "a", Pod: pod("a"), State: handshake.StateNotReady}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := socket(t)
			serve(t, tc.server, path)
			before := time.Now()
			got, err := newRuntime(t, path).List(t.Context(), sandbox.Queried{IDs: sets.New(tc.queried...), Pods: sets.New(tc.pods...)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, slices.Concat(got.Sandboxes)); diff != "" || got.ReportsNamespaces != tc.reports {
				t.Errorf("reports: %t (-want +got)\n%s", got.ReportsNamespaces, diff)
			}
			if !maps.Equal(got.Strays, tc.strays) {
				t.Errorf("strays: %v", got.Strays)
			}
			if len(tc.server.filtered) > 0 || !slices.Equal(slices.Sorted(slices.Values(tc.server.verbose)), tc.verbose) {
				t.Errorf("filtered: %v, verbose: %v", tc.server.filtered, tc.server.verbose)
			}
			if got.Began.Before(before) || got.Ended.Before(got.Began) || got.Runtime != tc.server.name+" 1.6.20" {
				t.Errorf("began %s, ended %s, by %s", got.Began, got.Ended, got.Runtime)
			}
		})
	}
}

func TestThereIsACompleteListOrNone(t *testing.T) {
	uninitialized := status.Error(codes.Unknown, "server is not initialized yet")
	away := status.Error(codes.Unavailable, "shutting down")
	cases := map[string]struct {
		server *server
		want   v1alpha1.Reason
	}{
		"the runtime is not ready":                  {&server{notReady: true}, v1alpha1.ReasonListFailed},
		"containerd that has not recovered yet":     {&server{fail: map[string]error{"Status": uninitialized}}, v1alpha1.ReasonListFailed},
		"the sandboxes cannot be listed":            {&server{fail: map[string]error{"ListPodSandbox": uninitialized}}, v1alpha1.ReasonListFailed},
		"the containers cannot be listed":           {&server{fail: map[string]error{"ListContainers": uninitialized}}, v1alpha1.ReasonListFailed},
		"it stops before the status":                {&server{fail: map[string]error{"Status": away}}, v1alpha1.ReasonRuntimeUnreachable},
		"it stops before the sandboxes":             {&server{fail: map[string]error{"ListPodSandbox": away}}, v1alpha1.ReasonRuntimeUnreachable},
		"it stops between sandboxes and containers": {&server{fail: map[string]error{"ListContainers": away}}, v1alpha1.ReasonRuntimeUnreachable},
		"it does not respond in time":               {&server{fail: map[string]error{"ListPodSandbox": status.Error(codes.DeadlineExceeded, "slow")}}, v1alpha1.ReasonRuntimeUnreachable},
		"it does not report its version":            {&server{fail: map[string]error{"Version": uninitialized}}, v1alpha1.ReasonRuntimeUnreachable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := socket(t)
			tc.server.name = "containerd"
			tc.server.sandboxes = []*runtimeapi.PodSandbox{listedSandbox("a", isReady)}
			serve(t, tc.server, path)
			got, err := newRuntime(t, path).List(t.Context(), sandbox.Queried{})
			if err == nil {
				t.Fatalf("got %+v", got)
			}
			if look := sandbox.LookOf(nil, err, ""); look.Failure.Reason != tc.want || look.Listing != nil || !strings.Contains(look.Failure.Message, path) {
				t.Errorf("got %+v", look.Failure)
			}
		})
	}
}

func TestNothingIsTakenFromAnEarlierList(t *testing.T) {
	path := socket(t)
	s := &server{name: "containerd", sandboxes: []*runtimeapi.PodSandbox{listedSandbox("a", notReady)}, info: map[string]string{"a": closed}}
	serve(t, s, path)
	r := newRuntime(t, path)
	about := sandbox.Queried{IDs: sets.New("a")}
	first, err := r.List(t.Context(), about)
	if err != nil || len(first.Sandboxes) != 1 || first.Sandboxes[0].Network != handshake.NamespaceClosed {
		t.Fatalf("got %+v, %v", first, err)
	}
	s.sandboxes, s.info["a"] = append(s.sandboxes, listedSandbox("b", isReady)), open
	second, err := r.List(t.Context(), about)
	if err != nil || len(second.Sandboxes) != 2 || second.Sandboxes[0].Network != handshake.NamespaceOpen || second.Began.Before(first.Ended) {
		t.Fatalf("got %+v, %v", second, err)
	}
	s.fail = map[string]error{"ListPodSandbox": errors.New("locked")}
	if got, err := r.List(t.Context(), about); err == nil {
		t.Errorf("a list that failed gives %+v", got)
	}
}

func TestARestartedRuntimeIsFoundAgain(t *testing.T) {
	path := socket(t)
	r := newRuntime(t, path)
	if _, err := r.List(t.Context(), sandbox.Queried{}); sandbox.LookOf(nil, err, "").Failure.Reason != v1alpha1.ReasonRuntimeUnreachable {
		t.Fatalf("without a runtime: %v", err)
	}
	stop := serve(t, &server{name: "containerd"}, path)
	if _, err := r.List(t.Context(), sandbox.Queried{}); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := r.List(t.Context(), sandbox.Queried{}); sandbox.LookOf(nil, err, "").Failure.Reason != v1alpha1.ReasonRuntimeUnreachable {
		t.Fatalf("once it stopped: %v", err)
	}
	serve(t, &server{name: "cri-o", sandboxes: []*runtimeapi.PodSandbox{listedSandbox("a", isReady)}}, path)
	got, err := r.List(t.Context(), sandbox.Queried{})
	if err != nil || len(got.Sandboxes) != 1 || got.ReportsNamespaces {
		t.Errorf("the new one: %+v, %v", got, err)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	file, first, second := filepath.Join(dir, "file"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{first, second} {
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
	cases := map[string]struct {
		configured string
		candidates []string
		want       string
	}{
		"the first socket that exists":        {"", []string{filepath.Join(dir, "absent"), file, first, second}, "unix://" + first},
		"the configured one, existing or not": {"/run/other.sock", []string{first}, "unix:///run/other.sock"},
		"the configured one with a scheme":    {"unix:///run/other.sock", nil, "unix:///run/other.sock"},
		"none exists: the error names them":   {"", []string{file, filepath.Join(dir, "absent")}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := find(tc.configured, tc.candidates)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("got %q, %v", got, err)
			}
			for _, candidate := range tc.candidates {
				if err != nil && !strings.Contains(err.Error(), candidate) {
					t.Errorf("%s is not in %v", candidate, err)
				}
			}
		})
	}
}

func TestParseNetwork(t *testing.T) {
	cases := map[string]struct {
		text string
		want handshake.Namespace
	}{
		"closed":                {closed, handshake.NamespaceClosed},
		"open":                  {open, handshake.NamespaceOpen},
		"a response without it": {`{"pid":1}`, 0},
		"another form":          {`{"netNamespaceClosed":"true"}`, 0},
		"no JSON":               {`closed`, 0},
		"nothing":               {``, 0},
		"null is unknown":       {`{"netNamespaceClosed":null}`, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := parseNetwork(tc.text); got != tc.want {
				t.Errorf("got %d", got)
			}
		})
	}
}

func TestHints(t *testing.T) {
	cases := map[string]struct {
		name, version string
		read          bool
	}{
		"CRI-O sends every reader its own":                       {"cri-o", "1.36.0", true},
		"containerd since 2.0 does":                              {"containerd", "v2.1.4", true},
		"containerd 1.7 does not: the kubelet would miss events": {"containerd", "1.7.27", false},
		"containerd with a v":                                    {"containerd", "v1.7.27", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := socket(t)
			s := &server{name: tc.name, version: tc.version, events: 3, readers: make(chan struct{}, 10)}
			serve(t, s, path)
			r := newRuntime(t, path)
			service, _, err := r.connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := givesEachReaderItsOwn(t.Context(), service); got != tc.read {
				t.Fatalf("read: %t", got)
			}
			if !tc.read {
				return
			}
			ctx, cancel := context.WithCancel(t.Context())
			hints, ended := make(chan struct{}, 10), make(chan struct{})
			go func() { r.Hint(ctx, func() { hints <- struct{}{} }); close(ended) }()
			<-s.readers
			for range s.events {
				<-hints
			}
			cancel()
			<-ended
		})
	}
}
