// SPDX-License-Identifier: Apache-2.0

// Package timeline draws which sandbox had which address when: a lane for each sandbox, the entries of the pool below them, and numbered
// marks for what happened. The report of the demo and the page of kubectl holdfast history show it.
package timeline

import (
	"cmp"
	_ "embed" // for the template
	"fmt"
	"html/template"
	"net/netip"
	"slices"
	"strings"
	"time"
)

//go:embed timeline.html.tmpl
var text string

// Templates are "timeline", which draws a Measured with a label ({Timeline, Label}), and for the page's style sheet "timeline-colors" and
// "timeline-style". A page is added to them.
func Templates() *template.Template {
	return template.Must(template.New("timelines").Funcs(template.FuncMap{
		"px":  func(v float64) string { return fmt.Sprintf("%.1f", v) },
		"add": func(a, b float64) float64 { return a + b },
	}).Parse(text))
}

// The measures of a timeline, in units of its viewBox.
const (
	plotLeft    = 200.0
	plotRight   = 985.0
	markerRow   = 20.0 // height of one row of event markers
	markerRoom  = 19.0 // least distance of two markers in one row
	groupHeader = 26.0
	laneHeight  = 26.0
	poolHeight  = 20.0
	groupGap    = 10.0
	axisHeight  = 24.0
	colors      = 5   // classes s0 to s4 of the style sheet
	labelRoom   = 120 // least width of a bar that has its label inside
)

// Figure is what is drawn.
type Figure struct {
	From, To time.Time
	Holds    []Hold
	Entries  []Entry
	Overlaps []Overlap
	Events   []Event
	// Clock shows times of day (UTC) in place of seconds since the beginning.
	Clock bool
}

// Hold is the time in which one sandbox had one address.
type Hold struct {
	IP netip.Addr
	// SandboxID gives the lane its color. Name is the label of the bar; "sandbox ID" where it is empty.
	SandboxID, Name, Node string
	// Pod is "namespace/name".
	Pod, PodUID string
	From, To    time.Time
	// Open: it has the address at the end.
	Open bool
}

// Entry is the time in which one entry of a pool named one sandbox.
type Entry struct {
	IP           netip.Addr
	SandboxID    string
	Pool, PodRef string
	From, To     time.Time
	// LeakedAt is when the entry became a leak; zero if it did not.
	LeakedAt time.Time
}

// Overlap is a time in which two sandboxes had one address.
type Overlap struct {
	IP            netip.Addr
	First, Second string
	From, To      time.Time
}

// Event is marked with a number.
type Event struct {
	At   time.Time
	Text string
}

// Measured is a figure with its places.
type Measured struct {
	Height, PlotLeft, PlotRight, PlotTop, PlotEnd float64

	Markers []marker
	Groups  []group
	Ticks   []tick
}

type marker struct {
	X, Y       float64
	Number     int
	Time, Text string
}

type tick struct {
	X     float64
	Label string
}

// group is everything about one address.
type group struct {
	IP       string
	Y, PoolY float64
	Lanes    []lane
	Pool     bool // there are entries of a pool at all
	Records  []bar
	Overlaps []clash
}

// lane is one sandbox that held the address.
type lane struct {
	Y     float64
	Label string
	Bar   bar
}

// clash is a time in which two sandboxes had the address: a box around both lanes, and the stretch of each.
type clash struct {
	Box       bar
	Stretches [2]bar
}

// bar is a stretch of time. Color is the index of its sandbox's color, Inside its label if it fits, Title its tooltip.
type bar struct {
	X, Y, W, H    float64
	Color         int
	Inside, Title string
	Leak          bool
}

// drawing turns times into measures.
type drawing struct {
	*Figure
	scale float64 // units per second
	ids   []string
}

