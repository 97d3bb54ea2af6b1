// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestI1I5OnlyProofReleases goes through every combination of what a list can say of a sandbox and what can be remembered of it,
// and holds the words against a statement of the proofs that is not the code's.
func TestI1I5OnlyProofReleases(t *testing.T) {
	all := situations()
	if len(all) < 5000 {
		t.Fatalf("only %d situations", len(all))
	}
	for _, s := range all {
		w := s.judge()
		released := w.Kind == Answer && w.Verdict == v1alpha1.VerdictReadyForRelease
		if released != proven(s) {
			t.Fatalf("proven: %t, and the word is %+v: %+v", proven(s), w, s)
		}
		if w.Kind == Nothing && !mayPass(s) {
			t.Fatalf("passed over without proof: %+v", s)
		}
	}
}

// mayPass: this node has nothing to claim, and knows that.
func mayPass(s situation) bool {
	return s.toAll && neverSeenForLong(s) && !traced(s) && !s.blind && !succeeded(s)
}

// proven is the design's sentence, in its own words.
func proven(s situation) bool {
	if s.toAll || s.failed != "" || s.early || s.blind || conflicted(s) || succeeded(s) {
		return false
	}
	mine := slices.IndexFunc(s.listed, func(l Sandbox) bool { return l.ID == id })
	if mine >= 0 {
		return s.stopped(s.listed[mine])
	}
	return !traced(s) && (s.recalled.Listed || s.affirmed != "" || neverSeenForLong(s))
}

// traced: something else than the list of sandboxes shows that it lives.
func traced(s situation) bool { return s.task || s.stray }

// stopped: NOTREADY, no running container, the network namespace closed.
func (s situation) stopped(l Sandbox) bool {
	own := s.task && l.ID == id
	return s.tells && l.State == StateNotReady && l.NotExited == 0 && l.Network == NamespaceClosed && !own
}

// related: the pod UID of the situations' other sandbox has to do with the question.
func related(s situation) bool {
	return s.record == web.UID || s.affirmed == web.UID || s.recalled.Pod.UID == web.UID || slices.ContainsFunc(s.listed, func(l Sandbox) bool { return l.ID == id })
}

// succeeded: another sandbox of the pod UID is not gone.
func succeeded(s situation) bool {
	living := slices.ContainsFunc(s.listed, func(l Sandbox) bool { return l.ID != id && l.Pod.UID == web.UID && !s.stopped(l) })
	return s.recalled.Unloaded != "" || related(s) && living
}

func neverSeenForLong(s situation) bool {
	return !s.recalled.Listed && s.affirmed == "" && !s.recalled.AbsentSince.IsZero() && start.Sub(s.recalled.AbsentSince) > settings.SandboxCreationMax
}

// conflicted: the situations contain one other sandbox at most, of the same pod UID.
func conflicted(s situation) bool {
	if s.recalled.Clash {
		return true
	}
	var of []Sandbox
	for _, l := range s.listed {
		if l.Pod.UID == web.UID {
			of = append(of, l)
		}
	}
	return related(s) && len(of) == 2 && (of[0].Pod.Name != of[1].Pod.Name || (of[0].State != StateNotReady && of[1].State != StateNotReady))
}

// situations is the cross product.
func situations() []situation {
	lists := [][]Sandbox{nil}
	for _, state := range []State{0, StateReady, StateNotReady} {
		for _, network := range []Namespace{0, NamespaceOpen, NamespaceClosed} {
			lists = append(lists, one(state, 0, network), one(state, 1, network))
		}
	}
	beside := [][]Sandbox{nil, {{ID: "b", Pod: web, State: StateReady}}, {{ID: "b", Pod: web, State: StateNotReady}},
		{{ID: "b", Pod: web, State: StateNotReady, Network: NamespaceClosed}}, {{ID: "b", Pod: other, State: StateReady}},
		{{ID: "b", Pod: Pod{UID: web.UID, Namespace: "default", Name: "alias"}, State: StateNotReady}}}
	recollections := []Recollection{{}, seen, justAbsent, longAbsent, {Pod: web, Listed: true, Clash: true}, {Pod: web, Listed: true, Unloaded: "c"}}
	var all []situation
	for flags := range 16 {
		for _, listed := range lists {
			for _, more := range beside {
				for _, recalled := range recollections {
					s := situation{toAll: flags&1 != 0, tells: flags&2 != 0, task: flags&8 != 0, listed: append(slices.Clone(listed), more...), recalled: recalled}
					if flags&4 != 0 {
						s.record, s.affirmed = web.UID, web.UID
					}
					early, failed, blind, stray := s, s, s, s
					early.early = true
					failed.failed = v1alpha1.ReasonListFailed
					blind.blind = true
					stray.stray = len(listed) == 0
					all = append(all, s, early, failed, blind, stray)
				}
			}
		}
	}
	return all
}

