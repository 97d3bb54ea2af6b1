// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"unique"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// guardedLabels are those of every cached pod.
var guardedLabels = map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue}

// share replaces texts that many objects have by one copy of each. Decoding gives every object copies of its own.
func share[S ~string](texts ...*S) {
	for _, text := range texts {
		*text = S(unique.Make(string(*text)).Value())
	}
}

func sharePod(pod *corev1.Pod) {
	share(&pod.Namespace, &pod.Spec.NodeName, &pod.Status.Message, &pod.Status.Reason)
	share(&pod.Status.Phase)
	for i := range pod.Finalizers {
		share(&pod.Finalizers[i])
	}
	for i := range pod.ManagedFields {
		entry := &pod.ManagedFields[i]
		share(&entry.Manager, &entry.APIVersion, &entry.FieldsType, &entry.Subresource)
		share(&entry.Operation)
	}
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		share(&condition.Reason, &condition.Message)
		share(&condition.Type)
		share(&condition.Status)
	}
}

// shareRecord also has the addresses of a sandbox share its ID.
func shareRecord(record *v1alpha1.IPAllocation) {
	spec := &record.Spec
	share(&spec.PodNamespace, &spec.NodeName)
	for i := range spec.Sandboxes {
		share(&spec.Sandboxes[i].Attribution)
		if node := spec.Sandboxes[i].Node; node != nil {
			share(&node.UID)
			share(&node.MachineID, &node.SystemUUID, &node.BootID)
		}
	}
	for i := range spec.Addresses {
		address := &spec.Addresses[i]
		share(&address.Backend, &address.Pool, &address.Interface, &address.Network)
		for j := range spec.Sandboxes {
			if spec.Sandboxes[j].ID == address.SandboxID {
				address.SandboxID = spec.Sandboxes[j].ID
			}
		}
	}
}
