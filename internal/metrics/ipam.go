// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// IPAMSynced is 1 once the first list of a backend's pools has been seen. While it is 0 nothing is released and no pod
// is released.
var IPAMSynced = register(prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: Prefix + "ipam_synced",
	Help: "1 once the first list of the backend's pools has been seen; 0 before, and while its CRD is not installed.",
}, []string{"backend"}))
