// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SandboxQuery asks the agent of a node whether a sandbox is gone, or whether the node has any sandbox of a pod UID (AnySandbox).
type SandboxQuery struct {
	// Record is the name of the IPAllocation that has the sandbox: a pod UID, or that of an orphan.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Record string `json:"record"`
	// SandboxID is the sandbox, or AnySandbox.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SandboxID string `json:"sandboxID"`
	// DisownedBy is that of an orphan's record, as in an OrphanQuery.
	// +optional
	DisownedBy types.UID `json:"disownedBy,omitempty"`
	// Epoch is the generation of the GuardedNode that the write of the query gave. A query that is withdrawn and made again gets another one, and a
	// response counts for its own epoch only.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`
	// BootID is the boot of the machine that is queried, as a live read of the Node had it. An agent in another boot does not respond: the sandbox may
	// have been another machine's. Empty where the Node reports none: there is no response then.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	BootID string `json:"bootID,omitempty"`
	// Purpose is what a response is for.
	Purpose QueryPurpose `json:"purpose"`
	// OutOfService is true if the Node had the out-of-service taint and was not Ready when the query was made. A DoNotRelease to it wins over the taint.
	// +optional
	OutOfService bool `json:"outOfService,omitempty"`
	// Time is when the query was made, by the manager's clock.
	Time metav1.Time `json:"time"`
}

// QueryPurpose is what a response to a query is for.
//
// +kubebuilder:validation:Enum=Release;Rewrite
type QueryPurpose string

// The purposes of queries.
const (
	// PurposeRelease: the pod is deleted or terminated, and its addresses are released by the response.
	PurposeRelease QueryPurpose = "Release"
	// PurposeRewrite: the pod uses its addresses. By the response entries are given to its present sandbox, and nothing is released: between the response
	// and the termination of the pod the address may have been given to another sandbox of it.
	PurposeRewrite QueryPurpose = "Rewrite"
)

// AnySandbox in a query asks whether the node has, or may be creating, any sandbox of the pod UID that names the record.
const AnySandbox = "*"

// SandboxResponse is what the agent of a node reports on one sandbox.
type SandboxResponse struct {
	// Record and SandboxID are those of the query.
	// +kubebuilder:validation:MaxLength=253
	Record string `json:"record"`
	// +kubebuilder:validation:MaxLength=253
	SandboxID string `json:"sandboxID"`
	// Epoch is that of the query.
	Epoch int64 `json:"epoch"`
	// BootID is the boot of the machine on which the agent responds. The response counts only where it is the query's.
	BootID string `json:"bootID"`
	// Verdict is the report. ReadyForRelease is final, DoNotRelease is not.
	Verdict Verdict `json:"verdict"`
	// Reason explains the verdict in one PascalCase word.
	Reason string `json:"reason"`
	// PodUID is the pod UID with which the agent has seen the sandbox listed; empty if it never saw it.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// SuccessorID is the only other sandbox of the same pod UID that is not gone; empty if there are several. An IPAM may have given it the same address
	// under the old sandbox's entry (whereabouts does), so that the entry is to be rewritten and never released. In response to a query about every
	// sandbox of a pod it is one that is not gone.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SuccessorID string `json:"successorID,omitempty"`
	// Time is when the list of the runtime behind the response began, by the node's clock.
	Time metav1.Time `json:"time"`
}

// Verdict is what an agent reports on a sandbox.
//
// +kubebuilder:validation:Enum=ReadyForRelease;DoNotRelease
type Verdict string

// The verdicts of an agent.
const (
	VerdictReadyForRelease Verdict = "ReadyForRelease"
	VerdictDoNotRelease    Verdict = "DoNotRelease"
)

// RespondingCondition is the type of the condition of a GuardedNode with which its agent reports whether it responds to queries, and why not.
const RespondingCondition = "Responding"
