// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Place is where an address was seen: an interface of one sandbox of one node.
type Place struct {
	// Node is the node's name, Sandbox the name of the network namespace, and Inode its number.
	Node, Sandbox string
	Inode         uint64
	Interface     string
	// MAC is the interface's hardware address, in the form of net.HardwareAddr.
	MAC string
}

func (p Place) String() string {
	return fmt.Sprintf("%s/%s %s (%s)", p.Node, p.Sandbox, p.Interface, p.MAC)
}

// Observation is an address at a place, seen by one look.
type Observation struct {
	Address netip.Addr
	Place   Place
	// Alive reports whether a process is in the sandbox and that the interface is up; without it the sandbox is closing.
	Alive bool
	// Owner is the cgroup of a process in the sandbox, which has the pod's UID in it; for the reader only.
	Owner string
}

// Span is a time in which a place had an address without a break.
type Span struct {
	Place       Place
	Owner       string
	First, Last time.Time
	// Alive is the part of it in which the sandbox was alive; zero if it never was.
	AliveFirst, AliveLast time.Time
}

// Limits are what a verdict tolerates.
type Limits struct {
	// Closing is how long a sandbox without a process may keep an address that another one has already.
	Closing time.Duration
}

// history keeps who had which address when. Looks come one after the other, in the order of their times.
type history struct {
	spans map[netip.Addr][]*Span
	// claims are the frames on the wire, by address and hardware address.
	claims map[claimKey]*Claim
	looks  int
	last   time.Time
	gap    time.Duration
	failed []string
}

type claimKey struct {
	address netip.Addr
	mac     string
}

// Claim is a hardware address that spoke for an address on the wire.
type Claim struct {
	Address     netip.Addr
	MAC         string
	First, Last time.Time
	Count       int
}

func newHistory() *history {
	return &history{spans: map[netip.Addr][]*Span{}, claims: map[claimKey]*Claim{}}
}

// look takes in everything that was seen at one time. What was there at the look before and is not there now has ended.
func (h *history) look(at time.Time, seen []Observation) {
	previous := h.last
	if h.looks > 0 {
		h.gap = max(h.gap, at.Sub(previous))
	}
	h.looks, h.last = h.looks+1, at
	for _, observation := range seen {
		span := h.open(observation, previous, at)
		span.Last = at
		if observation.Owner != "" {
			span.Owner = observation.Owner
		}
		if observation.Alive {
			if span.AliveFirst.IsZero() {
				span.AliveFirst = at
			}
			span.AliveLast = at
		}
	}
}

// open returns the span that an observation continues, or a new one.
func (h *history) open(observation Observation, previous, at time.Time) *Span {
	spans := h.spans[observation.Address]
	for _, span := range spans {
		if span.Place == observation.Place && (span.Last.Equal(previous) || span.Last.Equal(at)) {
			return span
		}
	}
	span := &Span{Place: observation.Place, First: at}
	h.spans[observation.Address] = append(spans, span)
	return span
}

// failure takes in that a look could not see everything: an address may have been where it did not see.
func (h *history) failure(at time.Time, what string) {
	h.failed = append(h.failed, fmt.Sprintf("%s: %s", at.Format(time.TimeOnly), what))
}

// claim takes in that a hardware address spoke for an address.
func (h *history) claim(at time.Time, address netip.Addr, mac string) {
	key := claimKey{address, mac}
	if h.claims[key] == nil {
		h.claims[key] = &Claim{Address: address, MAC: mac, First: at}
	}
	h.claims[key].Last = at
	h.claims[key].Count++
}

// Overlap is an address that two sandboxes had at one time.
type Overlap struct {
	Address       netip.Addr
	First, Second Span
	From, To      time.Time
	// Closing reports whether one of both had no process any more, as in a node's own CNI DEL.
	Closing bool
}

func (o Overlap) String() string {
	kind := "two live sandboxes have it"
	if o.Closing {
		kind = "a sandbox has it while a closing one still does"
	}
	return fmt.Sprintf("%s: %s from %s to %s (at least %s): %s [%s] and %s [%s]", o.Address, kind,
		o.From.Format("15:04:05.000"), o.To.Format("15:04:05.000"), o.To.Sub(o.From).Round(time.Millisecond),
		o.First.Place, o.First.Owner, o.Second.Place, o.Second.Owner)
}

