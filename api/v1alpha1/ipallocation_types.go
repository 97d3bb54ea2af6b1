// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// IPAllocation records the addresses that one pod UID holds, and what is known of the sandboxes that use them. Its
// name is the pod UID, or "orphan-<sandbox ID>" for addresses of an unknown owner.
//
// The manager alone writes it. The ordinary life of a pod writes no status.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ipa
// +kubebuilder:selectablefield:JSONPath=.spec.nodeName
// +kubebuilder:selectablefield:JSONPath=.spec.podNamespace
// +kubebuilder:selectablefield:JSONPath=.spec.podName
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.podNamespace`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.spec.podName`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="IPs",type=string,JSONPath=`.spec.ips`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Released")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.startsWith('orphan-') || size(self.spec.addresses) > 0",message="an orphan record names at least one address"
type IPAllocation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec IPAllocationSpec `json:"spec"`
	// +kubebuilder:default={state: InUse}
	Status IPAllocationStatus `json:"status,omitempty"`
}

// IPAllocationList is a list of IPAllocation.
//
// +kubebuilder:object:root=true
type IPAllocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IPAllocation `json:"items"`
}

// IPAllocationSpec is what the manager has observed.
//
// +kubebuilder:validation:XValidation:rule="self.podNamespace == oldSelf.podNamespace && self.podName == oldSelf.podName",message="a record never changes its pod: the pod's UID is the record's name"
// +kubebuilder:validation:XValidation:rule="self.addresses.all(a, self.sandboxes.exists(s, s.id == a.sandboxID))",message="every address names a sandbox that is listed in sandboxes"
type IPAllocationSpec struct {
	// PodNamespace is the namespace of the pod, or of the podref of an orphan.
	// +kubebuilder:validation:MaxLength=253
	PodNamespace string `json:"podNamespace"`
	// PodName is the name of the pod, or of the podref of an orphan.
	// +kubebuilder:validation:MaxLength=253
	PodName string `json:"podName"`
	// NodeName is the node to which the pod is bound; empty while it is unknown.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`

	// ScheduledTime is when the pod was bound to its node: the time of its condition PodScheduled or, where the pod was made with
	// its nodeName, that of its creation. A Node object that is younger is not the one that ran the pod's first sandboxes.
	// +optional
	ScheduledTime *metav1.Time `json:"scheduledTime,omitempty"`

	// Kubelet is the kubelet's report of the pod's end, once proven. It is monotone: never taken back.
	// +optional
	Kubelet *KubeletReport `json:"kubelet,omitempty"`

	// AliveNodeUID is the UID of a Node object that was there before the pod ended: one that its machine had registered anew, and after
	// which the pod was read and had not ended. A termination under that Node object was reported by its machine.
	// +optional
	AliveNodeUID types.UID `json:"aliveNodeUID,omitempty"`

	// DisownedBy is the UID of the pod whose record had the sandbox before this one; only an orphan's record has it. As long as that record has the
	// sandbox too, it does not make that pod the owner.
	// +optional
	DisownedBy types.UID `json:"disownedBy,omitempty"`

	// Sandboxes are the pod sandboxes that are known to have held one of the addresses.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:default={}
	Sandboxes []SandboxRecord `json:"sandboxes"`

	// SandboxesSeen reports whether a sandbox may have had one of the addresses and be missing here; unset while no address was recorded.
	// +optional
	SandboxesSeen SandboxesSeen `json:"sandboxesSeen,omitempty"`

	// IPs are the addresses of the entries below, each once, for people: a column of a list shows one field. Nothing reads them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	IPs []string `json:"ips,omitempty"`

	// Addresses are the IPAM entries that this pod UID holds, one for each sandbox that has, or had, the address: an IPAM gives it to the next
	// sandbox of the pod's name, which proves nothing about the earlier one.
	// +listType=map
	// +listMapKey=pool
	// +listMapKey=ip
	// +listMapKey=sandboxID
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:default={}
	Addresses []AddressRecord `json:"addresses"`
}

// MaxSandboxes and MaxAddresses are how many a record has room for.
const (
	MaxSandboxes = 64
	MaxAddresses = 128
)

// SandboxesSeen is how many of a pod's sandboxes the manager saw.
//
// +kubebuilder:validation:Enum=All;Some
type SandboxesSeen string

