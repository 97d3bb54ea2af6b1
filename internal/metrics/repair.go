// SPDX-License-Identifier: Apache-2.0

package metrics

// Repairs counts what became of contradictions in an IPAM's records, by kind (internal/ipamaudit) and result
// (v1alpha1.RepairResult). A result is counted when it is a new one.
var Repairs = counters("ipam_repairs_total",
	"What became of contradictions between what an IPAM has recorded and what live pods show, by kind and result: Reported, Repaired, "+
		"Held or Failed. Each is counted when its result changes.", "kind", "result")
