// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// GuardedNode is one registration of a node: the machines that reported under one Node UID, and what became of them. Its name is the Node UID. It
// outlives its Node: an address is in use for as long as the machine may run, whether a Node object names the machine or not.
//
// The manager writes the spec, and the agent of the node the status. The manager deletes it when no Node has the UID, every machine has a successor or
// is gone for nodeGoneDelay, no IPAllocation names the UID, and it claims no sandbox for which a query stands.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=gn
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.machines[0].machineID`
// +kubebuilder:printcolumn:name="Gone",type=date,JSONPath=`.spec.machines[0].gone.since`
// +kubebuilder:printcolumn:name="Successor",type=string,JSONPath=`.spec.machines[0].successorUID`
// +kubebuilder:printcolumn:name="Responding",type=string,JSONPath=`.status.conditions[?(@.type=="Responding")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Liveness",type=string,JSONPath=`.spec.machines[0].gone.liveness`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Responding")].reason`,priority=1
type GuardedNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GuardedNodeSpec `json:"spec"`
	// +optional
	Status GuardedNodeStatus `json:"status,omitempty,omitzero"`
}

// GuardedNodeList is a list of GuardedNode.
//
// +kubebuilder:object:root=true
type GuardedNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GuardedNode `json:"items"`
}

// GuardedNodeSpec is what the manager has observed of the Node, and of the machines that reported under its UID.
//
// +kubebuilder:validation:XValidation:rule="size(oldSelf.nodeName) == 0 || self.nodeName == oldSelf.nodeName",message="a Node never changes its name, and its UID is the name of this object"
type GuardedNodeSpec struct {
	// NodeName is the name of the Node object; empty while it is unknown.
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`
	// Machines are the machines that reported under the Node UID, the newest first. A further one can report only after a machine was replaced
	// and its Node object was kept. If the list is full, no machine of the Node counts as gone.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Machines []GuardedMachine `json:"machines"`
	// Queries are those to the agent of the node that stand, each about another record and sandbox.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Queries []SandboxQuery `json:"queries,omitempty"`
}

// GuardedNodeStatus is what the agent of the node reports.
type GuardedNodeStatus struct {
	// Responses are the last ones to the queries that stand, each to another record and sandbox.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Responses []SandboxResponse `json:"responses,omitempty"`
	// AllNodes is its response to the AllNodesQuery; unset while there was none.
	// +optional
	AllNodes *AllNodesResponse `json:"allNodes,omitempty"`
	// Conditions are of the type Responding: whether the agent can respond to queries, and why not.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GuardedMachine is a machine, and whether a Node object reports it. Empty IDs are unknown: its Node has not named them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.successorUID) || !has(self.gone)",message="a machine that another Node reports is not gone"
type GuardedMachine struct {
	// MachineID is status.nodeInfo.machineID of the Node.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	MachineID string `json:"machineID,omitempty"`
	// SystemUUID is status.nodeInfo.systemUUID of the Node.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SystemUUID string `json:"systemUUID,omitempty"`
	// BootID is the last status.nodeInfo.bootID of the Node. A new boot is the same machine.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	BootID string `json:"bootID,omitempty"`
	// FirstSeenTime is when the manager first saw the machine under this Node UID.
	FirstSeenTime metav1.Time `json:"firstSeenTime"`
	// SuccessorUID is the UID of another Node that reports the machine now.
	// +optional
	SuccessorUID types.UID `json:"successorUID,omitempty"`
	// Gone is unset while a Node object reports the machine. It is no proof that the machine is switched off: other GuardedNodes may name it too, and it
	// may report again.
	// +optional
	Gone *MachineGone `json:"gone,omitempty"`
}

// MachineGone is since when no Node object reports a machine, with what was observed of its kubelet at that time. A later write of the kubelet starts the
// time again.
type MachineGone struct {
	// Since is when the manager found that no Node object reports the machine, or last observed its kubelet alive, by its own clock, rounded up to the second.
	Since metav1.Time `json:"since"`
	// LeaseRenewTime is what the Lease of the node (in kube-node-lease) contained then, if there was one. It is compared, not reckoned with: the clocks of
	// nodes differ.
	// +optional
	LeaseRenewTime *metav1.MicroTime `json:"leaseRenewTime,omitempty"`
	// KubeletWriteTime is when a kubelet had last written the status of a pod of the node then, by the clock of the API server.
	// +optional
	KubeletWriteTime *metav1.Time `json:"kubeletWriteTime,omitempty"`
	// Liveness is the observation of the kubelet that started the time again, if there was one.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Liveness string `json:"liveness,omitempty"`
}

// Identity is the machine under its Node UID, as records name it.
func (m *GuardedMachine) Identity(uid types.UID) NodeIdentity {
	return NodeIdentity{UID: uid, MachineID: m.MachineID, SystemUUID: m.SystemUUID, BootID: m.BootID}
}

// NodeObservationLease is the name of the Lease, in the manager's namespace, that shows for how long Nodes have been observed without a gap:
// acquireTime is when the present observation began, and renewTime when its last complete round began. It is renewed while a machine is gone.
const NodeObservationLease = "holdfast-node-observation"
