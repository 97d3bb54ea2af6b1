// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/timeline"
	"github.com/holdfast-dev/holdfast/internal/inspect/who"
)

// figure draws the history: a lane for each pod from its first step to its last, or until now where it has the address now, the pool's entries,
// and a mark for each step. What was written down ends with the last step; a pod may have had the address for longer.
func (h *History) figure(now time.Time) *timeline.Figure {
	ip, err := netip.ParseAddr(h.Address)
	if err != nil || len(h.Steps) == 0 {
		return nil
	}
	f := &timeline.Figure{From: h.Steps[0].Time.Time, To: now, Clock: true}
	for i := range h.Steps {
		s := &h.Steps[i]
		f.Events = append(f.Events, timeline.Event{At: s.Time.Time, Text: s.Who + " " + s.What})
		hold := holdOf(f, ip, s)
		if s.What == stepRecorded || hold.From.IsZero() {
			hold.From = s.Time.Time
		}
		hold.To = s.Time.Time
	}
	for i := range h.Now {
		holdNow(f, ip, &h.Now[i])
	}
	if len(h.Now) > 1 {
		f.Overlaps = overlaps(f.Holds)
	}
	return f
}

// holdOf is the lane of a step's pod: by its UID, or by its name where the step does not tell the UID.
func holdOf(f *timeline.Figure, ip netip.Addr, s *Step) *timeline.Hold {
	return laneOf(f, ip, cmp.Or(string(s.UID), s.Who), s.Who, string(s.UID))
}

func laneOf(f *timeline.Figure, ip netip.Addr, id, pod, uid string) *timeline.Hold {
	at := slices.IndexFunc(f.Holds, func(h timeline.Hold) bool { return h.SandboxID == id || (uid == "" && h.Pod == pod) })
	if at < 0 {
		f.Holds = append(f.Holds, timeline.Hold{IP: ip, SandboxID: id, Name: "a sandbox", Pod: pod, PodUID: uid})
		at = len(f.Holds) - 1
	}
	return &f.Holds[at]
}

// holdNow leads the lane of one that has the address now to the end of the figure, and draws its entry.
func holdNow(f *timeline.Figure, ip netip.Addr, n *who.Holder) {
	hold := laneOf(f, ip, cmp.Or(string(n.UID), n.Pod), n.Pod, string(n.UID))
	if n.Since != nil {
		hold.From = n.Since.Time
	}
	if hold.From.IsZero() {
		hold.From = f.From
	}
	hold.Node, hold.To, hold.Open = n.Node, f.To, true
	if n.SandboxID != "" {
		hold.Name = "sandbox " + inspect.Short(n.SandboxID)
	}
	if slices.Contains(n.Sources, who.SourcePool) {
		f.Entries = append(f.Entries, timeline.Entry{IP: ip, SandboxID: hold.SandboxID, Pool: n.Pool, PodRef: n.Pod, From: hold.From, To: f.To})
	}
}

// overlaps are the times in which two of those that have the address now had it.
func overlaps(holds []timeline.Hold) []timeline.Overlap {
	var found []timeline.Overlap
	open := slices.DeleteFunc(slices.Clone(holds), func(h timeline.Hold) bool { return !h.Open })
	for i := 1; i < len(open); i++ {
		from := open[i].From
		if open[i-1].From.After(from) {
			from = open[i-1].From
		}
		found = append(found, timeline.Overlap{IP: open[i].IP, First: open[i-1].SandboxID, Second: open[i].SandboxID, From: from, To: open[i].To})
	}
	return found
}
