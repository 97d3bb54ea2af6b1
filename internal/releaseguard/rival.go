// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// rivalHolds reports whether a record has the case's address for another sandbox, which an empty pool would take it from. The live pod's own
// record counts too: an entry's ID can be changed unjudged, and then the DEL of another pod would find the entry.
func rivalHolds(w *Write, c *Case) check {
	if !c.Records.IsRead() {
		return unknown("the records of "+c.PodRef, c.Records.Why())
	}
	records := c.Records.Get()
	for i := range records {
		if sandbox := w.rivalSandbox(&records[i], c); sandbox != "" {
			return conclude(yes, v1alpha1.ReasonConflict, "IPAllocation %s (node %q) has this address for sandbox %q, which may still use it",
				records[i].Name, records[i].Spec.NodeName, sandbox)
		}
	}
	return check{verdict: no}
}

// rivalSandbox is the other sandbox for which a record has the case's address; empty where there is none. Where the address
// is unknown, it may be any of the pool's.
func (w *Write) rivalSandbox(record *v1alpha1.IPAllocation, c *Case) string {
	if c.Address.IsAbsent() {
		return ""
	}
	for i := range record.Spec.Addresses {
		a := &record.Spec.Addresses[i]
		if a.Backend == w.Backend && a.Pool == w.Pool && a.SandboxID != c.SandboxID &&
			(!c.Address.IsKnown() || a.IP == c.Address.Get().String()) {
			return a.SandboxID
		}
	}
	return ""
}