// TestAbsenceIsCountedByLists lets a random agent list, fail, be stopped for a while and be asked; whenever it says that a
// sandbox was never listed, a second reckoning over the whole history has to find an unbroken row of lists that is long enough.
func TestAbsenceIsCountedByLists(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var m Memory
		q := Question{SandboxID: id, NodeUID: node, Seen: start.Add(time.Duration(random.Int64N(int64(5 * time.Minute))))}
		var row []Listing
		now := start
		for range 200 {
			now = now.Add(time.Duration(random.Int64N(int64(MaxGap + MaxGap/8))))
			look := at(now.Sub(start))
			if random.IntN(20) == 0 {
				look, row = failure, nil
			} else {
				row = append(row, *look.Listing)
			}
			m.Expect([]Question{q})
			m.Observe(look)
			w := Judge(q, look, m.Recall(q), settings)
			if w.Verdict == v1alpha1.VerdictReadyForRelease && !longRow(row, q.Seen) {
				t.Fatalf("seed %d: absent for too short a row: %v", seed, row)
			}
			if w.Verdict == v1alpha1.VerdictDoNotRelease && longRow(row, q.Seen) {
				t.Fatalf("seed %d: held after a row that is long enough: %v", seed, row)
			}
		}
	}
}

// longRow looks at the lists from the last one backwards.
func longRow(row []Listing, seen time.Time) bool {
	if len(row) == 0 {
		return false
	}
	last := row[len(row)-1]
	first := last
	for i := len(row) - 2; i >= 0 && !row[i].Began.Before(seen) && row[i+1].Began.Sub(row[i].Ended) <= MaxGap; i-- {
		first = row[i]
	}
	return last.Began.Sub(first.Ended) > settings.SandboxCreationMax
}

// history is a random course of marks being written, seen by a watch or by a list, and settled in any order.
type history struct {
	random              *rand.Rand
	marks               []*markTruth
	version, view, last uint64
}

// markTruth is a mark with the version at which it was really written, which no agent knows.
type markTruth struct {
	version uint64
	Pending
}

// write writes a mark; its record may be written again before anybody sees it.
func (h *history) write() {
	h.version += 1 + h.random.Uint64N(3)
	h.marks = append(h.marks, &markTruth{version: h.version})
	h.version += h.random.Uint64N(3)
}

// catchUp is a watch, or a list, that brings all that was written.
func (h *history) catchUp() {
	for _, m := range h.marks {
		if m.By == 0 {
			m.After, m.By = h.view, m.version+h.random.Uint64N(h.version-m.version+1)
		}
	}
	h.view = h.version
}

func (h *history) settleOne() {
	if len(h.marks) > 0 {
		m := h.marks[h.random.IntN(len(h.marks))]
		m.Settled = m.By != 0
	}
}

// acknowledge says what is wrong with what is acknowledged; empty if nothing is.
func (h *history) acknowledge() string {
	var pending []Pending
	for _, m := range h.marks {
		if m.By != 0 {
			pending = append(pending, m.Pending)
		}
	}
	said, due := Acknowledge(pending, h.view, h.last)
	if !due {
		return ""
	}
	if said <= h.last || said > h.view {
		return fmt.Sprintf("acknowledged %d after %d with a view of %d", said, h.last, h.view)
	}
	for _, m := range h.marks {
		if m.version <= said && !m.Settled {
			return fmt.Sprintf("acknowledged %d with an open mark of version %d: %+v", said, m.version, m)
		}
	}
	h.last = said
	return ""
}

// TestAnAcknowledgedVersionContainsNoOpenMark holds what is acknowledged against the versions at which the marks were written.
func TestAnAcknowledgedVersionContainsNoOpenMark(t *testing.T) {
	acknowledged := 0
	for seed := range uint64(500) {
		h := &history{random: rand.New(rand.NewPCG(seed, 2))}
		for step := range 200 {
			[]func(){h.write, h.catchUp, h.settleOne}[h.random.IntN(3)]()
			if wrong := h.acknowledge(); wrong != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, wrong)
			}
		}
		if h.last > 0 {
			acknowledged++
		}
	}
	if acknowledged < 100 {
		t.Errorf("only %d of 500 histories acknowledged anything", acknowledged)
	}
}

func TestAcknowledge(t *testing.T) {
	cases := map[string]struct {
		marks      []Pending
		view, last uint64
		want       uint64
	}{
		"no mark: quiet": {nil, 100, 0, 0},
		"a settled mark: up to the view, which is more than the mark":      {[]Pending{{After: 10, By: 12, Settled: true}}, 100, 0, 100},
		"it was acknowledged: quiet":                                       {[]Pending{{After: 10, By: 12, Settled: true}}, 200, 100, 0},
		"an open mark: nothing":                                            {[]Pending{{After: 10, By: 12}}, 100, 0, 0},
		"an open mark that is younger than a settled one: up to before it": {[]Pending{{After: 10, By: 12, Settled: true}, {After: 20, By: 22}}, 100, 0, 20},
		"both came by one list, one is open: nothing":                      {[]Pending{{After: 10, By: 12, Settled: true}, {After: 10, By: 40}}, 100, 0, 0},
		"from the first list, its record written since: nothing":           {[]Pending{{By: 60}, {By: 12, Settled: true}}, 100, 0, 0},
		"what was acknowledged need not be settled again":                  {[]Pending{{By: 12}, {After: 100, By: 110, Settled: true}}, 120, 50, 120},
		"the view is older than what an earlier agent acknowledged: quiet": {[]Pending{{After: 10, By: 12, Settled: true}}, 100, 100, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, due := Acknowledge(tc.marks, tc.view, tc.last)
			if got != tc.want || due != (tc.want > 0) {
				t.Errorf("got %s", fmt.Sprint(got, due))
			}
		})
	}
}
