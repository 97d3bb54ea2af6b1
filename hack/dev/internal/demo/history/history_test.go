// SPDX-License-Identifier: Apache-2.0

package history

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ip1   = netip.MustParseAddr("10.80.0.1")
	ip2   = netip.MustParseAddr("10.80.0.2")
)

// at is a time in seconds after the start of a test's history.
func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

// life is a sandbox over time, from which samples are made. Times are seconds; zero means never.
type life struct {
	id, node                         string
	ip                               netip.Addr
	added, ready, stopping, gone     float64
	unknownTimes, addressesForgotten bool
}

// holding is an entry over time. Times are seconds; to = 0 means that it stays.
type holding struct {
	sandbox  string
	ip       netip.Addr
	from, to float64
}

// condition is a node's state from a moment on.
type condition struct {
	node  string
	from  float64
	state NodeState
}

type story struct {
	lives      []life
	entries    []holding
	conditions []condition // in the order of their times
}

// sampled makes the history of a story, with a sample every step seconds from 0 to until.
func (s story) sampled(step, until float64) History {
	var h History
	for i := 0; float64(i)*step <= until; i++ {
		h = append(h, s.at(float64(i)*step))
	}
	return h
}

func (s story) at(now float64) Sample {
	sample := Sample{At: at(now), Nodes: map[string]NodeState{}}
	for _, l := range s.lives {
		if l.added <= now {
			sample.Sandboxes = append(sample.Sandboxes, l.at(now))
		}
	}
	for _, e := range s.entries {
		if e.from <= now && (e.to == 0 || now < e.to) {
			sample.Entries = append(sample.Entries, Entry{Pool: "kube-system/pool", IP: e.ip, SandboxID: e.sandbox, PodRef: "demo/web-0"})
		}
	}
	for _, c := range s.conditions {
		if c.from <= now {
			sample.Nodes[c.node] = c.state
		}
	}
	return sample
}

func (l life) at(now float64) Sandbox {
	s := Sandbox{
		ID: l.id, Node: l.node, Pod: "demo/web-0", PodUID: "uid-" + l.id,
		Alive:     l.gone == 0 || now < l.gone,
		Ready:     now >= l.ready && (l.stopping == 0 || now < l.stopping) && (l.gone == 0 || now < l.gone),
		Addresses: []Address{{IP: l.ip}},
	}
	if !l.unknownTimes {
		s.Addresses[0].Since = at(l.added)
		if !s.Alive {
			s.Ended = at(l.gone)
		}
	}
	if l.addressesForgotten && !s.Alive {
		s.Addresses = nil
	}
	return s
}

func TestDuplicates(t *testing.T) {
	cases := map[string]struct {
		story story
		step  float64
		want  int
	}{
		"no sandbox at all": {},
		"one sandbox, once": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1}}},
		},
		"one sandbox after the other": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1, gone: 3}, {id: "b", ip: ip1, added: 3}}},
		},
		"two sandboxes with two addresses": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1}, {id: "b", ip: ip2, added: 2}}},
		},
		"two live sandboxes with one address": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1, gone: 8}, {id: "b", ip: ip1, added: 3}}},
			want:  1,
		},
		"the second is starting: a sandbox without READY is as good": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1}, {id: "b", ip: ip1, added: 3, ready: 100}}},
			want:  1,
		},
		"the first is starting, and has never been READY": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1, ready: 100, gone: 3.2}, {id: "b", ip: ip1, added: 3}}},
			want:  1,
		},
		"both still there in the last sample, which is the first one of the second": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1}, {id: "b", ip: ip1, added: 10}}},
			want:  1,
		},
		"milliseconds of the node's own DEL": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1, stopping: 2.5, gone: 3.2}, {id: "b", ip: ip1, added: 3}}},
		},
		"milliseconds, but nobody was stopping the first": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1, gone: 3.2}, {id: "b", ip: ip1, added: 3}}},
			want:  1,
		},
		"stopped, but for longer than a DEL takes": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1, stopping: 2.5, gone: 6}, {id: "b", ip: ip1, added: 3}}},
			want:  1,
		},
		"the address was taken before the first was being stopped": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1, stopping: 3.2, gone: 3.4}, {id: "b", ip: ip1, added: 3}}},
			want:  1,
		},
		"an overlap between two samples": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1.1, gone: 3.6}, {id: "b", ip: ip1, added: 3.2, gone: 3.8}}},
			step:  1,
			want:  1,
		},
		"the runtime tells no times: the samples decide": {
			story: story{lives: []life{
				{id: "a", ip: ip1, added: 1, gone: 5, unknownTimes: true}, {id: "b", ip: ip1, added: 3, unknownTimes: true},
			}},
			want: 1,
		},
		"no times, one after the other": {
			story: story{lives: []life{
				{id: "a", ip: ip1, added: 1, gone: 3, unknownTimes: true}, {id: "b", ip: ip1, added: 3, unknownTimes: true},
			}},
		},
		"three sandboxes on one address are one address": {
			story: story{lives: []life{{id: "a", ip: ip1, added: 1}, {id: "b", ip: ip1, added: 2}, {id: "c", ip: ip1, added: 3}}},
			want:  1,
		},
		"two addresses": {
			story: story{lives: []life{
				{id: "a", ip: ip1, added: 1}, {id: "b", ip: ip1, added: 2}, {id: "c", ip: ip2, added: 3}, {id: "d", ip: ip2, added: 4},
			}},
			want: 2,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			step := c.step
			if step == 0 {
				step = 0.1
			}
			if got := c.story.sampled(step, 10).Duplicates(); got != c.want {
				t.Errorf("Duplicates() = %d, want %d", got, c.want)
			}
		})
	}
}

