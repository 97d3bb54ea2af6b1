// SPDX-License-Identifier: Apache-2.0

package metrics

// IPAMSynced is 1 once the first list of a backend's pools has been seen. While it is 0 nothing is released and no pod
// is released.
var IPAMSynced = gauges("ipam_synced",
	"1 once the first list of the backend's pools has been seen; 0 before, and while its CRD is not installed.", "backend")
