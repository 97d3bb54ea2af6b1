// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// maxRemovals bounds how many removed entries are remembered. They matter until the pod's record was written next.
const maxRemovals = 4096

// removal is an entry that a pool had.
type removal struct{ pool, offset, sandboxID string }

// removedOf are the places and sandboxes of a query of which the entry was seen removed.
func (x *index) removedOf(q query) []ipam.Removed {
	var found []ipam.Removed
	for _, place := range q.Places {
		at, known := x.locate(place)
		if !known {
			continue
		}
		for _, id := range q.SandboxIDs {
			if _, known := x.removed.Get(removal{place.Pool, at.offset, id}); known {
				found = append(found, ipam.Removed{Place: place, SandboxID: id})
			}
		}
	}
	return found
}