// Measure finds the place of everything in a figure.
func Measure(f *Figure) Measured {
	d := drawing{Figure: f, scale: (plotRight - plotLeft) / max(f.To.Sub(f.From).Seconds(), 1)}
	t := Measured{PlotLeft: plotLeft, PlotRight: plotRight}
	markers, rows := d.markers()
	t.Markers, t.PlotTop = markers, float64(rows)*markerRow+4
	y := t.PlotTop + groupGap
	for _, ip := range d.addresses() {
		g := d.group(ip, y)
		y = g.PoolY + poolHeight + groupGap
		t.Groups = append(t.Groups, g)
	}
	t.PlotEnd, t.Height, t.Ticks = y, y+axisHeight, d.ticks()
	return t
}

// x is the place of a moment, kept inside the plot.
func (d *drawing) x(at time.Time) float64 {
	return min(max(plotLeft+at.Sub(d.From).Seconds()*d.scale, plotLeft), plotRight)
}

// since is a time as people read it.
func (d *drawing) since(at time.Time) string {
	if d.Clock {
		return at.UTC().Format(time.TimeOnly)
	}
	return fmt.Sprintf("%.1f s", max(at.Sub(d.From).Seconds(), 0))
}

// color gives each sandbox the same color wherever it appears.
func (d *drawing) color(sandboxID string) int {
	i := slices.Index(d.ids, sandboxID)
	if i < 0 {
		i = len(d.ids)
		d.ids = append(d.ids, sandboxID)
	}
	return i % colors
}

// markers places the events, in as many rows as they need not to touch each other.
func (d *drawing) markers() ([]marker, int) {
	var markers []marker
	var lastX []float64 // of each row
	for i, event := range d.Events {
		m := marker{X: d.x(event.At), Number: i + 1, Time: d.since(event.At), Text: event.Text}
		row := slices.IndexFunc(lastX, func(x float64) bool { return m.X-x >= markerRoom })
		if row < 0 {
			row = len(lastX)
			lastX = append(lastX, 0)
		}
		lastX[row] = m.X
		m.Y = float64(row)*markerRow + markerRow/2
		markers = append(markers, m)
	}
	return markers, len(lastX)
}

// steps are the distances of ticks that are tried, in seconds.
var steps = []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600, 24 * 3600, 7 * 24 * 3600, 30 * 24 * 3600}

// ticks are at most about ten round times.
func (d *drawing) ticks() []tick {
	length := d.To.Sub(d.From).Seconds()
	at := slices.IndexFunc(steps, func(s float64) bool { return length/s <= 12 })
	if at < 0 {
		at = len(steps) - 1
	}
	step := steps[at]
	var ticks []tick
	for s := 0.0; s <= length; s += step {
		ticks = append(ticks, tick{X: plotLeft + s*d.scale, Label: d.tickLabel(s, step)})
	}
	return ticks
}

// tickLabel is a time of day, or a day where the ticks are as far apart.
func (d *drawing) tickLabel(seconds, step float64) string {
	at := d.From.Add(time.Duration(seconds * float64(time.Second))).UTC()
	switch {
	case !d.Clock:
		return fmt.Sprintf("%.0f s", seconds)
	case step >= 24*3600:
		return at.Format("Jan 2")
	case step < 60:
		return at.Format(time.TimeOnly)
	}
	return at.Format("15:04")
}

