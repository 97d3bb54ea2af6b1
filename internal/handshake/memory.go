// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"time"
)

const (
	// MaxGap is the longest time between two lists of one row. An agent that was stopped, or a runtime that did not answer, for
	// longer has not watched, and starts again.
	MaxGap = 2 * time.Minute
	// remembered is for how long a sandbox is remembered after it was listed last. To forget one only delays its release by
	// SandboxCreationMax.
	remembered = 24 * time.Hour
)

// Memory is what an agent has seen: which sandbox ID with which pod, and which ID it looked for in vain. The zero value has
// seen nothing. It is not safe for concurrent use.
type Memory struct {
	seen   map[string]*sighting
	absent map[string]*row
}

type sighting struct {
	pod   Pod
	clash bool
	last  time.Time
}

// row is an unbroken row of lists without an ID.
type row struct {
	asked       time.Time
	since, last time.Time
}

// Expect takes the questions that stand now. Rows of absence are kept for them and no others, and count from the first list
// that begins after a question was seen.
func (m *Memory) Expect(questions []Question) {
	rows := make(map[string]*row, len(questions))
	for _, q := range questions {
		known, ok := m.absent[q.SandboxID]
		if !ok {
			known = &row{asked: q.Seen}
		}
		rows[q.SandboxID] = known
	}
	m.absent = rows
}

// Observe takes a look in, after Expect. A failure ends every row.
func (m *Memory) Observe(look Look) {
	if look.Listing == nil {
		for _, r := range m.absent {
			r.since, r.last = time.Time{}, time.Time{}
		}
		return
	}
	l := look.Listing
	listed := make(map[string]bool, len(l.Sandboxes))
	for i := range l.Sandboxes {
		listed[l.Sandboxes[i].ID] = true
		m.see(&l.Sandboxes[i], l.Ended)
	}
	for id, r := range m.absent {
		r.observe(l, listed[id])
	}
	for id, s := range m.seen {
		if l.Ended.Sub(s.last) > remembered {
			delete(m.seen, id)
		}
	}
}

func (m *Memory) see(s *Sandbox, at time.Time) {
	if m.seen == nil {
		m.seen = map[string]*sighting{}
	}
	known, ok := m.seen[s.ID]
	if !ok {
		m.seen[s.ID] = &sighting{pod: s.Pod, last: at}
		return
	}
	known.clash = known.clash || known.pod != s.Pod
	known.last = at
}

func (r *row) observe(l *Listing, listed bool) {
	switch {
	case l.Began.Before(r.asked):
	case listed:
		r.since, r.last = time.Time{}, time.Time{}
	case r.since.IsZero() || l.Began.Sub(r.last) > MaxGap:
		r.since, r.last = l.Ended, l.Ended
	default:
		r.last = l.Ended
	}
}

// Recall is what is remembered of one sandbox ID.
func (m *Memory) Recall(id string) Recollection {
	var found Recollection
	if s, ok := m.seen[id]; ok {
		found.Pod, found.Listed, found.Clash = s.pod, true, s.clash
	}
	if r, ok := m.absent[id]; ok {
		found.AbsentSince = r.since
	}
	return found
}

// Len is the number of sandboxes that are remembered.
func (m *Memory) Len() int { return len(m.seen) }
