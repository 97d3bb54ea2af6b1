// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	reasonContainersNotReady       = "ContainersNotReady"
	reasonContainersNotInitialized = "ContainersNotInitialized"
	reasonPodCompleted             = "PodCompleted"
	reasonPodFailed                = "PodFailed"
	reasonSandboxNotReady          = "SandboxNotReady"
)

// kubeletOwned are the conditions that a kubelet writes; it keeps all others.
var kubeletOwned = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
}

// conditions are the foreign ones in their order, then the kubelet's.
func conditions(pod *corev1.Pod, o Observed, status corev1.PodStatus, now time.Time) []corev1.PodCondition {
	result := slices.DeleteFunc(slices.Clone(pod.Status.Conditions), func(c corev1.PodCondition) bool {
		return slices.Contains(kubeletOwned, c.Type)
	})
	for _, c := range []corev1.PodCondition{
		readyToStartContainers(o),
		initializedCondition(pod, o, status),
		ready(status),
		containersReady(status),
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	} {
		c.ObservedGeneration = pod.Generation
		c.LastTransitionTime = metav1.NewTime(now)
		if old := findCondition(pod.Status.Conditions, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		result = append(result, c)
	}
	return result
}

func findCondition(list []corev1.PodCondition, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(list, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &list[i]
}

func readyToStartContainers(o Observed) corev1.PodCondition {
	if o.SandboxReady {
		return corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{
		Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, Reason: reasonSandboxNotReady,
	}
}

func initializedCondition(pod *corev1.Pod, o Observed, status corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	switch {
	case status.Phase == corev1.PodSucceeded:
		c.Reason = reasonPodCompleted
	case slices.ContainsFunc(status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Waiting == nil }):
	case !initialized(pod, o):
		c.Status, c.Reason = corev1.ConditionFalse, reasonContainersNotInitialized
	}
	return c
}

func containersReady(status corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	var unready []string
	for _, s := range status.ContainerStatuses {
		if !s.Ready {
			unready = append(unready, s.Name)
		}
	}
	switch {
	case status.Phase == corev1.PodSucceeded:
		c.Reason = reasonPodCompleted
	case status.Phase == corev1.PodFailed:
		c.Reason = reasonPodFailed
	case len(unready) > 0:
		c.Reason = reasonContainersNotReady
		c.Message = fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	default:
		c.Status = corev1.ConditionTrue
	}
	return c
}

func ready(status corev1.PodStatus) corev1.PodCondition {
	c := containersReady(status)
	c.Type = corev1.PodReady
	return c
}
