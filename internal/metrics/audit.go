// SPDX-License-Identifier: Apache-2.0

package metrics

// Inconsistencies is how many contradictions in an IPAM's records stand now, by kind (internal/ipamaudit).
var Inconsistencies = gauges("ipam_inconsistencies",
	"Contradictions between what an IPAM has recorded and what live pods show, confirmed by live reads, by kind. Only the leader reports it.", "kind")
