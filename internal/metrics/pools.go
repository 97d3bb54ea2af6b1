// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

const (
	// PoolRanges bounds how many ranges have series of their own.
	PoolRanges = 100
	// PoolOther is the label "range" of the series that all further ranges of a backend share.
	PoolOther = "other"
)

// PoolUse is how full a range of a network is (ipam.RangeUse).
type PoolUse struct {
	Backend, Network, Range string
	// Addresses can be handed out, Entries are taken; Fullest is the largest share that is taken in one pool.
	Addresses, Entries, Fullest float64
}

var (
	poolAddresses = gaugesAtScrape("ipam_pool_addresses",
		"Addresses that the IPAM may hand out, taken ones included, of the pools that are there, by range of a network. All slices of nodes are counted together. "+
			"What range_start, range_end and exclude leave out is not counted, unless only a file on the nodes has them. "+
			"After the first 100 ranges, range is other.", poolLabels...)
	poolEntries = gaugesAtScrape("ipam_pool_entries",
		"Entries of the IPAM's pools, that is addresses that are taken, by range of a network. All slices of nodes are counted together.", poolLabels...)
	poolFullest = gaugesAtScrape("ipam_pool_fullest_ratio",
		"Share of the addresses that are taken in the fullest pool of a range: 1 is full. Where the range is divided among nodes, it is that of the node with the fewest left.", poolLabels...)

	poolLabels = []string{"backend", "network", "range"}

	// Pools report how full the ranges are. A range is that of a network, divided among nodes or not, and there are at most PoolRanges
	// of them: the number of pools grows with the nodes (docs/decisions/0098).
	Pools = register(&AtScrape[[]PoolUse]{
		gauges: []*prometheus.GaugeVec{poolAddresses, poolEntries, poolFullest},
		fill: func(uses []PoolUse) {
			for _, use := range bounded(uses, PoolRanges) {
				labels := prometheus.Labels{"backend": use.Backend, "network": use.Network, "range": use.Range}
				poolAddresses.With(labels).Set(use.Addresses)
				poolEntries.With(labels).Set(use.Entries)
				poolFullest.With(labels).Set(use.Fullest)
			}
		},
	})
)

// bounded joins all but the first uses into one for each backend. The order decides, not what is full: so a range keeps its series.
func bounded(uses []PoolUse, most int) []PoolUse {
	if len(uses) <= most {
		return uses
	}
	kept := append([]PoolUse(nil), uses[:most]...)
	others := map[string]int{}
	for _, use := range uses[most:] {
		at, there := others[use.Backend]
		if !there {
			at = len(kept)
			others[use.Backend] = at
			kept = append(kept, PoolUse{Backend: use.Backend, Range: PoolOther})
		}
		kept[at].Addresses += use.Addresses
		kept[at].Entries += use.Entries
		kept[at].Fullest = max(kept[at].Fullest, use.Fullest)
	}
	return kept
}
