// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/runtime"
)

// The version of the CRI that is served.
const (
	kubeVersion = "0.1.0" // kuberuntime's kubeRuntimeAPIVersion
	apiVersion  = "v1"
)

// service answers from the runtime's table.
type service struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	Options
}

// Version tells the name of the runtime. It must not be containerd's: of that, an agent also wants the word on network namespaces
// in the verbose status, and a folder for each task beside the socket (docs/decisions/0074), neither of which is here. With any
// other name only a sandbox's absence counts as its end, as with CRI-O.
func (s *service) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: kubeVersion, RuntimeName: api.RuntimeName, RuntimeVersion: api.RuntimeVersion, RuntimeApiVersion: apiVersion,
	}, nil
}

// Status: the runtime is ready whenever it answers, its network when the machine's CNI is.
func (s *service) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	network := &runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Status: true}
	if err := s.NetworkReady(); err != nil {
		network.Status, network.Reason, network.Message = false, "NetworkPluginNotReady", err.Error()
	}
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, network,
	}}}, nil
}

// ListPodSandbox lists what was not removed, ready or not, also what is in the making.
func (s *service) ListPodSandbox(_ context.Context, request *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	sandboxes, _ := s.Runtime.Table()
	answer := &runtimeapi.ListPodSandboxResponse{}
	for _, sandbox := range sandboxes {
		if item := listed(sandbox); matchesSandbox(request.GetFilter(), item) {
			answer.Items = append(answer.Items, item)
		}
	}
	return answer, nil
}

// PodSandboxStatus tells of one sandbox. There is nothing more to say in a verbose one.
func (s *service) PodSandboxStatus(_ context.Context, request *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	sandbox, containers, found := s.find(request.GetPodSandboxId())
	if !found {
		return nil, status.Errorf(codes.NotFound, "sandbox %q is not found", request.GetPodSandboxId())
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: sandboxStatus(sandbox), ContainersStatuses: containerStatuses(containers)}, nil
}

// ListContainers lists the containers of every sandbox that was not removed.
func (s *service) ListContainers(_ context.Context, request *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	_, containers := s.Runtime.Table()
	answer := &runtimeapi.ListContainersResponse{}
	for _, c := range containers {
		if item := listedContainer(c); matchesContainer(request.GetFilter(), item) {
			answer.Containers = append(answer.Containers, item)
		}
	}
	return answer, nil
}

// ContainerStatus tells of one container.
func (s *service) ContainerStatus(_ context.Context, request *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	_, containers := s.Runtime.Table()
	for _, c := range containers {
		if c.ID == request.GetContainerId() {
			return &runtimeapi.ContainerStatusResponse{Status: containerStatus(c)}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "container %q is not found", request.GetContainerId())
}

// StopPodSandbox ends a sandbox as the kubelet's own call does: its process, CNI DEL, its network namespace. One that the runtime
// does not have is stopped already.
func (s *service) StopPodSandbox(ctx context.Context, request *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	sandbox, _, found := s.find(request.GetPodSandboxId())
	if !found {
		return &runtimeapi.StopPodSandboxResponse{}, nil
	}
	s.Runtime.Stop(sandbox.ID)
	if err := s.Detach(ctx, sandbox); err != nil {
		return nil, status.Errorf(codes.Unknown, "failed to destroy network for sandbox %q: %v", sandbox.ID, err)
	}
	s.Runtime.CloseNetNS(sandbox.ID)
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// RemovePodSandbox stops a sandbox and forgets it.
func (s *service) RemovePodSandbox(ctx context.Context, request *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	if _, err := s.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: request.GetPodSandboxId()}); err != nil {
		return nil, err
	}
	s.Runtime.Remove(request.GetPodSandboxId())
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// GetContainerEvents tells of every change of a sandbox, or of a container of it, what there is then.
func (s *service) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	changes, stop := s.Runtime.Watch()
	defer stop()
	for {
		select {
		case id := <-changes:
			if err := stream.Send(s.event(id)); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (s *service) event(id string) *runtimeapi.ContainerEventResponse {
	sandbox, containers, found := s.find(id)
	event := &runtimeapi.ContainerEventResponse{ContainerId: id, ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT}
	switch {
	case !found:
		return event
	case sandbox.State == api.StateReady:
		event.ContainerEventType = runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT
	case sandbox.Alive:
		event.ContainerEventType = runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT
	default:
		event.ContainerEventType = runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT
	}
	event.PodSandboxStatus, event.ContainersStatuses = sandboxStatus(sandbox), containerStatuses(containers)
	return event
}

// find gives a sandbox and its containers.
func (s *service) find(id string) (found api.Sandbox, containers []runtime.Container, is bool) {
	sandboxes, all := s.Runtime.Table()
	for _, sandbox := range sandboxes {
		if sandbox.ID == id {
			found, is = sandbox, true
		}
	}
	for _, c := range all {
		if c.SandboxID == id {
			containers = append(containers, c)
		}
	}
	return found, containers, is
}