// addresses are those that a sandbox or the pool ever had, in order.
func (d *drawing) addresses() []netip.Addr {
	var all []netip.Addr
	for i := range d.Holds {
		all = append(all, d.Holds[i].IP)
	}
	for i := range d.Entries {
		all = append(all, d.Entries[i].IP)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

func (d *drawing) group(ip netip.Addr, y float64) group {
	g := group{IP: ip.String(), Y: y, Pool: len(d.Entries) > 0}
	y += groupHeader
	lanes := map[string]float64{}
	for i := range d.Holds {
		h := &d.Holds[i]
		if h.IP != ip {
			continue
		}
		lanes[h.SandboxID] = y
		g.Lanes = append(g.Lanes, d.lane(h, y))
		y += laneHeight
	}
	g.PoolY = y
	for i := range d.Entries {
		if d.Entries[i].IP == ip {
			g.Records = append(g.Records, d.record(&d.Entries[i], y)...)
		}
	}
	for _, o := range d.Overlaps {
		if o.IP == ip {
			g.Overlaps = append(g.Overlaps, d.overlap(o, lanes))
		}
	}
	return g
}

func (d *drawing) lane(h *Hold, y float64) lane {
	_, pod, _ := strings.Cut(h.Pod, "/")
	label := pod
	if h.Node != "" {
		label += " on " + h.Node
	}
	b := d.bar(h.From, h.To, y+3, laneHeight-6, h.SandboxID)
	end := "until " + d.since(h.To)
	if h.Open {
		end = "and still does"
	}
	name := cmp.Or(h.Name, "sandbox "+short(h.SandboxID))
	b.Title = fmt.Sprintf("%s of pod %s (UID %s) on %s holds it from %s %s",
		name, h.Pod, h.PodUID, h.Node, d.since(h.From), end)
	b.Inside = inside(b.W, name)
	return lane{Y: y, Label: label, Bar: b}
}

// record is the pool's entry: one bar, and, where it became a leak, another one from the end of its sandbox on.
func (d *drawing) record(r *Entry, y float64) []bar {
	until := r.To
	if !r.LeakedAt.IsZero() {
		until = d.ended(r.SandboxID, r.From)
	}
	b := d.bar(r.From, until, y+3, poolHeight-6, r.SandboxID)
	b.Title = fmt.Sprintf("%s: entry for sandbox %s, podref %s, from %s to %s",
		r.Pool, short(r.SandboxID), r.PodRef, d.since(r.From), d.since(r.To))
	if b.Inside = inside(b.W, "names "+short(r.SandboxID)); d.Clock {
		b.Inside = inside(b.W, r.PodRef)
	}
	if r.LeakedAt.IsZero() {
		return []bar{b}
	}
	l := d.bar(until, r.To, b.Y, b.H, r.SandboxID)
	l.Leak, l.Inside = true, inside(l.W, "leak")
	l.Title = fmt.Sprintf("leak: the sandbox has ended, the entry stays; counted at %s", d.since(r.LeakedAt))
	return []bar{b, l}
}

// ended is when a sandbox's last hold ended, not before a time.
func (d *drawing) ended(sandboxID string, end time.Time) time.Time {
	for i := range d.Holds {
		if d.Holds[i].SandboxID == sandboxID && d.Holds[i].To.After(end) {
			end = d.Holds[i].To
		}
	}
	return end
}

// overlap covers the lanes of both sandboxes.
func (d *drawing) overlap(o Overlap, lanes map[string]float64) clash {
	top, bottom := min(lanes[o.First], lanes[o.Second]), max(lanes[o.First], lanes[o.Second])
	c := clash{Box: d.bar(o.From, o.To, top, bottom-top+laneHeight, o.First)}
	c.Box.W = max(c.Box.W, 3)
	c.Box.Title = fmt.Sprintf("duplicate: sandboxes %s and %s both hold %s from %s to %s",
		short(o.First), short(o.Second), o.IP, d.since(o.From), d.since(o.To))
	for i, id := range []string{o.First, o.Second} {
		c.Stretches[i] = d.bar(o.From, o.To, lanes[id]+3, laneHeight-6, id)
	}
	return c
}

func (d *drawing) bar(from, to time.Time, y, height float64, sandboxID string) bar {
	x := d.x(from)
	return bar{X: x, Y: y, W: max(d.x(to)-x, 2), H: height, Color: d.color(sandboxID)}
}

func inside(w float64, label string) string {
	if w < labelRoom {
		return ""
	}
	return label
}

// short is enough of a sandbox ID to tell it from the others of a page.
func short(sandboxID string) string {
	return sandboxID[:min(len(sandboxID), 8)]
}
