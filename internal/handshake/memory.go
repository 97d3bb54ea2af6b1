// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// MaxGap is the longest time between two lists of one sequence. After a longer gap the sequence begins again.
	MaxGap = 2 * time.Minute
	// remembered is how long a sandbox is remembered after it was last listed. Forgetting it only delays its release by SandboxCreationMax.
	remembered = 24 * time.Hour
)

// Memory is what an agent has seen: each sandbox ID with its pod, and since when a sandbox is absent. The zero value is empty. It is not safe
// for concurrent use.
type Memory struct {
	seen   map[string]*lastSeen
	absent map[subject]*absence
	// unloaded are the sandboxes, by pod UID, that the last look did not list but that have a task or a running container.
	unloaded map[types.UID][]string
}

// subject is one sandbox ID, or every sandbox of a pod UID.
type subject struct {
	id  string
	pod types.UID
}

func (q Query) subject() subject {
	if q.SandboxID == v1alpha1.AnySandbox {
		return subject{pod: q.RecordUID}
	}
	return subject{id: q.SandboxID}
}

type lastSeen struct {
	pod   Pod
	clash bool
	last  time.Time
}

// absence is an unbroken sequence of lists that do not show a subject.
type absence struct {
	// seen is when the first query about the subject was seen: earlier lists do not count.
	seen        time.Time
	since, last time.Time
	// standing: a query is about it now; needed is the end of the last list at which one was.
	standing bool
	needed   time.Time
}

// Expect takes the queries that stand now. Absences are kept for their subjects only, and count from the first list that begins after a
// query was seen.
//
// After a query about one sandbox of a terminated pod, a query about all its sandboxes follows. The absence for that begins with the first
// of these queries, and is kept for MaxGap after it, so that the controller does not wait twice.
func (m *Memory) Expect(queries []Query) {
	if m.absent == nil {
		m.absent = map[subject]*absence{}
	}
	for _, a := range m.absent {
		a.standing = false
	}
	keep := func(what subject, seen time.Time) {
		if m.absent[what] == nil {
			m.absent[what] = &absence{seen: seen}
		}
		m.absent[what].standing = true
	}
	for _, q := range queries {
		keep(q.subject(), q.Seen)
		if q.Ended && q.NodeUID != "" && q.RecordUID != "" {
			keep(subject{pod: q.RecordUID}, q.Seen)
		}
	}
	maps.DeleteFunc(m.absent, func(what subject, a *absence) bool { return !a.standing && what.pod == "" })
}

// Observe takes a look in, after Expect. A failure ends every absence, and so does a list whose tasks could not be read.
func (m *Memory) Observe(look Look) {
	if look.Listing == nil {
		for _, a := range m.absent {
			a.end()
		}
		return
	}
	l := look.Listing
	present := make(map[subject]bool, 2*len(l.Sandboxes))
	for i := range l.Sandboxes {
		s := &l.Sandboxes[i]
		m.see(s, l.Ended)
		present[subject{id: s.ID}] = true
		present[subject{pod: s.Pod.UID}] = present[subject{pod: s.Pod.UID}] || !l.gone(s)
	}
	m.findUnloaded(l, present)
	for what, a := range m.absent {
		if a.standing {
			a.needed = l.Ended
		} else if l.Began.Sub(a.needed) > MaxGap {
			delete(m.absent, what)
			continue
		}
		a.observe(l, present[what] || l.Tasks.Problem != "")
	}
	for id, s := range m.seen {
		if l.Ended.Sub(s.last) > remembered {
			delete(m.seen, id)
		}
	}
}

// findUnloaded finds sandboxes that are not listed but have a task or a running container. A task of an ID that was never listed may be a
// container's.
func (m *Memory) findUnloaded(l *Listing, present map[subject]bool) {
	m.unloaded = map[types.UID][]string{}
	traces := maps.Clone(l.Tasks.IDs)
	if traces == nil {
		traces = map[string]bool{}
	}
	for id := range l.Strays {
		traces[id] = true
	}
	for id := range traces {
		if present[subject{id: id}] {
			continue
		}
		present[subject{id: id}] = true
		pod := cmp.Or(l.Tasks.Pods[id], l.Strays[id].Pod)
		if known, seen := m.seen[id]; seen {
			known.last, pod = l.Ended, known.pod.UID
		}
		if pod != "" {
			m.unloaded[pod] = append(m.unloaded[pod], id)
			present[subject{pod: pod}] = true
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

func (a *absence) end() { a.since, a.last = time.Time{}, time.Time{} }

func (a *absence) observe(l *Listing, present bool) {
	switch {
	case l.Began.Before(a.seen):
	case present:
		a.end()
	case a.since.IsZero() || l.Began.Sub(a.last) > MaxGap:
		a.since, a.last = l.Ended, l.Ended
	default:
		a.last = l.Ended
	}
}

// Recall is what is remembered about the subject of a query.
func (m *Memory) Recall(q Query) Recollection {
	var found Recollection
	if s, ok := m.seen[q.SandboxID]; ok {
		found.Pod, found.Listed, found.Clash = s.pod, true, s.clash
	}
	if a, ok := m.absent[q.subject()]; ok {
		found.AbsentSince = a.since
	}
	for _, uid := range q.Pods(found) {
		for _, id := range m.unloaded[uid] {
			if id != q.SandboxID {
				found.Unloaded = append(found.Unloaded, id)
			}
		}
	}
	slices.Sort(found.Unloaded)
	found.Unloaded = slices.Compact(found.Unloaded) // one UID can be several of the query's
	return found
}

// Len is the number of sandboxes that are remembered.
func (m *Memory) Len() int { return len(m.seen) }
