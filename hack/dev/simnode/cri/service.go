// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// The version of the CRI that is served.
const (
	kubeVersion = "0.1.0" // kuberuntime's kubeRuntimeAPIVersion
	apiVersion  = "v1"
)

// service serves from the runtime's table.
type service struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	Options
}

// Version is the name of the runtime. It must not be containerd's: of that, an agent also needs the report on network namespaces
// in the verbose status, and a folder for each task beside the socket (docs/decisions/0074), neither of which is here. With any
// other name only a sandbox's absence counts as its end, as with CRI-O.
func (s *service) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: kubeVersion, RuntimeName: api.RuntimeName, RuntimeVersion: api.RuntimeVersion, RuntimeApiVersion: apiVersion,
	}, nil
}

// Status: the runtime is ready whenever it responds. Clients also read the state of the network; agents ignore it.
func (s *service) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
	}}}, nil
}

// ListPodSandbox lists what was not removed, ready or not, also what is being created.
func (s *service) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	sandboxes, _ := s.Runtime.Table()
	response := &runtimeapi.ListPodSandboxResponse{}
	for _, sandbox := range sandboxes {
		item := &runtimeapi.PodSandbox{
			Id: sandbox.ID, CreatedAt: sandbox.CreatedAt.UnixNano(), State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY,
			Metadata: &runtimeapi.PodSandboxMetadata{Name: sandbox.PodName, Namespace: sandbox.PodNamespace, Uid: sandbox.PodUID, Attempt: sandbox.Attempt},
		}
		if sandbox.State == api.StateReady {
			item.State = runtimeapi.PodSandboxState_SANDBOX_READY
		}
		response.Items = append(response.Items, item)
	}
	return response, nil
}

// ListContainers lists the containers of every sandbox that was not removed.
func (s *service) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	_, containers := s.Runtime.Table()
	response := &runtimeapi.ListContainersResponse{}
	for _, c := range containers {
		item := &runtimeapi.Container{
			Id: c.ID, PodSandboxId: c.SandboxID, Metadata: &runtimeapi.ContainerMetadata{Name: c.Name}, CreatedAt: c.StartedAt.UnixNano(),
			State: runtimeapi.ContainerState_CONTAINER_RUNNING,
		}
		if c.Exited {
			item.State = runtimeapi.ContainerState_CONTAINER_EXITED
		}
		response.Containers = append(response.Containers, item)
	}
	return response, nil
}
