// SPDX-License-Identifier: Apache-2.0

// Package kept is what the manager's cache keeps of each object, and what can be read from that alone.
package kept

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// keptAnnotations are those that a decision reads.
var keptAnnotations = []string{nadv1.NetworkAttachmentAnnot, nadv1.NetworkStatusAnnot, podnetwork.DefaultNetworkAnnotation, v1alpha1.GuardAnnotation}

// keptConditions are the pod's conditions that a decision reads.
var keptConditions = []corev1.PodConditionType{v1alpha1.IPsReleasedCondition, corev1.PodScheduled, corev1.PodReadyToStartContainers}

// ByObject is what the manager caches of each kind: guarded pods only, selected on the server by label, and of each
// object only what decisions read. 150,000 pods must fit (docs/architecture.md, Scale).
func ByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Label:     labels.SelectorFromSet(labels.Set{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue}),
			Transform: podTransform,
		},
		&corev1.Node{}:           {Transform: nodeTransform},
		&v1alpha1.IPAllocation{}: {Transform: recordTransform},

		&admissionregistrationv1.ValidatingAdmissionPolicy{}:        {Transform: policyTransform},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}: {Transform: bindingTransform},
	}
}

// podTransform strips a pod to what the guard reads. Finalizers, deletionTimestamp, the grace period and who wrote
// status.phase are the guard's own fields: losing one would make a wait or a release wrong.
func podTransform(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	stripped := &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds, Finalizers: pod.Finalizers,
			Labels:        labelsOf(pod),
			Annotations:   podnetwork.Bounded(keep(pod.Annotations, keptAnnotations...)),
			ManagedFields: withLastWrites(release.FieldOwnership(pod.ManagedFields), pod.ManagedFields),
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Message: pod.Status.Message, Reason: pod.Status.Reason},
	}
	shared := facts.IsTerminal(pod) && release.IsShared(pod)
	stripped.Status.ContainerStatuses = keepEnds(pod.Status.ContainerStatuses, shared)
	stripped.Status.InitContainerStatuses = keepEnds(pod.Status.InitContainerStatuses, shared)
	if shared {
		stripped.Status.EphemeralContainerStatuses = keepEnds(pod.Status.EphemeralContainerStatuses, true)
	}
	for i := range pod.Status.Conditions {
		kind := pod.Status.Conditions[i].Type
		if slices.Contains(keptConditions, kind) || (shared && (kind == corev1.ContainersReady || kind == corev1.DisruptionTarget)) {
			stripped.Status.Conditions = append(stripped.Status.Conditions, pod.Status.Conditions[i])
		}
	}
	sharePod(stripped)
	return stripped, nil
}

// labelsOf keeps the label by which a pod is cached.
func labelsOf(pod *corev1.Pod) map[string]string {
	if pod.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue {
		return guardedLabels
	}
	return keep(pod.Labels, v1alpha1.GuardedLabel)
}

// recordTransform keeps all of a record but its managedFields.
func recordTransform(object any) (any, error) {
	if record, ok := object.(*v1alpha1.IPAllocation); ok {
		record.ManagedFields = nil
		shareRecord(record)
	}
	return object, nil
}

// Default strips what no other transform does: managedFields, and of a NetworkAttachmentDefinition all but its bounded
// configuration. ByObject cannot, because it needs the CRD of each kind.
func Default(object any) (any, error) {
	definition, ok := object.(*nadv1.NetworkAttachmentDefinition)
	if !ok {
		return cache.TransformStripManagedFields()(object)
	}
	stripped := &nadv1.NetworkAttachmentDefinition{
		TypeMeta: definition.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Namespace: definition.Namespace, Name: definition.Name, UID: definition.UID,
			ResourceVersion: definition.ResourceVersion},
		Spec: definition.Spec,
	}
	if len(stripped.Spec.Config) > podnetwork.MaxConfigBytes {
		stripped.Spec.Config = podnetwork.TooLarge
	}
	return stripped, nil
}

// nodeTransform strips a node to its identity, readiness and taints.
func nodeTransform(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	stripped := &corev1.Node{
		TypeMeta: node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
			CreationTimestamp: node.CreationTimestamp, DeletionTimestamp: node.DeletionTimestamp},
		Spec: corev1.NodeSpec{Taints: node.Spec.Taints},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: node.Status.NodeInfo.MachineID,
			SystemUUID: node.Status.NodeInfo.SystemUUID, BootID: node.Status.NodeInfo.BootID, KubeletVersion: node.Status.NodeInfo.KubeletVersion}},
	}
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			ready := node.Status.Conditions[i]
			// Heartbeats alone must not look like a change.
			ready.LastHeartbeatTime = metav1.Time{}
			stripped.Status.Conditions = []corev1.NodeCondition{ready}
		}
	}
	return stripped, nil
}

func keep(from map[string]string, keys ...string) map[string]string {
	kept := map[string]string{}
	for _, key := range keys {
		if value, ok := from[key]; ok {
			kept[key] = value
		}
	}
	return kept
}

// keepEnds keeps when each container ended, and with others the name of each that has not: release.PodEnding reads them.
func keepEnds(statuses []corev1.ContainerStatus, others bool) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range statuses {
		ended := statuses[i].State.Terminated
		if ended == nil && others {
			kept = append(kept, corev1.ContainerStatus{Name: statuses[i].Name})
		}
		if ended != nil {
			kept = append(kept, corev1.ContainerStatus{Name: statuses[i].Name, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{FinishedAt: ended.FinishedAt}}})
		}
	}
	return kept
}
