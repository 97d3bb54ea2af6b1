// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// MaxGap is the longest time between two lists of one row. An agent that was stopped, or a runtime that did not answer, for
	// longer has not watched, and starts again.
	MaxGap = 2 * time.Minute
	// remembered is for how long a sandbox is remembered after it was listed last. To forget one only delays its release by
	// SandboxCreationMax.
	remembered = 24 * time.Hour
)

// Memory is what an agent has seen: which sandbox ID with which pod, and what it looked for in vain. The zero value has seen
// nothing. It is not safe for concurrent use.
type Memory struct {
	seen   map[string]*lastSeen
	absent map[wanted]*row
	// unloaded are the sandboxes that are not listed and have a task, or a container that runs, as of the last look: by pod UID.
	unloaded map[types.UID][]string
}

// wanted is what a row of absence is about: one sandbox ID, or every sandbox of a pod UID.
type wanted struct {
	id  string
	pod types.UID
}

func (q Query) wanted() wanted {
	if q.SandboxID == v1alpha1.AnySandbox {
		return wanted{pod: q.RecordUID}
	}
	return wanted{id: q.SandboxID}
}

type lastSeen struct {
	pod   Pod
	clash bool
	last  time.Time
}

// row is an unbroken row of lists without what is wanted.
type row struct {
	asked       time.Time
	since, last time.Time
	// standing: a query is about it now; needed is the end of the last list at which one was.
	standing bool
	needed   time.Time
}

// Expect takes the queries that stand now. Rows of absence are kept for them and no others, and count from the first list
// that begins after a query was seen.
//
// Who is asked about one sandbox of a pod that has ended is asked about every sandbox of it next, once its entry is gone. The row for that
// begins with the first of these queries, and outlives it for a moment, so that the same time is not waited for twice.
func (m *Memory) Expect(queries []Query) {
	if m.absent == nil {
		m.absent = map[wanted]*row{}
	}
	for _, r := range m.absent {
		r.standing = false
	}
	keep := func(what wanted, seen time.Time) {
		if m.absent[what] == nil {
			m.absent[what] = &row{asked: seen}
		}
		m.absent[what].standing = true
	}
	for _, q := range queries {
		keep(q.wanted(), q.Seen)
		if q.Ended && q.NodeUID != "" && q.RecordUID != "" {
			keep(wanted{pod: q.RecordUID}, q.Seen)
		}
	}
	maps.DeleteFunc(m.absent, func(what wanted, r *row) bool { return !r.standing && what.pod == "" })
}

// Observe takes a look in, after Expect. A failure ends every row, and so does a list whose tasks could not be read.
func (m *Memory) Observe(look Look) {
	if look.Listing == nil {
		for _, r := range m.absent {
			r.end()
		}
		return
	}
	l := look.Listing
	present := make(map[wanted]bool, 2*len(l.Sandboxes))
	for i := range l.Sandboxes {
		s := &l.Sandboxes[i]
		m.see(s, l.Ended)
		present[wanted{id: s.ID}] = true
		present[wanted{pod: s.Pod.UID}] = present[wanted{pod: s.Pod.UID}] || !l.gone(s)
	}
	m.findUnloaded(l, present)
	for what, r := range m.absent {
		if r.standing {
			r.needed = l.Ended
		} else if l.Began.Sub(r.needed) > MaxGap {
			delete(m.absent, what)
			continue
		}
		r.observe(l, present[what] || l.Tasks.Problem != "")
	}
	for id, s := range m.seen {
		if l.Ended.Sub(s.last) > remembered {
			delete(m.seen, id)
		}
	}
}

// findUnloaded notes what shows that a sandbox lives which is not listed: its task, or a container of it. A task of an ID that was
// never listed may be a container's.
func (m *Memory) findUnloaded(l *Listing, present map[wanted]bool) {
	m.unloaded = map[types.UID][]string{}
	traces := maps.Clone(l.Tasks.IDs)
	if traces == nil {
		traces = map[string]bool{}
	}
	for id := range l.Strays {
		traces[id] = true
	}
	for id := range traces {
		if present[wanted{id: id}] {
			continue
		}
		present[wanted{id: id}] = true
		pod := l.Tasks.Pods[id]
		if known, seen := m.seen[id]; seen {
			known.last, pod = l.Ended, known.pod.UID
		}
		if pod != "" {
			m.unloaded[pod] = append(m.unloaded[pod], id)
			present[wanted{pod: pod}] = true
		}
	}
}

func (m *Memory) see(s *Sandbox, at time.Time) {
	if m.seen == nil {
		m.seen = map[string]*lastSeen{}
	}
	known, ok := m.seen[s.ID]
	if !ok {
		m.seen[s.ID] = &lastSeen{pod: s.Pod, last: at}
		return
	}
	known.clash = known.clash || known.pod != s.Pod
	known.last = at
}

func (r *row) end() { r.since, r.last = time.Time{}, time.Time{} }

func (r *row) observe(l *Listing, present bool) {
	switch {
	case l.Began.Before(r.asked):
	case present:
		r.end()
	case r.since.IsZero() || l.Began.Sub(r.last) > MaxGap:
		r.since, r.last = l.Ended, l.Ended
	default:
		r.last = l.Ended
	}
}

// Recall is what is remembered of what a query asks about.
func (m *Memory) Recall(q Query) Recollection {
	var found Recollection
	if s, ok := m.seen[q.SandboxID]; ok {
		found.Pod, found.Listed, found.Clash = s.pod, true, s.clash
	}
	if r, ok := m.absent[q.wanted()]; ok {
		found.AbsentSince = r.since
	}
	for _, uid := range q.Pods(found) {
		for _, id := range m.unloaded[uid] {
			if id != q.SandboxID && (found.Unloaded == "" || id < found.Unloaded) {
				found.Unloaded = id
			}
		}
	}
	return found
}

// Len is the number of sandboxes that are remembered.
func (m *Memory) Len() int { return len(m.seen) }