// overlaps gives every time in which two places had one address, live ones first.
func (h *history) overlaps() []Overlap {
	var found []Overlap
	for address, spans := range h.spans {
		for i, first := range spans {
			for _, second := range spans[i+1:] {
				if overlap, ok := overlapOf(address, first, second); ok {
					found = append(found, overlap)
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Overlap) int {
		if a.Closing != b.Closing {
			if a.Closing {
				return 1
			}
			return -1
		}
		return a.From.Compare(b.From)
	})
	return found
}

func overlapOf(address netip.Addr, first, second *Span) (Overlap, bool) {
	if first.Place.Inode == second.Place.Inode && first.Place.Sandbox == second.Place.Sandbox && first.Place.Node == second.Place.Node {
		return Overlap{}, false // one sandbox has an address on two interfaces, or got it back
	}
	from, to := later(first.AliveFirst, second.AliveFirst), earlier(first.AliveLast, second.AliveLast)
	if !first.AliveFirst.IsZero() && !second.AliveFirst.IsZero() && !to.Before(from) {
		return Overlap{Address: address, First: *first, Second: *second, From: from, To: to}, true
	}
	from, to = later(first.First, second.First), earlier(first.Last, second.Last)
	if to.Before(from) {
		return Overlap{}, false
	}
	return Overlap{Address: address, First: *first, Second: *second, From: from, To: to, Closing: true}, true
}

// rivals gives the claims for one address by several hardware addresses within one response time of each other: the kernel of a
// sandbox responds as long as the address is on its interface, also beside another.
func (h *history) rivals(within time.Duration) []string {
	byAddress := map[netip.Addr][]*Claim{}
	for _, claim := range h.claims {
		byAddress[claim.Address] = append(byAddress[claim.Address], claim)
	}
	var found []string
	for address, claims := range byAddress {
		slices.SortFunc(claims, func(a, b *Claim) int { return a.First.Compare(b.First) })
		for i, first := range claims {
			for _, second := range claims[i+1:] {
				if overlap := first.Last.Sub(second.First); overlap > within {
					found = append(found, fmt.Sprintf("%s: %s and %s both spoke for it on the wire for %s", address, first.MAC, second.MAC, overlap.Round(time.Millisecond)))
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// Verdict is what the observer has to say of a time.
type Verdict struct {
	// Duplicates are the addresses that two live sandboxes had, or a closing one for longer than the limit.
	Duplicates []string
	// OnTheWire are those that two machines claimed on the segment.
	OnTheWire []string
	// Closing is how many hand-overs met a closing sandbox within the limit, and LongestClosing the longest.
	Closing        int
	LongestClosing time.Duration
	// Failures are looks that could not see everything.
	Failures []string
	Looks    int
	// LongestGap is the longest time between two looks.
	LongestGap time.Duration
	Addresses  int
	Sandboxes  int
	Claims     int
}

func (h *history) verdict(limits Limits) Verdict {
	v := Verdict{Looks: h.looks, LongestGap: h.gap, Addresses: len(h.spans), Failures: slices.Clone(h.failed), OnTheWire: h.rivals(limits.Closing)}
	sandboxes := map[string]bool{}
	for _, spans := range h.spans {
		for _, span := range spans {
			sandboxes[span.Place.Node+"/"+span.Place.Sandbox] = true
		}
	}
	v.Sandboxes = len(sandboxes)
	for _, claim := range h.claims {
		v.Claims += claim.Count
	}
	for _, overlap := range h.overlaps() {
		length := overlap.To.Sub(overlap.From)
		if overlap.Closing && length <= limits.Closing {
			v.Closing++
			v.LongestClosing = max(v.LongestClosing, length)
			continue
		}
		v.Duplicates = append(v.Duplicates, overlap.String())
	}
	return v
}

func (v Verdict) String() string {
	lines := []string{fmt.Sprintf("observer: %d looks (longest gap %s), %d sandboxes, %d addresses, %d claims seen: %d duplicates, %d on the wire, %d hand-overs beside a closing sandbox (longest %s)",
		v.Looks, v.LongestGap.Round(time.Millisecond), v.Sandboxes, v.Addresses, v.Claims, len(v.Duplicates), len(v.OnTheWire), v.Closing, v.LongestClosing.Round(time.Millisecond))}
	for _, part := range []struct {
		title string
		lines []string
	}{{"duplicate: ", v.Duplicates}, {"on the wire: ", v.OnTheWire}, {"could not see: ", v.Failures}} {
		for _, line := range part.lines {
			lines = append(lines, part.title+line)
		}
	}
	return strings.Join(lines, "\n")
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
