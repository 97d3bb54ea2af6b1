// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

const (
	runtimeScheme = api.RuntimeName + "://"

	reasonCreating  = "ContainerCreating"
	reasonCompleted = "Completed"
	reasonError     = "Error"
	reasonUnknown   = "ContainerStatusUnknown"

	// ExitKilled is the exit code of a container that was killed: 128 + SIGKILL.
	ExitKilled = 137
)

// containerStatuses reports on containers of one kind, in the order of the spec.
func containerStatuses(containers []corev1.Container, o Observed, reported []corev1.ContainerStatus) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, c := range containers {
		run, known := o.Containers[c.Name]
		if old := find(reported, c.Name); !known && o.Stage != Syncing && old != nil && old.State.Waiting == nil {
			statuses = append(statuses, lost(*old))
			continue
		}
		status := containerStatus(c, run)
		status.Ready = status.Ready && !o.Unready
		statuses = append(statuses, status)
	}
	return statuses
}

func find(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &statuses[i]
}

// lost is the end of a container that was reported as started and that this
// machine knows nothing of: it counts as failed (status_manager.go, TerminatePod).
func lost(status corev1.ContainerStatus) corev1.ContainerStatus {
	if status.State.Terminated == nil {
		status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: ExitKilled, Reason: reasonUnknown,
			Message: "This machine has no container of that name in this pod.",
		}}
	}
	status.Ready, status.Started = false, new(false)
	return status
}

func containerStatus(c corev1.Container, run Container) corev1.ContainerStatus {
	running := !run.StartedAt.IsZero() && run.FinishedAt.IsZero()
	status := corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, State: state(run), Ready: running, Started: &running, RestartCount: run.Restarts,
	}
	if run.ID != "" {
		status.ContainerID, status.ImageID = runtimeScheme+run.ID, c.Image
	}
	if run.Last != nil {
		status.LastTerminationState = state(*run.Last)
	}
	return status
}

func state(run Container) corev1.ContainerState {
	started := metav1.NewTime(run.StartedAt)
	switch {
	case run.StartedAt.IsZero():
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonCreating}}
	case run.FinishedAt.IsZero():
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	}
	reason := reasonCompleted
	if run.ExitCode != 0 {
		reason = reasonError
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: run.ExitCode, Reason: reason, StartedAt: started, FinishedAt: metav1.NewTime(run.FinishedAt),
		ContainerID: runtimeScheme + run.ID,
	}}
}

// initialized reports whether every init container ended with success.
func initialized(pod *corev1.Pod, o Observed) bool {
	return !slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		run := o.Containers[c.Name]
		return run.FinishedAt.IsZero() || run.ExitCode != 0
	})
}

// Running reads back the containers that were reported as running, by name.
func Running(statuses []corev1.ContainerStatus) map[string]Container {
	running := map[string]Container{}
	for _, status := range statuses {
		if status.State.Running != nil {
			running[status.Name] = Container{
				ID:        strings.TrimPrefix(status.ContainerID, runtimeScheme),
				StartedAt: status.State.Running.StartedAt.Time, Restarts: status.RestartCount,
			}
		}
	}
	return running
}
