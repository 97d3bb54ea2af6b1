// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"cmp"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// query is the port's query in this package's terms: empty fields select nothing.
type query struct {
	ipam.Query
	// podRef takes the place of Pod; it may name no pod at all.
	podRef string
	// releasing selects the tombstones at these addresses, and those of an unknown address.
	releasing []netip.Addr
}

func queryOf(q ipam.Query) query {
	own := query{Query: q}
	own.SandboxIDs = slices.DeleteFunc(slices.Clone(q.SandboxIDs), func(id string) bool { return id == "" })
	if q.Pod != (ipam.PodRef{}) {
		own.podRef = q.Pod.String()
	}
	return own
}

func (q query) matches(pool string, a allocation) bool {
	return q.podRef != "" && a.podRef == q.podRef ||
		q.Record != "" && a.record == q.Record ||
		slices.Contains(q.SandboxIDs, a.sandboxID) ||
		q.isReleasing(a) ||
		a.address.IsValid() && (slices.Contains(q.Places, ipam.Place{Pool: pool, IP: a.address}) || slices.Contains(q.Addresses, a.address))
}

func (q query) isReleasing(a allocation) bool {
	return len(q.releasing) > 0 && a.record != "" && (!a.address.IsValid() || slices.Contains(q.releasing, a.address))
}

// pools are those of the places. If the range of one cannot be read, its entries are unknown: its problem is the
// result.
func (q query) pools() sets.Set[string] {
	pools := sets.New[string]()
	for _, place := range q.Places {
		pools.Insert(place.Pool)
	}
	return pools
}

// filterPool decodes a pool and adds to the snapshot what the query selects.
func (q query) filterPool(pool *wb.IPPool, into *ipam.Snapshot) {
	name := poolName(pool.Namespace, pool.Name)
	network, problem, err := decodePool(pool)
	if len(q.Addresses) > 0 || q.pools().Has(name) {
		notePool(into, name, pool.ResourceVersion, problem)
	}
	for offset, raw := range pool.Spec.Allocations {
		if a := decodeAllocation(name, network, err, offset, raw); q.matches(name, a) {
			add(into, a, pool.ResourceVersion)
		}
	}
}

// notePool adds a pool that a query names.
func notePool(into *ipam.Snapshot, name, version string, problem *ipam.Problem) {
	into.PoolVersions[name] = version
	if problem != nil {
		into.Problems = append(into.Problems, *problem)
	}
}

// add copies one allocation into a snapshot.
func add(into *ipam.Snapshot, a allocation, poolVersion string) {
	if a.entry != nil {
		entry := *a.entry
		entry.PoolResourceVersion, into.PoolVersions[entry.Pool] = poolVersion, poolVersion
		into.Entries = append(into.Entries, entry)
	}
	if a.problem != nil {
		into.Problems = append(into.Problems, *a.problem)
	}
}

// arrange gives a snapshot an order that does not depend on that of Go's maps.
func arrange(s *ipam.Snapshot) {
	slices.SortFunc(s.Entries, func(a, b ipam.Entry) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), a.IP.Compare(b.IP))
	})
	slices.SortFunc(s.Problems, func(a, b ipam.Problem) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Offset, b.Offset))
	})
}
