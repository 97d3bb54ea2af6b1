// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// find reads what the query selects from every cached pool.
func (x *index) find(q query) ipam.Snapshot {
	return x.snapshot(func(s *ipam.Snapshot) {
		x.collect(q, func(*cachedPool) bool { return true }, s)
		s.Removed = x.removedOf(q)
	})
}

// findFresh reads what the query selects from the cached pools that are as the live metadata says, and names the pools
// that are not.
func (x *index) findFresh(q query, live []metav1.ObjectMeta) (s ipam.Snapshot, stale []metav1.ObjectMeta) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s.PoolVersions = map[string]string{}
	fresh := make(map[*cachedPool]bool, len(live))
	for i := range live {
		name := poolName(live[i].Namespace, live[i].Name)
		pool, known := x.pools[name]
		if !known || pool.uid != live[i].UID || pool.version != live[i].ResourceVersion {
			stale = append(stale, live[i])
			continue
		}
		fresh[pool] = true
	}
	x.collect(q, func(p *cachedPool) bool { return fresh[p] }, &s)
	for i := range s.Entries { // what this process saw and when is no part of a live read
		s.Entries[i].Seen = ipam.Seen{}
	}
	return s, stale
}

// all reads everything.
func (x *index) all() ipam.Snapshot {
	return x.snapshot(func(s *ipam.Snapshot) {
		for _, pool := range x.pools {
			if pool.problem != nil {
				s.Problems = append(s.Problems, *pool.problem)
			}
			for offset := range pool.raw {
				add(s, pool.at(offset), pool.version)
			}
		}
	})
}

// snapshot fills a snapshot of the whole cache under the lock.
func (x *index) snapshot(fill func(*ipam.Snapshot)) ipam.Snapshot {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := ipam.Snapshot{PoolVersions: map[string]string{}}
	fill(&s)
	arrange(&s)
	return s
}

// collect adds each allocation once, however many parts of the query it matches.
func (x *index) collect(q query, wanted func(*cachedPool) bool, into *ipam.Snapshot) {
	seen := map[location]bool{}
	visit := func(locations []location) {
		for _, at := range locations {
			if !seen[at] && wanted(at.pool) {
				seen[at] = true
				add(into, at.pool.at(at.offset), at.pool.version)
			}
		}
	}
	visit(x.byPodRef.find(q.podRef))
	visit(x.byRecord.find(q.Record))
	for _, id := range q.SandboxIDs {
		visit(x.bySandbox.find(id))
	}
	for _, place := range q.Places {
		visit(x.at(place))
	}
	for _, place := range x.placesOf(q.Addresses) {
		visit(x.at(place))
	}
	visit(x.releasingAt(q.releasing))
	for name := range x.named(q) {
		if pool, known := x.pools[name]; known && wanted(pool) {
			notePool(into, name, pool.version, pool.problem)
		}
	}
}

// releasingAt are the tombstones at some addresses, and all those of pools of an unreadable range: they may be at any address.
func (x *index) releasingAt(addresses []netip.Addr) []location {
	var found []location
	for _, place := range x.placesOf(addresses) {
		found = append(found, x.at(place)...)
	}
	for _, pool := range x.pools {
		if pool.rangeErr == nil || len(addresses) == 0 {
			continue
		}
		for offset := range pool.raw {
			found = append(found, location{pool, offset})
		}
	}
	return slices.DeleteFunc(found, func(at location) bool {
		_, record, _ := ipam.ParseReference(at.raw().PodRef)
		return record == ""
	})
}

// placesOf are the places that some addresses have in the pools.
func (x *index) placesOf(addresses []netip.Addr) []ipam.Place {
	var places []ipam.Place
	for _, ip := range addresses {
		for name, pool := range x.pools {
			if pool.rangeErr == nil && pool.network.Contains(ip) {
				places = append(places, ipam.Place{Pool: name, IP: ip})
			}
		}
	}
	return places
}

// named are the pools of which a query wants to know whether they can be read at all: every one, where it selects addresses.
func (x *index) named(q query) sets.Set[string] {
	if len(q.Addresses) > 0 {
		return sets.KeySet(x.pools)
	}
	return q.pools()
}

// at is the allocation that stands at a place, if any does.
func (x *index) at(place ipam.Place) []location {
	at, known := x.locate(place)
	if !known {
		return nil
	}
	if _, stands := at.pool.raw[at.offset]; !stands {
		return nil
	}
	return []location{at}
}

// locate finds a place in the cached pools, whether or not an entry stands there.
func (x *index) locate(place ipam.Place) (at location, known bool) {
	pool, known := x.pools[place.Pool]
	if !known || pool.rangeErr != nil {
		return location{}, false
	}
	offset, err := offsetOf(pool.network, place.IP)
	return location{pool: pool, offset: formatOffset(offset)}, err == nil
}

// rangeOf is the range of a cached pool.
func (x *index) rangeOf(name string) (text string, known bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	pool, known := x.pools[name]
	if !known {
		return "", false
	}
	return pool.rangeText, true
}

// problemCount is how many problems the cached pools have.
func (x *index) problemCount() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.problems
}
