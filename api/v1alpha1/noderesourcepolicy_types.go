// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeResourcePolicy defines which objects of a node-scoped resource speak for a node: only those that carry the UID of the
// live Node. It needs no code for a resource: admission, sweep and "manager wait-node-resource" follow the policy.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nrp
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.resource.resource`
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.spec.action`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.sweep.objects`
// +kubebuilder:printcolumn:name="Stale",type=integer,JSONPath=`.status.sweep.stale`
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.sweep.conflicts`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')",message="the name of a policy is at most 63 characters long and has no dot: it is a label of the name of its webhook"
type NodeResourcePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NodeResourcePolicySpec   `json:"spec"`
	Status NodeResourcePolicyStatus `json:"status,omitempty"`
}

// NodeResourcePolicyList is a list of NodeResourcePolicy.
//
// +kubebuilder:object:root=true
type NodeResourcePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeResourcePolicy `json:"items"`
}

// NodeResourcePolicySpec is what the administrator wants.
//
// +kubebuilder:validation:XValidation:rule="self.failurePolicy != 'Fail' || self.action == 'Deny'",message="failurePolicy Fail goes with action Deny only: Warn and Audit never stop a write"
// +kubebuilder:validation:XValidation:rule="!(self.resource.group == 'storage.k8s.io' && self.resource.resource == 'csinodes' && self.action == 'Deny')",message="CSINodes are written by the kubelet, which gives up its volumes when refused: use Warn or Audit"
// +kubebuilder:validation:XValidation:rule="!(has(self.nodeName.fieldPath) || has(self.nodeName.expression)) || self.resource.versions.size() == 1 && self.resource.versions[0] != '*'",message="with nodeName.fieldPath or nodeName.expression give exactly one version in resource.versions, the one that has the field: in another version the field may have another name, and an object written through it would speak for no node"
type NodeResourcePolicySpec struct {
	// Resource is the guarded resource.
	Resource GuardedResource `json:"resource"`

	// NodeName is where an object names its node. Default: metadata.name.
	// +optional
	// +kubebuilder:default={}
	NodeName NodeNameSource `json:"nodeName,omitempty"`

	// NodeUID defines where an object carries the UID of its Node.
	// +optional
	// +kubebuilder:default={}
	NodeUID NodeUIDSource `json:"nodeUID,omitempty"`

	// Action defines what happens to a write of an object that does not carry the UID of the live Node: Deny refuses it, Warn
	// lets it pass with a warning, Audit lets it pass with an audit annotation. All three are counted.
	// +optional
	// +kubebuilder:default=Deny
	Action PolicyAction `json:"action,omitempty"`

	// MissingNode defines what happens to a write of an object whose node has no Node object: Allow, or Deny (treated by the
	// action). Allow is for resources that exist before their Node.
	// +optional
	// +kubebuilder:default=Allow
	MissingNode MissingNodeAction `json:"missingNode,omitempty"`

	// FailurePolicy defines what happens to a write that cannot be judged, because no manager responds or because it could not
	// read the Node: Ignore lets it pass, and the sweep finds it later; Fail stops it.
	// +optional
	// +kubebuilder:default=Ignore
	FailurePolicy PolicyFailure `json:"failurePolicy,omitempty"`

	// TimeoutSeconds is how long the API server waits for a response.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// ExemptUsers are user names whose writes are not judged.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ExemptUsers []string `json:"exemptUsers,omitempty"`

	// Stale defines what the sweep does with an object that carries the UID of a deleted Node: Report, or Delete.
	// +optional
	// +kubebuilder:default=Report
	Stale StaleAction `json:"stale,omitempty"`

	// Addresses are CEL expressions over "self", the object, each giving a list of strings: the addresses and prefixes (CIDR)
	// that the object holds for its node. One under two live Nodes is reported as a conflict. Example:
	// "self.status.networkContainers.filter(c, has(c.primaryIP)).map(c, c.primaryIP)". A field that the object itself lacks is
	// no address; with several fields, give each an expression of its own. A write that adds one to an object that is being deleted
	// is judged like any other write; without expressions every write of such an object is allowed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	Addresses []string `json:"addresses,omitempty"`
}

