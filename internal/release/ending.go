// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Ending is how a pod terminated, as its object shows. The zero value is invalid.
type Ending uint8

// The endings.
const (
	// EndingNone: the phase is not terminal.
	EndingNone Ending = iota + 1
	// EndingFinished: the kubelet wrote the terminal phase after the deletion, which it does only once StopPodSandbox has succeeded for every
	// sandbox of the UID that the runtime knew.
	EndingFinished
	// EndingCompleted: the kubelet wrote the terminal phase before the deletion, or it is unknown whether it was after.
	EndingCompleted
	// EndingRejected: the kubelet rejected the pod and stopped nothing (kubernetes#133382).
	EndingRejected
	// EndingForeign: a client other than the kubelet wrote the terminal phase, such as PodGC. It is no evidence.
	EndingForeign
	// EndingShared: a field manager that kubelet and PodGC share wrote the terminal phase, and the status shows that it was the kubelet. It counts
	// only with agents, and only if no entry is left.
	EndingShared
)

// IsKubelet says whether a kubelet made the write that an entry of managedFields stands for.
func IsKubelet(entry *metav1.ManagedFieldsEntry) bool { return entry.Manager == kubeletManager }

// ByKubelet says whether the kubelet wrote a terminal phase.
func (e Ending) ByKubelet() bool {
	return e == EndingFinished || e == EndingCompleted || e == EndingRejected
}

const (
	kubeletManager  = "kubelet"
	rejectedMessage = "Pod was rejected:"
)

// PodEnding reads an ending from a pod object alone. A terminal phase in the second of the deletion counts as Completed, because API times have no
// finer resolution; PodEndingSeen is more precise for a watcher.
func PodEnding(pod *corev1.Pod) Ending { return PodEndingSeen(pod, false) }

// PodEndingSeen is PodEnding for a watcher: aliveWhileDeleting says that this UID was seen with a deletionTimestamp and without a terminal phase, so
// that its terminal phase is later than the deletion.
func PodEndingSeen(pod *corev1.Pod, aliveWhileDeleting bool) Ending {
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		return EndingNone
	}
	written, byKubelet := phaseWrittenByKubelet(pod.ManagedFields)
	switch {
	case !byKubelet && terminatedByShared(pod):
		return EndingShared
	case !byKubelet:
		return EndingForeign
	case strings.HasPrefix(pod.Status.Message, rejectedMessage):
		return EndingRejected
	case pod.DeletionTimestamp == nil:
		return EndingCompleted
	case aliveWhileDeleting:
		return EndingFinished
	case written.After(DeletionRequested(pod)) && ranAfter(pod, DeletionRequested(pod)):
		return EndingFinished
	default:
		return EndingCompleted
	}
}

// Ending is the ending of a pod that this kind of evidence accepts. since is as in ProvenEnding. Without agents, a termination that other accounts
// may have written is accepted, because there is no other evidence.
func (e Evidence) Ending(pod *corev1.Pod, aliveWhileDeleting bool, since time.Time) Ending {
	if e == EvidenceAgent {
		return ProvenEnding(pod, aliveWhileDeleting, since)
	}
	return PodEndingSeen(pod, aliveWhileDeleting)
}

// ProvenEnding is the ending that counts as evidence with agents: a termination that another account may have written is EndingForeign once the
// pod is being deleted. since is when admission policies began to refuse such writes; zero if they are not in force (docs/decisions/0120).
func ProvenEnding(pod *corev1.Pod, aliveWhileDeleting bool, since time.Time) Ending {
	ending := PodEndingSeen(pod, aliveWhileDeleting)
	switch {
	case pod.DeletionTimestamp == nil || (!ending.ByKubelet() && ending != EndingShared):
		return ending
	case !isGuarded(pod) || !Authentic(pod.CreationTimestamp.Time, DeletionRequested(pod), aliveWhileDeleting, since):
		return EndingForeign
	}
	return ending
}

// isGuarded says whether the policies apply to the writes of the pod. A terminated pod is not newly guarded, so it was guarded when its phase became
// terminal (docs/decisions/0129).
func isGuarded(pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.GuardedLabel] != "" || slices.Contains(pod.Finalizers, v1alpha1.Finalizer)
}

