// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	_ "embed" // the page's template
	"fmt"
	"html/template"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/timeline"
	"github.com/holdfast-dev/holdfast/internal/inspect/who"
)

//go:embed page.html.tmpl
var pageText string

// page escapes what it is given: any client writes names, notes and messages.
var page = template.Must(timeline.Templates().Funcs(template.FuncMap{"timestamp": inspect.Timestamp, "short": inspect.Short}).New("page").Parse(pageText))

// lanes is how many colors the page has for pods: those of the figure.
const lanes = 5

// WritePage writes the history as one page that needs no script, picture or other file.
func (h *History) WritePage(w io.Writer, now time.Time) error {
	type step struct {
		Step
		Color int
		Age   string
	}
	steps := make([]step, 0, len(h.Steps))
	colors := map[string]int{}
	for i := range h.Steps {
		id := h.Steps[i].id()
		if _, known := colors[id]; !known {
			colors[id] = len(colors) % lanes
		}
		steps = append(steps, step{h.Steps[i], colors[id], inspect.Age(h.Steps[i].Time, now)})
	}
	shown := map[string]any{"History": h, "Steps": steps, "Now": inspect.At(now)}
	if f := h.figure(now); f != nil {
		shown["Figure"] = map[string]any{"Timeline": timeline.Measure(f), "Label": "Who had " + h.Address + " when"}
	}
	if err := page.Execute(w, shown); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// id is the UID of a step's pod, or its name where the UID is unknown.
func (s *Step) id() string { return cmp.Or(string(s.UID), s.Who) }

// figure draws a lane for each pod from its first step to its last, or until now where it has the address now, the pool's entries,
// and a mark for each step. A pod may have had the address for longer than its steps show.
func (h *History) figure(now time.Time) *timeline.Figure {
	ip, err := netip.ParseAddr(h.Address)
	if err != nil || len(h.Steps) == 0 {
		return nil
	}
	f := &timeline.Figure{From: h.Steps[0].Time.Time, To: now, Clock: true}
	for i := range h.Steps {
		s := &h.Steps[i]
		f.Events = append(f.Events, timeline.Event{At: s.Time.Time, Text: s.Who + " " + s.What})
		hold := laneOf(f, ip, s.id(), s.Who, string(s.UID))
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

func laneOf(f *timeline.Figure, ip netip.Addr, id, pod, uid string) *timeline.Hold {
	at := slices.IndexFunc(f.Holds, func(h timeline.Hold) bool { return h.SandboxID == id || (uid == "" && h.Pod == pod) })
	if at < 0 {
		f.Holds = append(f.Holds, timeline.Hold{IP: ip, SandboxID: id, Name: "a sandbox", Pod: pod, PodUID: uid})
		at = len(f.Holds) - 1
	}
	return &f.Holds[at]
}

// holdNow extends the lane of a holder to the end of the figure, and draws its entry.
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
