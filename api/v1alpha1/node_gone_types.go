// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeGone is the persisted start of nodeGoneDelay, with what there was to see of the kubelet at that time: any later sign of
// life starts the delay again.
type NodeGone struct {
	// NodeUIDs are the Nodes under which sandboxes ran and that are gone; empty if none was recorded. A further one starts
	// the delay again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	NodeUIDs []types.UID `json:"nodeUIDs,omitempty"`
	// Since is when the delay began, by the controller's clock, rounded up to the second.
	Since metav1.Time `json:"since"`
	// ConfirmedTime is when the absence was last confirmed by live reads. Where more time than a few confirmations lies between
	// two of them, nobody knows what was there in between, and the delay starts again.
	ConfirmedTime metav1.Time `json:"confirmedTime"`
	// LeaseRenewTime is what the Lease of the node (in kube-node-lease) said then, if there was one. It is compared, not
	// reckoned with: the clocks of nodes differ.
	// +optional
	LeaseRenewTime *metav1.MicroTime `json:"leaseRenewTime,omitempty"`
	// KubeletWriteTime is when a kubelet had last written the status of a pod of the node then, by the clock of the API server.
	// +optional
	KubeletWriteTime *metav1.Time `json:"kubeletWriteTime,omitempty"`
	// SignOfLife is what started the delay again, if anything did.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	SignOfLife string `json:"signOfLife,omitempty"`
}
