// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// changes collects, each once, the names that an update of a pool concerns.
type changes struct {
	podRefs            sets.Set[ipam.PodRef]
	sandboxes, records sets.Set[string]
	addresses          sets.Set[netip.Addr]
	pools              bool
	problems           []ipam.Problem
}

func newChanges() *changes {
	return &changes{podRefs: sets.New[ipam.PodRef](), sandboxes: sets.New[string](), records: sets.New[string](), addresses: sets.New[netip.Addr]()}
}

// add notes an allocation that appeared, changed or was removed.
func (c *changes) add(a allocation) {
	if owner, record, err := ipam.ParseReference(a.podRef); err == nil && record == "" {
		c.podRefs.Insert(*owner)
	}
	if a.sandboxID != "" {
		c.sandboxes.Insert(a.sandboxID)
	}
	if a.record != "" {
		c.records.Insert(a.record)
	}
	if a.address.IsValid() {
		c.addresses.Insert(a.address)
	}
}

func (c *changes) event() ipam.Event {
	e := ipam.Event{Problems: c.problems, Pools: c.pools}
	if len(c.podRefs) > 0 {
		e.PodRefs = c.podRefs.UnsortedList()
		slices.SortFunc(e.PodRefs, func(a, b ipam.PodRef) int { return strings.Compare(a.String(), b.String()) })
	}
	if len(c.sandboxes) > 0 {
		e.SandboxIDs = sets.List(c.sandboxes)
	}
	if len(c.records) > 0 {
		e.Records = sets.List(c.records)
	}
	if len(c.addresses) > 0 {
		e.Addresses = slices.SortedFunc(maps.Keys(c.addresses), netip.Addr.Compare)
	}
	return e
}

// isEmpty reports whether nothing changed that a subscriber could look at.
func isEmpty(e ipam.Event) bool {
	return len(e.PodRefs) == 0 && len(e.SandboxIDs) == 0 && len(e.Records) == 0 && len(e.Addresses) == 0 && len(e.Problems) == 0 && !e.Pools
}
