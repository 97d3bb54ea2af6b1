// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// index holds every allocation of the cached pools by podref, sandbox and record. An update of a pool costs one
// comparison of its allocations and work for those that differ; a look-up costs what it finds. It is safe for
// concurrent use.
type index struct {
	mu                            sync.RWMutex
	pools                         map[string]*cachedPool
	byPodRef, bySandbox, byRecord *buckets[string, location]
	problems                      int
	// removed are the last removals of entries that were seen.
	removed *lru.Cache
}

// cachedPool is one pool as last seen. raw belongs to the informer's object and is only read. Its texts are the only ones that the index keeps, so
// that an allocation is decoded with each look-up.
type cachedPool struct {
	name      string
	uid       types.UID
	version   string
	came      time.Time // when the watch showed this version
	changes   int64     // metadata.generation: one more with each change of the allocations
	rangeText string
	network   netip.Prefix
	rangeErr  error
	problem   *ipam.Problem
	raw       map[string]wb.IPAllocation
	// seen has each entry. Those that came with one version of the pool share it.
	seen map[string]*ipam.Seen
}

// at is the allocation at an offset that has one.
func (p *cachedPool) at(offset string) allocation { return p.decode(offset, p.raw[offset]) }

func (p *cachedPool) decode(offset string, raw wb.IPAllocation) allocation {
	a := decodeAllocation(p.name, p.network, p.rangeErr, offset, raw)
	if seen := p.seen[offset]; seen != nil && a.entry != nil {
		a.entry.Seen = *seen
	}
	return a
}

// isStill is false for a pool with another UID or another range: that is another pool under the same name.
func (p *cachedPool) isStill(object *wb.IPPool) bool {
	return p.uid == object.UID && p.rangeText == object.Spec.Range
}

// location is one allocation of one pool.
type location struct {
	pool   *cachedPool
	offset string
}

func (l location) raw() wb.IPAllocation { return l.pool.raw[l.offset] }

// arrivalOf is what is seen of the entries that come with a version of a pool.
func (p *cachedPool) arrivalOf(object *wb.IPPool, known bool, now time.Time) *ipam.Seen {
	return &ipam.Seen{SeenSince: now, AddObserved: known, Whole: known && object.Generation <= p.changes+1}
}

func newIndex() *index {
	return &index{
		pools:     map[string]*cachedPool{},
		removed:   lru.New(maxRemovals),
		byPodRef:  newBuckets(func(at location, podRef string) bool { return at.raw().PodRef == podRef }),
		bySandbox: newBuckets(func(at location, id string) bool { return at.raw().ContainerID == id }),
		byRecord: newBuckets(func(at location, record string) bool {
			_, of, _ := ipam.ParseReference(at.raw().PodRef)
			return of == record
		}),
	}
}

// apply takes a pool as the informer shows it, and returns what changed. What a pool holds when it is first seen has no
// observed ADD: the pool was not seen without it.
func (x *index) apply(object *wb.IPPool, now time.Time) ipam.Event {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := poolName(object.Namespace, object.Name)
	changes := newChanges()
	pool, known := x.pools[name]
	if known && pool.uid == object.UID && pool.version == object.ResourceVersion {
		return changes.event()
	}
	if known && !pool.isStill(object) {
		x.dropPool(name, changes)
		known = false
	}
	if !known {
		pool = x.addPool(name, object, changes)
	}
	came := pool.arrivalOf(object, known, now)
	pool.version, pool.came, pool.changes = object.ResourceVersion, now, object.Generation
	before := pool.raw
	pool.raw = object.Spec.Allocations
	for offset, old := range before {
		if _, still := pool.raw[offset]; !still {
			x.removed.Add(removal{name, offset, old.ContainerID}, nil)
			x.drop(location{pool, offset}, old, changes)
		}
	}
	for offset, raw := range pool.raw {
		switch old, had := before[offset]; {
		case !had:
			x.replace(location{pool, offset}, nil, raw, came, changes)
		case old != raw:
			x.replace(location{pool, offset}, &old, raw, came, changes)
		}
	}
	return changes.event()
}

// remove forgets a pool that was deleted.
func (x *index) remove(name string) ipam.Event {
	x.mu.Lock()
	defer x.mu.Unlock()
	changes := newChanges()
	if _, known := x.pools[name]; known {
		x.dropPool(name, changes)
	}
	return changes.event()
}

func (x *index) addPool(name string, object *wb.IPPool, changes *changes) *cachedPool {
	changes.pools = true
	pool := &cachedPool{
		name:      name,
		uid:       object.UID,
		rangeText: object.Spec.Range,
		seen:      make(map[string]*ipam.Seen, len(object.Spec.Allocations)),
	}
	pool.network, pool.problem, pool.rangeErr = decodePool(object)
	if pool.problem != nil {
		x.problems++
		changes.problems = append(changes.problems, *pool.problem)
	}
	x.pools[name] = pool
	return pool
}

func (x *index) dropPool(name string, changes *changes) {
	changes.pools = true
	pool := x.pools[name]
	for offset, raw := range pool.raw {
		x.drop(location{pool, offset}, raw, changes)
	}
	if pool.problem != nil {
		x.problems--
	}
	delete(x.pools, name)
}

// replace puts an allocation in the place of what stood at its offset, which is nil where nothing did, and keeps what is still true of the time when
// it was first seen.
func (x *index) replace(at location, old *wb.IPAllocation, raw wb.IPAllocation, came *ipam.Seen, changes *changes) {
	var before allocation
	if old != nil {
		before = x.drop(at, *old, changes)
	}
	a := at.pool.decode(at.offset, raw)
	if a.entry != nil {
		at.pool.seen[at.offset] = seenAfter(before, a, came)
	}
	if a.problem != nil {
		x.problems++
		changes.problems = append(changes.problems, *a.problem)
	}
	x.removed.Remove(removal{at.pool.name, at.offset, a.sandboxID})
	x.byPodRef.insert(a.podRef, at)
	x.bySandbox.insert(a.sandboxID, at)
	x.byRecord.insert(a.record, at)
	changes.add(a)
}

// seenAfter is what was seen of an entry that comes after an allocation at its offset.
func seenAfter(before, a allocation, came *ipam.Seen) *ipam.Seen {
	seen := *came
	switch {
	case before.entry == nil:
		return came
	case before.sandboxID == a.sandboxID:
		seen = before.entry.Seen
		if before.podRef != a.podRef {
			seen.SeenSince = came.SeenSince
		}
	case before.podRef == a.podRef:
		seen.Follows = before.sandboxID
	}
	return &seen
}

// drop forgets an allocation, and returns what it was.
func (x *index) drop(at location, raw wb.IPAllocation, changes *changes) allocation {
	a := at.pool.decode(at.offset, raw)
	delete(at.pool.seen, at.offset)
	if a.problem != nil {
		x.problems--
	}
	is := func(l location) bool { return l == at }
	x.byPodRef.erase(a.podRef, is)
	x.bySandbox.erase(a.sandboxID, is)
	x.byRecord.erase(a.record, is)
	changes.add(a)
	return a
}
