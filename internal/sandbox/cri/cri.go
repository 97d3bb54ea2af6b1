// SPDX-License-Identifier: Apache-2.0

// Package cri reads the sandboxes of a node through the Container Runtime Interface.
//
// A list is three calls that have to succeed: Status (the runtime has to report that it is ready), and ListPodSandbox and ListContainers
// without a filter. After a restart containerd refuses them until it has recovered its sandboxes ("server is not initialized yet"), and CRI-O
// does not listen before. Every list makes all calls again.
//
// A sandbox that containerd failed to load is in no list, but may run: the folder of its task shows it (tasks.go).
package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

// containerd is the name that containerd reports in Version, also in k3s and RKE2. It alone reports in the verbose status whether the network
// namespace of a sandbox is closed, and keeps a folder for each task.
const containerd = "containerd"

// podUIDLabel is the kubelet's label of a container (pkg/kubelet/types).
const podUIDLabel = "io.kubernetes.pod.uid"

// Options of a Runtime.
type Options struct {
	// Endpoint is the path of the runtime's socket, with or without "unix://". Empty: the first of Candidates that exists.
	Endpoint string
	// Candidates are paths of sockets. Default: WellKnown.
	Candidates []string
	// StateDir is containerd's state directory. Default: the folder of its socket, unless an administrator moved one of them.
	StateDir string
	// Timeout bounds every single call, and the status calls of one list together. Required.
	Timeout time.Duration
	// Clock is the real one except in tests.
	Clock clock.PassiveClock
}

// reads are all calls that the agent makes. The agent is root through the socket of the runtime; this interface keeps its code from any call
// that changes something.
type reads interface {
	Version(ctx context.Context, apiVersion string) (*runtimeapi.VersionResponse, error)
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
	PodSandboxStatus(ctx context.Context, podSandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error)
	GetContainerEvents(ctx context.Context, events chan *runtimeapi.ContainerEventResponse, connected func(runtimeapi.RuntimeService_GetContainerEventsClient)) error
	Close(ctx context.Context) error
}

// Runtime is a container runtime behind its socket. It connects at the first use, and again after a failure. It is safe for concurrent use.
type Runtime struct {
	options Options

	mu       sync.Mutex
	endpoint string
	service  reads
}

var _ sandbox.Lister = &Runtime{}

// New makes a Runtime. It does not connect yet.
func New(o Options) *Runtime {
	if o.Candidates == nil {
		o.Candidates = WellKnown
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Runtime{options: o}
}

// List implements sandbox.Lister.
func (r *Runtime) List(ctx context.Context, queried sandbox.Queried) (*handshake.Listing, error) {
	// cri-client logs every failed call; the caller logs the error once.
	ctx = klog.NewContext(ctx, logr.Discard())
	began := r.options.Clock.Now()
	service, endpoint, err := r.connect(ctx)
	if err != nil {
		return nil, &sandbox.Error{Reason: v1alpha1.ReasonRuntimeUnreachable, Err: err}
	}
	listing, err := list(ctx, service, r.stateDir(endpoint))
	if err != nil {
		err = fmt.Errorf("container runtime at %s: %w", endpoint, err)
		if unreachable(err) {
			r.disconnect(ctx, service)
			return nil, &sandbox.Error{Reason: v1alpha1.ReasonRuntimeUnreachable, Err: err}
		}
		return nil, &sandbox.Error{Reason: v1alpha1.ReasonListFailed, Err: err}
	}
	if listing.ReportsNamespaces {
		readNetworks(ctx, service, listing, queried, r.options.Timeout)
	}
	listing.Began, listing.Ended = began, r.options.Clock.Now()
	return listing, nil
}

func (r *Runtime) stateDir(endpoint string) string {
	if r.options.StateDir != "" {
		return r.options.StateDir
	}
	return filepath.Dir(strings.TrimPrefix(endpoint, scheme))
}

// Close closes the connection. List opens a new one.
func (r *Runtime) Close(ctx context.Context) {
	r.mu.Lock()
	service := r.service
	r.mu.Unlock()
	if service != nil {
		r.disconnect(klog.NewContext(ctx, logr.Discard()), service)
	}
}

func (r *Runtime) connect(ctx context.Context) (reads, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.service != nil {
		return r.service, r.endpoint, nil
	}
	endpoint, err := find(r.options.Endpoint, r.options.Candidates)
	if err != nil {
		return nil, "", err
	}
	service, err := criclient.NewRemoteRuntimeServiceBuilder().WithEndpoint(endpoint).WithConnectionTimeout(r.options.Timeout).Build(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("connecting to the container runtime at %s: %w", endpoint, err)
	}
	r.service, r.endpoint = service, endpoint
	return service, endpoint, nil
}

// disconnect drops a connection. The next socket may be of another runtime.
func (r *Runtime) disconnect(ctx context.Context, service reads) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.service == service {
		r.service, r.endpoint = nil, ""
		_ = service.Close(ctx) // no call is in flight
	}
}