// What the manager can have seen.
const (
	// SandboxesSeenAll: each entry was seen to come, in a pool that was watched without a gap, in the place of none, or of a sandbox in the record.
	SandboxesSeenAll SandboxesSeen = "All"
	// SandboxesSeenSome: an entry stood before the manager saw it come, or the record had no room for one. A sandbox of the pod that is not in the record may have had its
	// address, and not be gone: with agents no CNI DEL takes the entry, so that the node's agent is queried before the address is released.
	SandboxesSeenSome SandboxesSeen = "Some"
)

// KubeletReport is the proven report of a kubelet that a pod ended.
type KubeletReport struct {
	// Ending is when the phase became terminal, relative to the pod's deletion.
	Ending KubeletEnding `json:"ending"`
	// ObservedTime is when the controller first proved it, by the controller's clock.
	ObservedTime metav1.Time `json:"observedTime"`
	// WrittenTime is when the kubelet last wrote the pod's status, as managedFields had it when the end was first proven. It is for
	// people: every later write of a kubelet moves that time, and the phase stays.
	// +optional
	WrittenTime *metav1.Time `json:"writtenTime,omitempty"`
	// Node is the Node object that stood from before the pod's end until the end was first proven, and the machine and boot that it
	// showed then: the kubelet of that machine wrote the end. It is unset while that cannot be shown, and it never changes, even if another machine registers later.
	// +optional
	Node *NodeIdentity `json:"node,omitempty"`
}

// KubeletEnding is how a kubelet terminated a pod.
//
// +kubebuilder:validation:Enum=Finished;Completed;Rejected
type KubeletEnding string

// The endings that a kubelet can report. Terminal phases that other clients wrote (such as PodGC) do not count.
const (
	// EndingFinished: terminal after deletionTimestamp was set; StopPodSandbox returned OK for every sandbox of the UID.
	EndingFinished KubeletEnding = "Finished"
	// EndingCompleted: terminal before any deletion: a completed Job, an eviction.
	EndingCompleted KubeletEnding = "Completed"
	// EndingRejected: "Pod was rejected: …", written without killing anything (kubernetes#133382).
	EndingRejected KubeletEnding = "Rejected"
)

// NodeIdentity names one boot of one machine under one Node object. Empty fields are unknown.
type NodeIdentity struct {
	// UID is the Node object's UID.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// MachineID is status.nodeInfo.machineID.
	// +optional
	MachineID string `json:"machineID,omitempty"`
	// SystemUUID is status.nodeInfo.systemUUID.
	// +optional
	SystemUUID string `json:"systemUUID,omitempty"`
	// BootID is status.nodeInfo.bootID.
	// +optional
	BootID string `json:"bootID,omitempty"`
}

// SandboxRecord is a pod sandbox and the machine that runs it.
type SandboxRecord struct {
	// ID is the sandbox's ID as the container runtime gives it. It never returns.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ID string `json:"id"`
	// Node is read live after the sandbox's first entry was seen; unset until then.
	// +optional
	Node *NodeIdentity `json:"node,omitempty"`
	// ObservedTime is when the controller first saw an entry of this sandbox.
	ObservedTime metav1.Time `json:"observedTime"`
	// Attribution is what ties this sandbox to the pod UID.
	Attribution Attribution `json:"attribution"`
	// PodUID is the pod UID with which the agent of its node saw the sandbox of an orphan; unset in the record of a pod, which has the UID for its name.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
}

// Attribution is the evidence that ties a sandbox, or an IPAM entry, to a pod UID.
//
// +kubebuilder:validation:Enum=NetworkStatus;ObservedAdd;Unconfirmed;AgentSeen;None
type Attribution string

// The kinds of evidence, strongest first.
const (
	// AttributionAgentSeen: the node's agent has seen this sandbox ID with this pod UID.
	AttributionAgentSeen Attribution = "AgentSeen"
	// AttributionNetworkStatus: the pod's network-status shows the address on that interface and network, and no earlier sandbox of the
	// UID is known to have had it.
	AttributionNetworkStatus Attribution = "NetworkStatus"
	// AttributionObservedAdd: the entry appeared after the UID was bound, with no unresolved predecessor of the name.
	AttributionObservedAdd Attribution = "ObservedAdd"
	// AttributionUnconfirmed: an earlier sandbox of the UID had the address, or may have had it. What shows the address may have been
	// written for that one, so nothing shows that this sandbox was ever made.
	AttributionUnconfirmed Attribution = "Unconfirmed"
	// AttributionNone: no evidence ties the sandbox to a pod UID: in the record of an orphan.
	AttributionNone Attribution = "None"
)

