// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The conditions of a NodeResourcePolicy.
const (
	// PolicyAccepted: the policy can work. If not, the reason and message explain what is wrong with it.
	PolicyAccepted = "Accepted"
	// PolicyEnforced: the API server has the policy's webhook, with an authority that it can trust.
	PolicyEnforced = "Enforced"
	// PolicySwept: the last sweep could read every object of the resource.
	PolicySwept = "Swept"
)

// NodeResourcePolicyStatus is what was found. Conditions Accepted and Enforced are one writer's, Swept and sweep another's;
// both apply on the server, each its own fields.
type NodeResourcePolicyStatus struct {
	// Conditions are Accepted, Enforced and Swept.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Sweep is what the last sweep found.
	// +optional
	Sweep *SweepStatus `json:"sweep,omitempty"`
}

// SweepStatus is what one sweep over every object of the resource found.
type SweepStatus struct {
	// Time is when the sweep ended.
	Time metav1.Time `json:"time"`
	// Objects is how many objects speak for a node.
	Objects int64 `json:"objects"`
	// Stale is how many of them carry the UID of a deleted Node.
	Stale int64 `json:"stale"`
	// Unowned is how many carry no UID of a Node though the policy requires one, or one that contradicts itself.
	Unowned int64 `json:"unowned"`
	// Unknown is how many could not be judged.
	Unknown int64 `json:"unknown"`
	// Conflicts is how many pairs of objects of two live Nodes hold one address.
	Conflicts int64 `json:"conflicts"`
	// StaleObjects are the first twenty that are stale or unowned.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	StaleObjects []StaleObject `json:"staleObjects,omitempty"`
	// AddressConflicts are the first twenty conflicts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	AddressConflicts []AddressConflict `json:"addressConflicts,omitempty"`
}

// StaleObject is an object that does not speak for the live Node of its node's name.
type StaleObject struct {
	// Namespace of the object; empty for a cluster-scoped one.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name"`
	// UID of the object.
	UID types.UID `json:"uid"`
	// NodeName is the node for which it speaks.
	NodeName string `json:"nodeName"`
	// FoundUID is the UID of a Node that it carries; empty if none.
	// +optional
	FoundUID types.UID `json:"foundUID,omitempty"`
	// LiveUID is the UID of the live Node; empty if there is none.
	// +optional
	LiveUID types.UID `json:"liveUID,omitempty"`
	// Reason is StaleNodeUID, NodeUIDMissing, NodeNameMismatch or NodeMissing.
	Reason Reason `json:"reason"`
	// Deleting is true if the object is being deleted and only its finalizers keep it.
	// +optional
	Deleting bool `json:"deleting,omitempty"`
	// Finalizers are what keeps it.
	// +optional
	// +listType=atomic
	Finalizers []string `json:"finalizers,omitempty"`
}

// AddressConflict is one address, or two prefixes that overlap, under two objects of different live Nodes.
type AddressConflict struct {
	// Addresses are the address or prefix of each of the two objects.
	// +listType=atomic
	Addresses []string `json:"addresses"`
	// Objects are "namespace/name", or the name of a cluster-scoped object.
	// +listType=atomic
	Objects []string `json:"objects"`
	// NodeNames are their nodes.
	// +listType=atomic
	NodeNames []string `json:"nodeNames"`
}
