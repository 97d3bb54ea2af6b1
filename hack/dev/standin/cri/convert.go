// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/runtime"
)

// The labels that a kubelet puts on every sandbox and container (pkg/kubelet/types/labels.go).
const (
	podNameLabel       = "io.kubernetes.pod.name"
	podNamespaceLabel  = "io.kubernetes.pod.namespace"
	podUIDLabel        = "io.kubernetes.pod.uid"
	containerNameLabel = "io.kubernetes.container.name"
)

func state(s api.Sandbox) runtimeapi.PodSandboxState {
	if s.State == api.StateReady {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

func metadata(s api.Sandbox) *runtimeapi.PodSandboxMetadata {
	return &runtimeapi.PodSandboxMetadata{Name: s.PodName, Namespace: s.PodNamespace, Uid: s.PodUID, Attempt: s.Attempt}
}

func labels(s api.Sandbox) map[string]string {
	return map[string]string{podNameLabel: s.PodName, podNamespaceLabel: s.PodNamespace, podUIDLabel: s.PodUID}
}

func listed(s api.Sandbox) *runtimeapi.PodSandbox {
	return &runtimeapi.PodSandbox{Id: s.ID, Metadata: metadata(s), State: state(s), CreatedAt: s.CreatedAt.UnixNano(), Labels: labels(s)}
}

// sandboxStatus: the address of the pod is the one on eth0, for as long as there is a network namespace.
func sandboxStatus(s api.Sandbox) *runtimeapi.PodSandboxStatus {
	status := &runtimeapi.PodSandboxStatus{
		Id: s.ID, Metadata: metadata(s), State: state(s), CreatedAt: s.CreatedAt.UnixNano(), Labels: labels(s),
		Network: &runtimeapi.PodSandboxNetworkStatus{},
	}
	if s.Alive && len(s.Addresses) > 0 {
		status.Network.Ip = s.Addresses[0].IP
	}
	return status
}

func containerState(c runtime.Container) runtimeapi.ContainerState {
	if c.Exited {
		return runtimeapi.ContainerState_CONTAINER_EXITED
	}
	return runtimeapi.ContainerState_CONTAINER_RUNNING
}

func listedContainer(c runtime.Container) *runtimeapi.Container {
	return &runtimeapi.Container{
		Id: c.ID, PodSandboxId: c.SandboxID, Metadata: &runtimeapi.ContainerMetadata{Name: c.Name},
		State: containerState(c), CreatedAt: c.StartedAt.UnixNano(), Labels: map[string]string{containerNameLabel: c.Name},
	}
}

func containerStatus(c runtime.Container) *runtimeapi.ContainerStatus {
	return &runtimeapi.ContainerStatus{
		Id: c.ID, Metadata: &runtimeapi.ContainerMetadata{Name: c.Name}, State: containerState(c),
		CreatedAt: c.StartedAt.UnixNano(), StartedAt: c.StartedAt.UnixNano(), Labels: map[string]string{containerNameLabel: c.Name},
	}
}

func containerStatuses(containers []runtime.Container) []*runtimeapi.ContainerStatus {
	var statuses []*runtimeapi.ContainerStatus
	for _, c := range containers {
		statuses = append(statuses, containerStatus(c))
	}
	return statuses
}

// matchesSandbox: no filter lets everything through. An ID may be given by its beginning, as runtimes allow.
func matchesSandbox(filter *runtimeapi.PodSandboxFilter, s *runtimeapi.PodSandbox) bool {
	return strings.HasPrefix(s.Id, filter.GetId()) && (filter.GetState() == nil || filter.GetState().State == s.State) &&
		contains(s.Labels, filter.GetLabelSelector())
}

func matchesContainer(filter *runtimeapi.ContainerFilter, c *runtimeapi.Container) bool {
	return strings.HasPrefix(c.Id, filter.GetId()) && strings.HasPrefix(c.PodSandboxId, filter.GetPodSandboxId()) &&
		(filter.GetState() == nil || filter.GetState().State == c.State) && contains(c.Labels, filter.GetLabelSelector())
}

func contains(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}