// unreachable says whether no server listens, or it does not respond in time.
func unreachable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	default:
		return false
	}
}

// list makes the calls.
func list(ctx context.Context, service reads, stateDir string) (*handshake.Listing, error) {
	version, err := service.Version(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("reading its version: %w", err)
	}
	if err := requireReady(ctx, service); err != nil {
		return nil, err
	}
	sandboxes, err := service.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("listing all pod sandboxes: %w", err)
	}
	containers, err := service.ListContainers(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("listing all containers: %w", err)
	}
	listing := &handshake.Listing{
		Runtime:           version.RuntimeName + " " + version.RuntimeVersion,
		ReportsNamespaces: version.RuntimeName == containerd,
		Sandboxes:         make([]handshake.Sandbox, 0, len(sandboxes)),
	}
	running := map[string]handshake.Stray{}
	known := sets.New[string]()
	for _, c := range containers {
		known.Insert(c.Id)
		if c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			of := running[c.PodSandboxId]
			running[c.PodSandboxId] = handshake.Stray{NotExited: of.NotExited + 1, Pod: cmp.Or(of.Pod, types.UID(c.Labels[podUIDLabel]))}
		}
	}
	for _, s := range sandboxes {
		known.Insert(s.Id)
		listing.Sandboxes = append(listing.Sandboxes, fromCRI(s, running[s.Id].NotExited))
		delete(running, s.Id)
	}
	listing.Strays = running
	if listing.ReportsNamespaces {
		// The folders are read after the lists: a sandbox in neither does not run.
		listing.Tasks = readTasks(stateDir, known)
	}
	return listing, nil
}

// requireReady fails if the runtime is not ready: its list may be incomplete.
func requireReady(ctx context.Context, service reads) error {
	response, err := service.Status(ctx, false)
	if err != nil {
		return fmt.Errorf("reading its status: %w", err)
	}
	for _, c := range response.GetStatus().GetConditions() {
		if c.Type == runtimeapi.RuntimeReady && c.Status {
			return nil
		}
	}
	return fmt.Errorf("its list does not count: %w", errNotReady)
}

var errNotReady = errors.New("it does not report the condition " + runtimeapi.RuntimeReady)

func fromCRI(s *runtimeapi.PodSandbox, notExited int) handshake.Sandbox {
	found := handshake.Sandbox{ID: s.Id, NotExited: notExited}
	if m := s.Metadata; m != nil {
		found.Pod = handshake.Pod{UID: types.UID(m.Uid), Namespace: m.Namespace, Name: m.Name}
	}
	switch s.State {
	case runtimeapi.PodSandboxState_SANDBOX_READY:
		found.State = handshake.StateReady
	case runtimeapi.PodSandboxState_SANDBOX_NOTREADY:
		found.State = handshake.StateNotReady
	}
	return found
}
