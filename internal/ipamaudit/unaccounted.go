// SPDX-License-Identifier: Apache-2.0

package ipamaudit

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Accounts are what leads Holdfast to an entry.
type Accounts struct {
	// Recorded are the sandbox IDs that a record has, a pod's or an orphan's.
	Recorded sets.Set[string]
	// Pods are the references of guarded pods that exist: the end of each leads to the entries of its name.
	Pods sets.Set[string]
	// Scheduled are the sandbox IDs at which the controller looks again by itself.
	Scheduled sets.Set[string]
}

// unaccounted finds the entries to which nothing leads (invariant I10): no record, no pod and no scheduled look. The record of a tombstone has its sandbox.
func (b *index) unaccounted() []Finding {
	a := b.Accounts
	if a == nil {
		return nil
	}
	var findings []Finding
	for i := range b.Entries {
		e := &b.Entries[i]
		if !a.Recorded.Has(e.SandboxID) && !a.Pods.Has(e.PodRef) && !a.Scheduled.Has(e.SandboxID) {
			findings = append(findings, Finding{Kind: v1alpha1.ReasonEntryUnaccounted, PodRef: e.PodRef, IP: e.IP, Interface: e.Interface, Pool: e.Pool, SandboxID: e.SandboxID})
		}
	}
	return findings
}
