// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"net/netip"
	"slices"
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
	mu        sync.RWMutex
	pools     map[string]*cachedPool
	byPodRef  map[string][]location
	bySandbox map[string][]location
	byRecord  map[string][]location
	problems  int
	// removed are the last removals of entries that were seen.
	removed *lru.Cache
	// versions is what snapshots share as PoolVersions; nil when a pool has changed since it was made.
	versions map[string]string
}

// cachedPool is one pool as last seen. raw belongs to the informer's object and is only read.
type cachedPool struct {
	uid       types.UID
	version   string
	changes   int64 // metadata.generation: one more with each change of the allocations
	rangeText string
	network   netip.Prefix
	rangeErr  error
	problem   *ipam.Problem
	raw       map[string]wb.IPAllocation
	decoded   map[string]allocation
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

// arrival is how a version of a pool came: after another one, and after the one before it.
type arrival struct{ watched, whole bool }

func (p *cachedPool) arrivalOf(object *wb.IPPool, known bool) arrival {
	return arrival{watched: known, whole: known && object.Generation <= p.changes+1}
}

func newIndex() *index {
	return &index{
		pools:    map[string]*cachedPool{},
		removed:  lru.New(maxRemovals),
		byPodRef: map[string][]location{}, bySandbox: map[string][]location{}, byRecord: map[string][]location{},
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
	x.versions = nil
	if known && !pool.isStill(object) {
		x.dropPool(name, changes)
		known = false
	}
	if !known {
		pool = x.addPool(name, object, changes)
	}
	came := pool.arrivalOf(object, known)
	pool.version, pool.changes = object.ResourceVersion, object.Generation
	before := pool.raw
	pool.raw = object.Spec.Allocations
	for offset := range before {
		if _, still := pool.raw[offset]; !still {
			x.removed.Add(removal{name, offset, pool.decoded[offset].sandboxID}, nil)
			x.drop(location{pool, offset}, changes)
		}
	}
	for offset, raw := range pool.raw {
		if old, had := before[offset]; !had || old != raw {
			x.replace(name, location{pool, offset}, raw, came, now, changes)
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
		x.versions = nil
		x.dropPool(name, changes)
	}
	return changes.event()
}

func (x *index) addPool(name string, object *wb.IPPool, changes *changes) *cachedPool {
	changes.pools = true
	pool := &cachedPool{
		uid:       object.UID,
		rangeText: object.Spec.Range,
		decoded:   make(map[string]allocation, len(object.Spec.Allocations)),
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
	for offset := range pool.decoded {
		x.drop(location{pool, offset}, changes)
	}
	if pool.problem != nil {
		x.problems--
	}
	delete(x.pools, name)
}

// replace puts an allocation in the place of what stood at its offset, and keeps what is still true of the time when
// it was first seen.
func (x *index) replace(name string, at location, raw wb.IPAllocation, came arrival, now time.Time, changes *changes) {
	before, had := at.pool.decoded[at.offset]
	if had {
		x.drop(at, changes)
	}
	a := decodeAllocation(name, at.pool.network, at.pool.rangeErr, at.offset, raw)
	if a.entry != nil {
		a.entry.Seen = ipam.Seen{SeenSince: now, AddObserved: came.watched, Whole: came.whole}
		switch {
		case !had || before.entry == nil:
		case before.sandboxID == a.sandboxID:
			a.entry.Seen = before.entry.Seen
			if before.podRef != a.podRef {
				a.entry.SeenSince = now
			}
		case before.podRef == a.podRef:
			a.entry.Follows = before.sandboxID
		}
	}
	if a.problem != nil {
		x.problems++
		changes.problems = append(changes.problems, *a.problem)
	}
	at.pool.decoded[at.offset] = a
	x.removed.Remove(removal{name, at.offset, a.sandboxID})
	insert(x.byPodRef, a.podRef, at)
	insert(x.bySandbox, a.sandboxID, at)
	insert(x.byRecord, a.record, at)
	changes.add(a)
}

func (x *index) drop(at location, changes *changes) {
	a := at.pool.decoded[at.offset]
	delete(at.pool.decoded, at.offset)
	if a.problem != nil {
		x.problems--
	}
	is := func(l location) bool { return l == at }
	erase(x.byPodRef, a.podRef, is)
	erase(x.bySandbox, a.sandboxID, is)
	erase(x.byRecord, a.record, is)
	changes.add(a)
}

// insert and erase keep short lists: a pod or a sandbox has a handful of addresses. The empty key is in no index: it is
// not a key that callers look up.
func insert[K comparable, V any](by map[K][]V, key K, value V) {
	var none K
	if key != none {
		by[key] = append(by[key], value)
	}
}

func erase[K comparable, V any](by map[K][]V, key K, is func(V) bool) {
	var none K
	if key == none {
		return
	}
	rest := slices.DeleteFunc(by[key], is)
	if len(rest) == 0 {
		delete(by, key)
		return
	}
	by[key] = rest
}
