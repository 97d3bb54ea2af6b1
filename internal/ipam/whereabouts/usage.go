// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

var _ ipam.Measurable = (*Backend)(nil)

// Usage is how full each range is. A pool belongs to the range of the configurations that agree with its name and its range; where there
// is none, because the flat file on the nodes names the range, it is a range of its own in which every usable address counts.
func (b *Backend) Usage(configs []string) []ipam.RangeUse {
	var ranges []configuredRange
	for _, config := range configs {
		ranges = append(ranges, rangesOf(config)...)
	}
	by := map[usageKey]*ipam.RangeUse{}
	b.index.mu.RLock()
	defer b.index.mu.RUnlock()
	for key, pool := range b.index.pools {
		if pool.rangeErr != nil {
			continue // it is among the malformed ones
		}
		_, name, _ := strings.Cut(key, "/")
		of, free := measure(newNaming(name, pool.rangeText), pool.network, ranges)
		use := by[of]
		if use == nil {
			use = &ipam.RangeUse{Network: of.network, Range: of.subnet.String()}
			by[of] = use
		}
		use.Addresses += free
		use.Entries += len(pool.raw)
		use.Fullest = max(use.Fullest, share(len(pool.raw), free))
	}
	uses := make([]ipam.RangeUse, 0, len(by))
	for _, use := range by {
		uses = append(uses, *use)
	}
	slices.SortFunc(uses, func(x, y ipam.RangeUse) int {
		return cmp.Or(strings.Compare(x.Network, y.Network), strings.Compare(x.Range, y.Range))
	})
	return uses
}

// usageKey is a range of a network.
type usageKey struct {
	network string
	subnet  netip.Prefix
}

// compare orders two ranges to one of which a pool belongs.
func (k usageKey) compare(other usageKey) int {
	return cmp.Or(cmp.Compare(len(k.network), len(other.network)), cmp.Compare(k.subnet.Bits(), other.subnet.Bits()),
		k.subnet.Addr().Compare(other.subnet.Addr()), strings.Compare(k.network, other.network))
}

// measure finds the range to which a pool belongs, and how many addresses of it may be handed out: those that any configuration of the
// range allows. Where several ranges could be meant, the one with the longer name counts, then the smaller one.
func measure(name naming, pool netip.Prefix, ranges []configuredRange) (usageKey, float64) {
	key, matched := usageKey{subnet: pool}, false
	var spans []span
	for i := range ranges {
		r := &ranges[i]
		if !r.has(name, pool) {
			continue
		}
		of := usageKey{r.network, r.subnet}
		switch order := of.compare(key); {
		case !matched || order > 0:
			key, matched, spans = of, true, r.within(pool)
		case order == 0:
			spans = append(spans, r.within(pool)...)
		}
	}
	if !matched {
		spans = usable(pool)
	}
	return key, count(spans)
}

// has reports whether a pool is one of the range: by its name and its own range, or as the slice of a node.
func (r *configuredRange) has(name naming, pool netip.Prefix) bool {
	if !name.known {
		return false
	}
	if r.sliceBits == 0 {
		return name.prefix == r.network && pool == r.subnet
	}
	named := name.prefix != "" && (r.network == "" || strings.HasPrefix(name.prefix, r.network+"-"))
	return named && pool.Bits() == r.sliceBits && r.subnet.Contains(pool.Addr())
}

// within are the addresses of a pool that may be handed out. In a slice whereabouts knows neither limits nor exclusions
// (IPManagementKubernetesUpdate, pkg/storage/kubernetes/ipam.go).
func (r *configuredRange) within(pool netip.Prefix) []span {
	spans := usable(pool)
	if r.sliceBits != 0 || len(spans) == 0 {
		return spans
	}
	// A limit that is not among the usable addresses is ignored, and so is an end before the start (GetIPRange, pkg/iphelpers).
	whole := spans[0]
	if at, ok := offsetIn(pool, r.start); ok && whole.has(at) {
		whole.first = at
	}
	if at, ok := offsetIn(pool, r.end); ok && whole.has(at) {
		whole.last = at
	}
	spans = []span{whole}
	for _, excluded := range r.excluded {
		spans = without(spans, pool, excluded)
	}
	return spans
}

func offsetIn(pool netip.Prefix, address netip.Addr) (uint64, bool) {
	if !address.IsValid() {
		return 0, false
	}
	offset, err := offsetOf(pool, address)
	return offset, err == nil
}

// share of what can be had that is taken.
func share(taken int, free float64) float64 {
	switch {
	case free > 0:
		return float64(taken) / free
	case taken > 0:
		return 1
	default:
		return 0
	}
}

// span are the offsets from first to last, both of them included.
type span struct{ first, last uint64 }

func (s span) has(offset uint64) bool { return s.first <= offset && offset <= s.last }

// usable are the addresses of a range without its first and its last, which whereabouts never hands out: none where there are no
// others. What lies beyond maxOffset it cannot record.
func usable(pool netip.Prefix) []span {
	hostBits := pool.Addr().BitLen() - pool.Bits()
	switch {
	case hostBits < 2:
		return nil
	case hostBits > 63:
		return []span{{1, maxOffset}}
	default:
		return []span{{1, 1<<hostBits - 2}}
	}
}

// without takes an excluded network out of some spans of a pool.
func without(spans []span, pool, excluded netip.Prefix) []span {
	if !excluded.Overlaps(pool) {
		return spans
	}
	if excluded.Bits() <= pool.Bits() {
		return nil
	}
	first, err := offsetOf(pool, excluded.Addr())
	if err != nil {
		return spans // beyond what can be recorded
	}
	last := uint64(maxOffset)
	if hostBits := excluded.Addr().BitLen() - excluded.Bits(); hostBits < 63 {
		last = min(last, first+(1<<hostBits-1))
	}
	var rest []span
	for _, s := range spans {
		if s.last < first || s.first > last {
			rest = append(rest, s)
			continue
		}
		if s.first < first {
			rest = append(rest, span{s.first, first - 1})
		}
		if s.last > last {
			rest = append(rest, span{last + 1, s.last})
		}
	}
	return rest
}

// count is how many offsets lie in any of the spans.
func count(spans []span) float64 {
	slices.SortFunc(spans, func(x, y span) int { return cmp.Compare(x.first, y.first) })
	var sum float64
	var next uint64 // the first offset that is not counted yet
	for _, s := range spans {
		if s.last < next {
			continue
		}
		sum += float64(s.last-max(s.first, next)) + 1
		next = s.last + 1
	}
	return sum
}