// Authentic says whether only the kubelet can have written a pod's terminal phase: the policies applied to every write of the pod, or to every
// write since the pod was seen being deleted and not terminated.
func Authentic(created, deleted time.Time, aliveWhileDeleting bool, since time.Time) bool {
	return !since.IsZero() && (!created.Before(since) || (aliveWhileDeleting && !deleted.Before(since)))
}

// SignOfLife is when a kubelet last wrote the status of a pod that is being deleted and has the finalizer; nil for any other pod. No finalizer can
// be added after the deletion, so the policies applied to every write since.
func SignOfLife(pod *corev1.Pod, since time.Time) *metav1.Time {
	if pod.DeletionTimestamp == nil || since.IsZero() || DeletionRequested(pod).Before(since) || !slices.Contains(pod.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	var last *metav1.Time
	for i := range pod.ManagedFields {
		entry := &pod.ManagedFields[i]
		written := mayBeKubelet(entry) && entry.Subresource == "status" && entry.Time != nil && entry.Time.After(DeletionRequested(pod))
		if written && (last == nil || last.Before(entry.Time)) {
			last = entry.Time
		}
	}
	return last
}

// DeletionRequested is when the deletion of a pod was requested. A shorter grace period changes deletionTimestamp and deletionGracePeriodSeconds
// by the same amount (apiserver, registry/rest.BeforeDelete), so their difference stays.
func DeletionRequested(pod *corev1.Pod) time.Time {
	requested := pod.DeletionTimestamp.Time
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		requested = requested.Add(-time.Duration(*grace) * time.Second)
	}
	return requested
}

// ranAfter says whether a container terminated after the moment, so that the phase was not terminal then. A write by the kubelet does not show
// that, because it also writes the status of terminal pods (kubernetes#53515).
func ranAfter(pod *corev1.Pod, moment time.Time) bool {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if ended := statuses[i].State.Terminated; ended != nil && ended.FinishedAt.After(moment) {
				return true
			}
		}
	}
	return false
}

// noSandbox is the kubelet's message for a pod without a sandbox in its runtime (pkg/kubelet/types, PodSandboxNotReadyMsg…). A runtime removes a
// sandbox only once it is stopped, including CNI DEL. With another message the condition is no evidence: a sandbox that is not ready may still
// have its network.
const noSandbox = "no pod sandbox exists"

// PodTornDown is when the kubelet last wrote that a pod that is being deleted has no sandbox (condition PodReadyToStartContainers, KEP-3085); zero
// if the condition does not say so now, or a container runs. It is the only report of a kubelet whose pod has a terminal phase of another client.
func PodTornDown(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp == nil || anyRuns(pod) || !HasNoSandbox(pod) {
		return time.Time{}
	}
	var written time.Time
	for i := range pod.ManagedFields {
		entry := &pod.ManagedFields[i]
		if !owned(entry).sandbox {
			continue
		}
		if !IsKubelet(entry) || entry.Subresource != "status" || entry.Time == nil {
			return time.Time{}
		}
		written = entry.Time.Time
	}
	if !written.After(DeletionRequested(pod)) {
		return time.Time{}
	}
	return written
}

// HasNoSandbox says whether the kubelet reports that the runtime lists no sandbox of the pod. Another account may have written it.
func HasNoSandbox(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse && c.Message == noSandbox
	})
}

func anyRuns(pod *corev1.Pod) bool {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		if slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil }) {
			return true
		}
	}
	return false
}

// EndWritten is when the kubelet last wrote the status of a pod whose terminal phase is the kubelet's; zero for any other pod. The phase may be
// older.
func EndWritten(pod *corev1.Pod) time.Time {
	if !PodEnding(pod).ByKubelet() {
		return time.Time{}
	}
	written, _ := phaseWrittenByKubelet(pod.ManagedFields)
	return written
}

// phaseWrittenByKubelet says whether the kubelet's field manager alone owns status.phase, and when it last wrote.
func phaseWrittenByKubelet(fields []metav1.ManagedFieldsEntry) (time.Time, bool) {
	var written time.Time
	found := false
	for i := range fields {
		if !owned(&fields[i]).phase {
			continue
		}
		if fields[i].Manager != kubeletManager || fields[i].Subresource != "status" || fields[i].Time == nil {
			return time.Time{}, false
		}
		written, found = fields[i].Time.Time, true
	}
	return written, found
}
