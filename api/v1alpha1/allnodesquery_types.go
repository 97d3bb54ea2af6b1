// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AllNodesQuery queries every node for sandboxes of which the node is unknown. There is one object, of the name "all". The manager writes it, and the
// agent of each node responds in the status of its GuardedNode.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=allnodesqueries
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'all'",message="the only AllNodesQuery is named all"
// +kubebuilder:printcolumn:name="Generation",type=integer,JSONPath=`.metadata.generation`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AllNodesQuery struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AllNodesQuerySpec `json:"spec"`
}

// AllNodesQueryList is a list of AllNodesQuery.
//
// +kubebuilder:object:root=true
type AllNodesQueryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AllNodesQuery `json:"items"`
}

// AllNodesQueryName is the name of the one AllNodesQuery.
const AllNodesQueryName = "all"

// AllNodesQuerySpec is what every node is queried about.
type AllNodesQuerySpec struct {
	// Queries are those that stand, each about another sandbox.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Queries []OrphanQuery `json:"queries,omitempty"`
}

// OrphanQuery asks whether a node has, or had, a sandbox that no pod UID can be shown to own.
type OrphanQuery struct {
	// SandboxID is the sandbox. Its addresses are in the record of the name orphan-SANDBOXID.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SandboxID string `json:"sandboxID"`
	// DisownedBy is that of the record, if it has one. A node that never saw the sandbox also claims it while another sandbox of that pod UID is not gone:
	// no record may have had that one, and it may use the address.
	// +optional
	DisownedBy types.UID `json:"disownedBy,omitempty"`
	// Epoch is the generation of the object that the write of the query gave. A query that is withdrawn and made again gets another one.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`
	// Time is when the query was made, by the manager's clock.
	Time metav1.Time `json:"time"`
	// CreationDone: the query is older than twice sandboxCreationMax, so that the sandbox is not being created any more. A node has nothing to
	// wait for if its runtime does not list it.
	// +optional
	CreationDone bool `json:"creationDone,omitempty"`
}

// AllNodesResponse is what the agent of a node responds to the AllNodesQuery. What a node has to claim and what it acknowledges come in one write.
type AllNodesResponse struct {
	// UID is that of the AllNodesQuery.
	UID types.UID `json:"uid"`
	// Generation: each query with an epoch up to it was compared with the container runtime in this boot, and the node claims its sandbox, or has none.
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation"`
	// BootID is the boot of the machine on which the agent responds. For another boot the generation counts for nothing.
	BootID string `json:"bootID"`
	// Time is when the list of the runtime behind the response began, by the node's clock.
	Time metav1.Time `json:"time"`
	// Claims are the sandboxes that the node has or had, as long as a query about them stands, and those for which it has another sandbox of the pod that
	// disowned them, as long as it has that one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Claims []SandboxClaim `json:"claims,omitempty"`
}

// SandboxClaim is the claim of a node that it has, or had, a sandbox.
type SandboxClaim struct {
	// SandboxID is the sandbox.
	// +kubebuilder:validation:MaxLength=253
	SandboxID string `json:"sandboxID"`
	// PodUID is the pod UID with which the agent saw the sandbox listed; empty if it never saw it.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// BootID is the boot of the machine in which the agent claimed it.
	BootID string `json:"bootID"`
	// Reason explains the claim in one PascalCase word.
	Reason string `json:"reason"`
	// Time is when the list of the runtime behind the claim began, by the node's clock.
	Time metav1.Time `json:"time"`
}