func TestLeaks(t *testing.T) {
	live := []condition{{"n", 0, NodeLive}}
	ended := []life{{id: "a", node: "n", ip: ip1, added: 1, gone: 5}}
	stays := []holding{{sandbox: "a", ip: ip1, from: 1}}
	cases := map[string]struct {
		story     story
		until     float64
		want      int
		undecided int
	}{
		"no entry at all": {until: 30},
		"the entry goes with its sandbox": {
			story: story{ended, []holding{{"a", ip1, 1, 5}}, live}, until: 30,
		},
		"the entry goes within the window": {
			story: story{ended, []holding{{"a", ip1, 1, 24.8}}, live}, until: 30,
		},
		"the entry stays for ever": {
			story: story{ended, stays, live}, until: 30, want: 1,
		},
		"the entry goes after the window": {
			story: story{ended, []holding{{"a", ip1, 1, 25.2}}, live}, until: 30, want: 1,
		},
		"the window is not over yet": {
			story: story{ended, stays, live}, until: 24.8, undecided: 1,
		},
		"its sandbox lives": {
			story: story{[]life{{id: "a", node: "n", ip: ip1, added: 1}}, stays, live}, until: 40,
		},
		"the entry names the successor now": {
			story: story{
				[]life{{id: "a", node: "n", ip: ip1, added: 1, gone: 5}, {id: "b", node: "n", ip: ip1, added: 6}},
				[]holding{{"a", ip1, 1, 6}, {"b", ip1, 6, 0}}, live,
			}, until: 40,
		},
		"the runtime tells no time: the sample that shows the end counts": {
			story: story{[]life{{id: "a", node: "n", ip: ip1, added: 1, gone: 5, unknownTimes: true}}, stays, live},
			until: 30, want: 1,
		},
		"nobody knows the sandbox that the entry names": {
			story: story{nil, stays, live}, until: 40,
		},
		"nobody knows the node": {
			story: story{ended, stays, nil}, until: 40, undecided: 1,
		},
		"a silent node proves nothing": {
			story: story{ended, stays, []condition{{"n", 0, NodeLive}, {"n", 4, NodeUnresponsive}}}, until: 40, undecided: 1,
		},
		"a fenced node: the window begins with the fence": {
			story: story{ended, []holding{{"a", ip1, 1, 34.8}}, []condition{{"n", 0, NodeLive}, {"n", 4, NodeUnresponsive}, {"n", 15, NodeOutOfService}}},
			until: 40,
		},
		"a fenced node: twenty seconds after the fence it is a leak": {
			story: story{ended, stays, []condition{{"n", 0, NodeLive}, {"n", 4, NodeUnresponsive}, {"n", 15, NodeOutOfService}}},
			until: 40, want: 1,
		},
		"a fenced node: the last second before the end of the window": {
			story: story{ended, stays, []condition{{"n", 0, NodeLive}, {"n", 4, NodeUnresponsive}, {"n", 15, NodeOutOfService}}},
			until: 34.8, undecided: 1,
		},
		"a node that comes and goes starts the window anew": {
			story: story{ended, stays, []condition{{"n", 0, NodeLive}, {"n", 8, NodeUnresponsive}, {"n", 9, NodeLive}}},
			until: 28.8, undecided: 1,
		},
		"from live to fenced without a break": {
			story: story{ended, stays, []condition{{"n", 0, NodeLive}, {"n", 8, NodeOutOfService}}},
			until: 25.2, want: 1,
		},
		"an entry that goes and comes back starts the window anew": {
			story: story{ended, []holding{{"a", ip1, 1, 6}, {"a", ip1, 8, 27.5}}, live}, until: 40,
		},
		"an entry that comes back and stays is one leak": {
			story: story{ended, []holding{{"a", ip1, 1, 26}, {"a", ip1, 27, 0}}, live}, until: 50, want: 1,
		},
		"two entries": {
			story: story{
				[]life{{id: "a", node: "n", ip: ip1, added: 1, gone: 5}, {id: "b", node: "n", ip: ip2, added: 1, gone: 6}},
				[]holding{{"a", ip1, 1, 0}, {"b", ip2, 1, 0}}, live,
			}, until: 40, want: 2,
		},
		"the runtime forgets the addresses of the dead": {
			story: story{[]life{{id: "a", node: "n", ip: ip1, added: 1, gone: 5, addressesForgotten: true}}, stays, live},
			until: 30, want: 1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := c.story.sampled(0.1, c.until)
			if got := h.Leaks(); got != c.want {
				t.Errorf("Leaks() = %d, want %d", got, c.want)
			}
			if got := len(h.Undecided()); got != c.undecided {
				t.Errorf("len(Undecided()) = %d, want %d", got, c.undecided)
			}
		})
	}
}

