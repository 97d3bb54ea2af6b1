// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"cmp"
	"maps"
	"slices"
)

// Entry is one entry of a pool, as the IPAM recorded it.
type Entry struct {
	SandboxID, PodRef, Interface string
}

// Removal is an entry that a write takes away from its pod reference.
type Removal struct {
	// Offset is the entry's key in the pool.
	Offset string
	// Entry is what stood there before the write.
	Entry
	// Rewritten: an entry stays at the offset, under NewPodRef.
	Rewritten bool
	NewPodRef string
	// SameSandbox: the entry which stays is for the same sandbox and interface.
	SameSandbox bool
}

// Diff returns what a write removes: the entries that are missing afterwards or stand under another reference, sorted by
// offset. adds reports whether it is of an ADD: it records an entry at a free offset, or a new sandbox ID under the same reference. The latter removes
// nothing: that is how whereabouts re-creates a sandbox.
func Diff(before, after map[string]Entry) (removals []Removal, adds bool) {
	for offset, entry := range before {
		now, stays := after[offset]
		if !stays || now.PodRef != entry.PodRef {
			same := stays && now.SandboxID == entry.SandboxID && now.Interface == entry.Interface
			removals = append(removals, Removal{Offset: offset, Entry: entry, Rewritten: stays, NewPodRef: now.PodRef, SameSandbox: same})
		} else if now.SandboxID != entry.SandboxID {
			adds = true
		}
	}
	for offset := range maps.Keys(after) {
		if _, had := before[offset]; !had {
			adds = true
		}
	}
	slices.SortFunc(removals, func(a, b Removal) int { return cmp.Or(len(a.Offset)-len(b.Offset), cmp.Compare(a.Offset, b.Offset)) })
	return removals, adds
}
