// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxRepairs is how many repairs a record remembers: the newest.
const MaxRepairs = 10

// Repair is a contradiction between what an IPAM has recorded and what pods show, about an address of the record's pod, and
// what became of it.
type Repair struct {
	// Time is when it came to this result, by the controller's clock.
	Time metav1.Time `json:"time"`
	// Kind is what was found: the reason of the event, for example ReservationMissing.
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Address is the address in canonical text form, without prefix length.
	// +kubebuilder:validation:MaxLength=45
	Address string `json:"address"`
	// Result is the outcome of the repair.
	Result RepairResult `json:"result"`
	// Message describes what was found and what was done, or what it waits for.
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
}

// RepairResult is what became of a contradiction.
//
// +kubebuilder:validation:Enum=Reported;Repaired;Held;Failed
type RepairResult string

// The results.
const (
	// RepairReported: it was only reported, because nothing can be written safely, or because the manager is configured so.
	RepairReported RepairResult = "Reported"
	// RepairRepaired: it was put right.
	RepairRepaired RepairResult = "Repaired"
	// RepairHeld: it will be put right once what that rests on is proven.
	RepairHeld RepairResult = "Held"
	// RepairFailed: a write failed; it is tried again.
	RepairFailed RepairResult = "Failed"
)
