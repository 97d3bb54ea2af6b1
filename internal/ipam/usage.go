// SPDX-License-Identifier: Apache-2.0

package ipam

// RangeUse is how full a range of a network is. The pools that the range is divided into, one for each node, are counted together.
type RangeUse struct {
	// Network is the name that the IPAM's configuration gives to the network; empty where it gives none, or where that is unknown.
	Network string
	// Range is the network's range in CIDR notation, or that of a pool which no configuration names.
	Range string
	// Addresses is how many the IPAM may hand out of the pools that are there. It is no integer type: a range of IPv6 has more than those
	// can count.
	Addresses float64
	// Entries is how many addresses are recorded as taken.
	Entries int
	// Fullest is the largest share of taken addresses that a single pool of the range has: 1 is full. It is above 1 where addresses were
	// recorded that the configuration of today leaves out.
	Fullest float64
}

// Measurable is a backend that reports how full its ranges are.
type Measurable interface {
	Backend
	// Usage reads from the cache how full each range is. The configurations are those of every network of the cluster; what none of them
	// says about a pool is taken from the pool itself.
	Usage(configs []string) []RangeUse
}