func TestHoldsAndOverlapsCarryTheRuntimesTimes(t *testing.T) {
	h := story{lives: []life{
		{id: "b", node: "n2", ip: ip1, added: 3.25},
		{id: "a", node: "n1", ip: ip1, added: 1.25, stopping: 4.25, gone: 5.75},
	}}.sampled(0.5, 10)
	wantHolds := []Hold{
		{
			IP: ip1, SandboxID: "a", Node: "n1", Pod: "demo/web-0", PodUID: "uid-a",
			From: at(1.25), To: at(5.75), Stopping: at(4.5), WasReady: true,
		},
		{
			IP: ip1, SandboxID: "b", Node: "n2", Pod: "demo/web-0", PodUID: "uid-b",
			From: at(3.25), To: at(10), WasReady: true, Open: true,
		},
	}
	byValue := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if diff := cmp.Diff(wantHolds, h.Holds(), byValue); diff != "" {
		t.Errorf("Holds() (-want +got):\n%s", diff)
	}
	wantOverlaps := []Overlap{{IP: ip1, From: at(3.25), To: at(5.75), First: "a", Second: "b"}}
	if diff := cmp.Diff(wantOverlaps, h.Overlaps(), byValue); diff != "" {
		t.Errorf("Overlaps() (-want +got):\n%s", diff)
	}
}

func TestGaps(t *testing.T) {
	samples := func(seconds ...float64) (h History) {
		for _, s := range seconds {
			h = append(h, Sample{At: at(s)})
		}
		return h
	}
	cases := map[string]struct {
		history History
		want    []Gap
	}{
		"a sample often enough":       {samples(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), nil},
		"no sample at all":            {nil, []Gap{{at(0), at(10)}}},
		"blind at the start":          {samples(3, 4, 5, 6, 7, 8, 9, 10), []Gap{{at(0), at(3)}}},
		"blind in between":            {samples(0, 1, 2, 7, 8, 9), []Gap{{at(2), at(7)}}},
		"blind at the end":            {samples(0, 1, 2, 3, 4, 5, 6), []Gap{{at(6), at(10)}}},
		"blind only before and after": {samples(-9, 0, 2, 4, 6, 8, 10, 20), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.history.Gaps(at(0), at(10), 2*time.Second)); diff != "" {
				t.Errorf("Gaps() (-want +got):\n%s", diff)
			}
		})
	}
}
