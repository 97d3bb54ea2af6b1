// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Mark asks an agent whether a sandbox is gone, or whether any sandbox of the record's pod UID is left (AnySandbox).
//
// +kubebuilder:validation:XValidation:rule="size(self.nodeUID) > 0",message="a mark names the Node that is asked"
type Mark struct {
	// SandboxID is the sandbox in question, or AnySandbox.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SandboxID string `json:"sandboxID"`
	// NodeUID is the Node that is asked.
	NodeUID types.UID `json:"nodeUID"`
	// BootID is the boot in which that Node is asked, as a live read of it said when the mark was set. An agent in another boot
	// does not respond: what it would say may be about another machine. Empty where the Node reports none.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// Epoch grows with every new question about the same sandbox. An answer counts for its own epoch only.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`
	// Time is when the mark was set, by the controller's clock.
	Time metav1.Time `json:"time"`
	// Fence says that the Node was tainted out-of-service when it was asked, Ready or not: a DoNotRelease to this epoch wins over the
	// taint.
	// +optional
	Fence bool `json:"fence,omitempty"`
	// Living says that the pod used its addresses when it was asked. Such an answer is for rewriting entries alone: between it and the
	// pod's end the address may have gone to another sandbox of the pod.
	// +optional
	Living bool `json:"living,omitempty"`
}

// AnySandbox in a mark asks whether the Node has, or was lately starting, any sandbox of the pod UID that names the record.
const AnySandbox = "*"

// Answer is an agent's word on one sandbox.
type Answer struct {
	// SandboxID is the sandbox that was asked about.
	// +kubebuilder:validation:MaxLength=253
	SandboxID string `json:"sandboxID"`
	// NodeUID is the Node for which the agent speaks.
	NodeUID types.UID `json:"nodeUID"`
	// Epoch is the mark's epoch that is answered.
	Epoch int64 `json:"epoch"`
	// Verdict is the answer. ReadyForRelease is final, DoNotRelease is not.
	Verdict Verdict `json:"verdict"`
	// Reason explains the verdict in one PascalCase word.
	Reason string `json:"reason"`
	// Time is when the agent read the runtime.
	Time metav1.Time `json:"time"`
	// PodUID is the pod UID with which the agent has seen the sandbox listed; empty if it never saw it.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// BootID is the boot of the machine on which the agent answers. The answer counts only where it is the mark's.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// SuccessorID is another sandbox of the same pod UID, not gone, that the runtime lists in place of the one asked about. An IPAM
	// may have given it the same address under the old sandbox's entry (whereabouts does), so that the entry is to be rewritten
	// and never released.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SuccessorID string `json:"successorID,omitempty"`
}

// Verdict is an agent's answer to a mark.
//
// +kubebuilder:validation:Enum=ReadyForRelease;DoNotRelease
type Verdict string

// The verdicts of an agent.
const (
	VerdictReadyForRelease Verdict = "ReadyForRelease"
	VerdictDoNotRelease    Verdict = "DoNotRelease"
)
