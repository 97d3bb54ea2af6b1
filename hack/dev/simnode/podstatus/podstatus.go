// SPDX-License-Identifier: Apache-2.0

// Package podstatus builds, purely, the status that a kubelet reports for a pod,
// and the patch with which it reports it. The rules are those of Kubernetes
// 1.37: pkg/kubelet/kubelet_pods.go (generateAPIPodStatus, getPhase),
// pkg/kubelet/status/generate.go (conditions) and
// pkg/kubelet/status/status_manager.go (mergePodStatus, TerminatePod).
package podstatus

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Container is one run of a container. The zero value was never started.
type Container struct {
	// ID is that of the runtime, without its scheme.
	ID string
	// StartedAt is zero for a container that was never started.
	StartedAt time.Time
	// FinishedAt is zero for a container that runs.
	FinishedAt time.Time
	ExitCode   int32
	// Restarts counts the runs before this one; Last is the latest of them.
	Restarts int32
	Last     *Container
}

// Stage is how far the kubelet is with a pod. The order is that of a pod's life.
type Stage int

// The stages.
const (
	// Syncing: the pod is to run.
	Syncing Stage = iota + 1
	// Terminating: its containers are to end, or have ended.
	Terminating
	// Terminated: SyncTerminatedPod is through; the phase becomes terminal.
	Terminated
)

// Observed is what the kubelet knows of a pod on its machine.
type Observed struct {
	Stage Stage
	// SandboxReady reports whether a sandbox with its network exists.
	SandboxReady bool
	HostIP       string
	// PodIP is empty until a sandbox had one; it stays after the sandbox's end.
	PodIP string
	// Containers has the state of regular and init containers by name. A missing
	// one was never started.
	Containers map[string]Container
	// Unready reports whether the readiness probes of the containers fail.
	Unready bool
}

// Build returns the status to report, given what the API server has. Conditions
// of others than the kubelet are kept, and so is everything that the kubelet
// does not own.
func Build(pod *corev1.Pod, o Observed, now time.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	if status.StartTime.IsZero() {
		status.StartTime = &metav1.Time{Time: now}
	}
	status.HostIP, status.HostIPs = o.HostIP, []corev1.HostIP{{IP: o.HostIP}}
	if o.PodIP != "" {
		status.PodIP, status.PodIPs = o.PodIP, []corev1.PodIP{{IP: o.PodIP}}
	}
	status.InitContainerStatuses = containerStatuses(pod.Spec.InitContainers, o, pod.Status.InitContainerStatuses)
	status.ContainerStatuses = containerStatuses(pod.Spec.Containers, o, pod.Status.ContainerStatuses)
	status.Phase = phase(pod, o)
	status.Conditions = conditions(pod, o, status, now)
	return status
}

// phase never leaves a terminal one, and becomes terminal only when nothing of
// the pod can still run (status_manager.go, mergePodStatus).
func phase(pod *corev1.Pod, o Observed) corev1.PodPhase {
	if IsTerminal(pod.Status.Phase) {
		return pod.Status.Phase
	}
	started := slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		run := o.Containers[c.Name]
		return !run.StartedAt.IsZero() || run.Last != nil
	})
	switch {
	case o.Stage == Terminated && allSucceeded(pod, o):
		return corev1.PodSucceeded
	case o.Stage == Terminated:
		return corev1.PodFailed
	case started, pod.Status.Phase == corev1.PodRunning:
		return corev1.PodRunning
	default:
		return corev1.PodPending
	}
}

func allSucceeded(pod *corev1.Pod, o Observed) bool {
	return !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		run := o.Containers[c.Name]
		return run.FinishedAt.IsZero() || run.ExitCode != 0
	})
}

// IsTerminal reports whether a pod in this phase runs no more and never will.
func IsTerminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
