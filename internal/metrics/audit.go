// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// Inconsistencies is how many contradictions in an IPAM's records stand now, by kind (internal/ipamaudit).
var Inconsistencies = register(prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: Prefix + "ipam_inconsistencies",
	Help: "Contradictions between what an IPAM has recorded and what live pods show, confirmed by live reads, by kind. Only the leader reports it.",
}, []string{"kind"}))
