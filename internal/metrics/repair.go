// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// Repairs counts what became of contradictions in an IPAM's records, by kind (internal/ipamaudit) and result
// (v1alpha1.RepairResult). A result is counted when it is a new one.
var Repairs = register(prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: Prefix + "ipam_repairs_total",
	Help: "What became of contradictions between what an IPAM has recorded and what live pods show, by kind and result: Reported, Repaired, " +
		"Held or Failed. Each is counted when its result changes.",
}, []string{"kind", "result"}))
