// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"slices"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// maxRemovals bounds how many removed entries are remembered. They matter until the pod's record was written next.
const maxRemovals = 4096

// removal is an entry that a pool had.
type removal struct{ pool, offset, sandboxID string }

// removals are the last entries that were removed from pools, oldest first. The zero value is empty.
type removals struct {
	known map[removal]bool
	order []removal
}

func (r *removals) add(one removal) {
	if r.known[one] {
		return
	}
	if r.known == nil {
		r.known = map[removal]bool{}
	}
	if len(r.order) == maxRemovals {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
	r.known[one], r.order = true, append(r.order, one)
}

// forget takes back what is no longer true: the sandbox has the entry again, as in a pool that was restored.
func (r *removals) forget(one removal) {
	if r.known[one] {
		delete(r.known, one)
		r.order = slices.DeleteFunc(r.order, func(o removal) bool { return o == one })
	}
}

// removedOf are the places and sandboxes of a query of which the entry was seen to go.
func (x *index) removedOf(q query) []ipam.Removed {
	if len(x.removed.order) == 0 {
		return nil
	}
	var found []ipam.Removed
	for _, place := range q.places {
		pool, known := x.pools[place.Pool]
		if !known || pool.rangeErr != nil {
			continue
		}
		offset, err := offsetOf(pool.network, place.IP)
		if err != nil {
			continue
		}
		for _, id := range q.sandboxIDs {
			if x.removed.known[removal{place.Pool, formatOffset(offset), id}] {
				found = append(found, ipam.Removed{Place: place, SandboxID: id})
			}
		}
	}
	return found
}
