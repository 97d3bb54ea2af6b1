// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Overlap is a time in which two live sandboxes held one address.
type Overlap struct {
	IP       netip.Addr
	From, To time.Time
	// First and Second are the sandbox IDs, in the order in which they got the address.
	First, Second string
}

// Holds folds the samples into one Hold for each sandbox and address, ordered by address, then by time.
func (h History) Holds() []Hold {
	type key struct {
		sandbox string
		ip      netip.Addr
	}
	holds := map[key]*Hold{}
	for _, sample := range h {
		for _, s := range sample.Sandboxes {
			for _, address := range s.Addresses {
				k := key{s.ID, address.IP}
				if holds[k] == nil {
					holds[k] = begin(sample.At, s, address)
				}
				holds[k].see(sample.At, s)
			}
		}
	}
	all := make([]Hold, 0, len(holds))
	for _, hold := range holds {
		all = append(all, *hold)
	}
	slices.SortFunc(all, func(a, b Hold) int {
		return cmp.Or(a.IP.Compare(b.IP), a.From.Compare(b.From), cmp.Compare(a.SandboxID, b.SandboxID))
	})
	return all
}

// begin is the hold of an address that a sample shows for the first time.
func begin(at time.Time, s Sandbox, address Address) *Hold {
	from := address.Since
	if from.IsZero() {
		from = at
	}
	return &Hold{IP: address.IP, SandboxID: s.ID, Node: s.Node, Pod: s.Pod, PodUID: s.PodUID, From: from, Open: true}
}

// see takes one sample of the sandbox into the hold.
func (h *Hold) see(at time.Time, s Sandbox) {
	if !h.Open {
		return
	}
	h.To = at
	switch {
	case !s.Alive:
		h.Open = false
		// The runtime knows the end better than the next sample does, but a hold never ends before it began.
		if !s.Ended.IsZero() {
			h.To = Later(h.From, s.Ended)
		}
	case s.Ready:
		h.WasReady = true
	case h.WasReady && h.Stopping.IsZero():
		h.Stopping = at
	}
}

// Overlaps returns every time in which two live sandboxes held one address, ordered by address, then by time.
func (h History) Overlaps() []Overlap {
	var overlaps []Overlap
	holds := h.Holds()
	for i, first := range holds {
		for _, second := range holds[i+1:] {
			if first.IP != second.IP {
				break // holds are ordered by address
			}
			if o, found := overlap(first, second); found {
				overlaps = append(overlaps, o)
			}
		}
	}
	return overlaps
}

// overlap judges two holds of one address, of which first did not begin after second.
func overlap(first, second Hold) (Overlap, bool) {
	o := Overlap{
		IP:    first.IP,
		From:  Later(first.From, second.From),
		To:    earlier(first.To, second.To),
		First: first.SandboxID, Second: second.SandboxID,
	}
	// Two sandboxes in the last sample are a fact, though one sample has no duration.
	together := first.Open && second.Open && o.From.Equal(o.To)
	if !o.From.Before(o.To) && !together {
		return Overlap{}, false
	}
	ownDEL := !first.Stopping.IsZero() && !first.Stopping.After(o.From)
	if ownDEL && o.To.Sub(o.From) <= DELTolerance {
		return Overlap{}, false
	}
	return o, true
}

// Duplicates is the number of addresses that two live sandboxes held at once.
func (h History) Duplicates() int {
	addresses := map[netip.Addr]bool{}
	for _, o := range h.Overlaps() {
		addresses[o.IP] = true
	}
	return len(addresses)
}

// Later is the later one of two times.
func Later(a, b time.Time) time.Time {
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