// AddressRecord is one IPAM entry: an address, and the sandbox for which the IPAM recorded it.
type AddressRecord struct {
	// Backend is the name of the IPAM backend, for example "whereabouts".
	// +kubebuilder:validation:MaxLength=63
	Backend string `json:"backend"`
	// Pool is the pool object as "namespace/name".
	// +kubebuilder:validation:MaxLength=317
	Pool string `json:"pool"`
	// IP is the address in canonical text form, without prefix length.
	// +kubebuilder:validation:MaxLength=45
	IP string `json:"ip"`
	// Interface is the interface name inside the pod; empty where the IPAM did not record one.
	// +optional
	Interface string `json:"interface,omitempty"`
	// Network is the attachment's network as the pod's network-status names it: "namespace/name" of a
	// NetworkAttachmentDefinition. It is empty until a write of the record that comes after that status: an address is recorded
	// before the status shows it, and the name alone is not worth a write.
	// +optional
	Network string `json:"network,omitempty"`
	// PodRef is the reference exactly as the IPAM recorded it.
	PodRef string `json:"podRef"`
	// SandboxID is the container (sandbox) ID that the IPAM recorded.
	// +kubebuilder:validation:MaxLength=253
	SandboxID string `json:"sandboxID"`
	// ObservedTime is when the controller first saw the entry in this form.
	ObservedTime metav1.Time `json:"observedTime"`
	// PoolResourceVersion is the pool's resourceVersion at which the entry was last seen. Only a later one can show
	// that it is gone (resourceVersions are ordered: KEP-5504).
	PoolResourceVersion string `json:"poolResourceVersion"`
}

// IPAllocationStatus is what the manager concludes.
type IPAllocationStatus struct {
	// State is the record's state in one word. The API server fills in InUse: neither the ordinary life of a pod nor the ordinary wait of an orphan writes
	// a status.
	// +optional
	// +kubebuilder:default=InUse
	State AllocationState `json:"state,omitempty"`
	// Conditions explain the state; type Released carries the reason of a wait.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Repairs are the last contradictions of the IPAM's data about these addresses, oldest first, and what became of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Repairs []Repair `json:"repairs,omitempty"`
}

// AllocationState is the state of a record.
//
// +kubebuilder:validation:Enum=InUse;Held;Releasing;Conflict;Orphaned
type AllocationState string

// The states of a record.
const (
	// StateInUse: the pod uses its addresses. The API server gives it to an orphan too, until the wait of that is explained: see RecordState.
	StateInUse AllocationState = "InUse"
	// StateHeld: the pod is terminating or ended and its addresses are held; see the Released condition.
	StateHeld AllocationState = "Held"
	// StateReleasing: a release has begun and failed, or an address could not be kept from the next pod of the name; it is tried again. A release that
	// succeeds takes the addresses out of the record.
	StateReleasing AllocationState = "Releasing"
	// StateConflict: an address stands under two pod UIDs.
	StateConflict AllocationState = "Conflict"
	// StateOrphaned: the owner is unknown.
	StateOrphaned AllocationState = "Orphaned"
)

// IsInUse reports whether the pod uses its addresses, as far as is known.
func (s AllocationState) IsInUse() bool { return s == "" || s == StateInUse }

// IsOrphan reports whether the record is of addresses without a known owner; false for nil.
func (r *IPAllocation) IsOrphan() bool { return r != nil && strings.HasPrefix(r.Name, OrphanPrefix) }

// RecordState is the state of a record. One of an orphan has none of its own while it waits as every orphan does.
func (r *IPAllocation) RecordState() AllocationState {
	if r.Status.State.IsInUse() && r.IsOrphan() {
		return StateOrphaned
	}
	return cmp.Or(r.Status.State, StateInUse)
}

// ReleasedCondition is the type of the record's condition that explains what a release waits for.
const ReleasedCondition = "Released"