// GuardedResource names a resource of the API server.
//
// +kubebuilder:validation:XValidation:rule="!(self.group == 'coordination.k8s.io' && self.resource == 'leases')",message="Leases cannot be guarded: their owner is set once, and a refused renewal makes the node NotReady"
// +kubebuilder:validation:XValidation:rule="self.group != 'sriovnetwork.openshift.io' || self.resource != 'sriovnetworknodestates'",message="SriovNetworkNodeStates cannot be guarded: their operator owns them, and they outlive a Node on purpose"
// +kubebuilder:validation:XValidation:rule="self.group != 'nfd.k8s-sigs.io' || self.resource != 'nodefeatures'",message="NodeFeatures cannot be guarded: a Pod owns them"
// +kubebuilder:validation:XValidation:rule="!(self.group in ['holdfast.dev', 'admissionregistration.k8s.io', 'apiextensions.k8s.io', 'apiregistration.k8s.io', 'apps', 'authentication.k8s.io', 'authorization.k8s.io', 'cert-manager.io', 'certificates.k8s.io', 'discovery.k8s.io', 'events.k8s.io', 'flowcontrol.apiserver.k8s.io', 'internal.apiserver.k8s.io', 'networking.k8s.io', 'node.k8s.io', 'policy', 'rbac.authorization.k8s.io', 'scheduling.k8s.io'])",message="resources of this group cannot be guarded: the cluster, or Holdfast itself, could not be repaired"
type GuardedResource struct {
	// Group is the API group. The core group ("") cannot be guarded: Nodes, Pods and the rest of it keep the cluster alive.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Group string `json:"group"`
	// Resource is the plural name, in lower case, without a subresource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Resource string `json:"resource"`
	// Versions are those whose writes are judged. A write through another version of the same resource is converted to one of
	// them and judged too (matchPolicy Equivalent). Default: all ("*"), each as it is written. With nodeName.fieldPath or
	// nodeName.expression it is exactly one version, the one that has the field. The sweep reads objects, and what addresses
	// gives of them, in the first of them that is served; by "*" that is the version that the API server prefers.
	// +optional
	// +listType=set
	// +kubebuilder:default={"*"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Pattern=`^(\*|v[0-9]+((alpha|beta)[0-9]*)?)$`
	Versions []string `json:"versions,omitempty"`
	// Status defines whether writes of the subresource /status are judged too. To refuse them on a stale object is what stops
	// a hand-out of addresses. Default: true.
	// +optional
	// +kubebuilder:default=true
	Status *bool `json:"status,omitempty"`
}

// NodeNameSource defines where an object names its node. Without a field it is metadata.name. An object for which it gives the
// empty string speaks for no node, and the policy does not apply to it. A field has its name in one version of the
// resource, which resource.versions has to name.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.fieldPath) && has(self.expression))",message="give fieldPath or expression, or neither for metadata.name"
// +kubebuilder:validation:XValidation:rule="!has(self.fieldPath) || !(self.fieldPath in ['metadata', 'kind', 'apiVersion', 'spec', 'status'])",message="fieldPath leads to a string below spec, status or data, or to a field of the object itself that is none of metadata, kind, apiVersion, spec and status"
type NodeNameSource struct {
	// FieldPath is a dotted path to a string, for example "spec.nodeName": below spec, status or data, or one field at the top
	// of the object, as "host" of a HostSubnet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^(spec|status|data)(\.[a-zA-Z_][a-zA-Z0-9_]*)+$|^[a-zA-Z_][a-zA-Z0-9_]*$`
	FieldPath string `json:"fieldPath,omitempty"`
	// Expression is a CEL expression over "self", the object, that gives a string, for example
	// "has(self.spec.affinity) && self.spec.affinity.startsWith('host:') ? self.spec.affinity.substring(5) : ''". It must not
	// fail on an object that lacks a field: test it with has(). The API server evaluates it with every write of the resource:
	// a loop over a list that a writer can make long costs its time.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Expression string `json:"expression,omitempty"`
}

// NodeUIDSource defines where an object carries the UID of its Node: in owner references to v1 Nodes, or in an annotation.
type NodeUIDSource struct {
	// Presence defines whether an object without a UID is a mistake: Required, or IfPresent (what is not there is not judged).
	// +optional
	// +kubebuilder:default=Required
	Presence UIDPresence `json:"presence,omitempty"`
	// Annotation is the key of an annotation with the UID; owner references are then not looked at. Example:
	// "pod.network.openshift.io/node-uid".
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Annotation string `json:"annotation,omitempty"`
}

// UIDPresence defines whether an object has to carry the UID of its Node.
//
// +kubebuilder:validation:Enum=Required;IfPresent
type UIDPresence string

// The values of UIDPresence.
const (
	UIDRequired  UIDPresence = "Required"
	UIDIfPresent UIDPresence = "IfPresent"
)

// PolicyAction is what happens to a write that a policy objects to.
//
// +kubebuilder:validation:Enum=Deny;Warn;Audit
type PolicyAction string

// The actions of a policy.
const (
	PolicyDeny  PolicyAction = "Deny"
	PolicyWarn  PolicyAction = "Warn"
	PolicyAudit PolicyAction = "Audit"
)

// MissingNodeAction is what happens to a write of an object whose Node does not exist.
//
// +kubebuilder:validation:Enum=Allow;Deny
type MissingNodeAction string

// The values of MissingNodeAction.
const (
	MissingNodeAllow MissingNodeAction = "Allow"
	MissingNodeDeny  MissingNodeAction = "Deny"
)

// PolicyFailure is what happens to a write that cannot be judged.
//
// +kubebuilder:validation:Enum=Ignore;Fail
type PolicyFailure string

// The values of PolicyFailure.
const (
	PolicyIgnore PolicyFailure = "Ignore"
	PolicyFail   PolicyFailure = "Fail"
)

// StaleAction is what the sweep does with a stale object.
//
// +kubebuilder:validation:Enum=Report;Delete
type StaleAction string

// The values of StaleAction.
const (
	StaleReport StaleAction = "Report"
	StaleDelete StaleAction = "Delete"
)
