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

// TestI1I5OnlyProofReleases compares Judge with an independent statement of the proofs, for every combination of a list and a recollection.
func TestI1I5OnlyProofReleases(t *testing.T) {
	all := situations()
	if len(all) < 5000 {
		t.Fatalf("only %d situations", len(all))
	}
	for _, s := range all {
		w := s.judge()
		released := w.Kind == Decided && w.Verdict == v1alpha1.VerdictReadyForRelease
		if released != proven(s) {
			t.Fatalf("proven: %t, and the outcome is %+v: %+v", proven(s), w, s)
		}
		if w.Reason == v1alpha1.ReasonSandboxReplaced && !ended(s) {
			t.Fatalf("said to be replaced without proof that it is gone: %+v", s)
		}
		if w.Kind == NoClaim && !mayPass(s) {
			t.Fatalf("no claim without proof: %+v", s)
		}
	}
}

// mayPass says whether it is proven that this node has nothing to claim.
func mayPass(s situation) bool {
	return s.toAll && neverSeenForLong(s) && !traced(s) && !s.blind && !succeeded(s)
}

// proven restates the sentence of the design.
func proven(s situation) bool { return !s.toAll && !succeeded(s) && ended(s) }

// ended says whether the sandbox itself is proven gone.
func ended(s situation) bool {
	if s.failed != "" || s.early || s.blind || conflicted(s) {
		return false
	}
	mine := slices.IndexFunc(s.listed, func(l Sandbox) bool { return l.ID == id })
	if mine >= 0 {
		return s.stopped(s.listed[mine])
	}
	return !traced(s) && (s.recalled.Listed || s.affirmed != "" || neverSeenForLong(s))
}

// traced says whether a task or a container shows that the sandbox is alive.
func traced(s situation) bool { return s.task || s.stray }

// stopped says whether a sandbox is NOTREADY, without a running container, and its network namespace closed.
func (s situation) stopped(l Sandbox) bool {
	own := s.task && l.ID == id
	return s.reports && l.State == StateNotReady && l.NotExited == 0 && l.Network == NamespaceClosed && !own
}

// related says whether the query concerns the pod UID of the other sandbox.
func related(s situation) bool {
	return s.record == web.UID || s.affirmed == web.UID || s.recalled.Pod.UID == web.UID || slices.ContainsFunc(s.listed, func(l Sandbox) bool { return l.ID == id })
}

// succeeded says whether another sandbox of the pod UID is not gone.
func succeeded(s situation) bool {
	living := slices.ContainsFunc(s.listed, func(l Sandbox) bool { return l.ID != id && l.Pod.UID == web.UID && !s.stopped(l) })
	return len(s.recalled.Unloaded) > 0 || (related(s) || s.disowned == web.UID) && living
}

func neverSeenForLong(s situation) bool {
	return !s.recalled.Listed && s.affirmed == "" && !s.recalled.AbsentSince.IsZero() && start.Sub(s.recalled.AbsentSince) > settings.SandboxCreationMax
}

// conflicted says whether two sandboxes of the pod UID conflict. A situation has at most one other sandbox.
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
	recollections := []Recollection{{}, seen, justAbsent, longAbsent, {Pod: web, Listed: true, Clash: true}, {Pod: web, Listed: true, Unloaded: []string{"c"}}}
	var all []situation
	for flags := range 32 {
		for _, listed := range lists {
			for _, more := range beside {
				for _, recalled := range recollections {
					s := situation{toAll: flags&1 != 0, reports: flags&2 != 0, task: flags&8 != 0, listed: append(slices.Clone(listed), more...), recalled: recalled}
					if flags&4 != 0 {
						s.record, s.affirmed = web.UID, web.UID
					}
					if flags&16 != 0 {
						s.disowned = web.UID
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

// TestAbsenceIsCountedByLists: a random agent lists, fails and pauses. It reports that a sandbox was never listed exactly if an independent
// count over the whole history finds an unbroken sequence of lists that is long enough.
func TestAbsenceIsCountedByLists(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var m Memory
		q := Query{SandboxID: id, NodeUID: node, Seen: start.Add(time.Duration(random.Int64N(int64(5 * time.Minute))))}
		var lists []Listing
		now := start
		for range 200 {
			now = now.Add(time.Duration(random.Int64N(int64(MaxGap + MaxGap/8))))
			look := at(now.Sub(start))
			if random.IntN(20) == 0 {
				look, lists = failure, nil
			} else {
				lists = append(lists, *look.Listing)
			}
			m.Expect([]Query{q})
			m.Observe(look)
			w := Judge(q, look, m.Recall(q), settings)
			if w.Verdict == v1alpha1.VerdictReadyForRelease && !longSequence(lists, q.Seen) {
				t.Fatalf("seed %d: absent for too short a sequence: %v", seed, lists)
			}
			if w.Verdict == v1alpha1.VerdictDoNotRelease && longSequence(lists, q.Seen) {
				t.Fatalf("seed %d: held after a sequence that is long enough: %v", seed, lists)
			}
		}
	}
}

// longSequence goes through the lists backwards from the last one.
func longSequence(lists []Listing, seen time.Time) bool {
	if len(lists) == 0 {
		return false
	}
	last := lists[len(lists)-1]
	first := last
	for i := len(lists) - 2; i >= 0 && !lists[i].Began.Before(seen) && lists[i+1].Began.Sub(lists[i].Ended) <= MaxGap; i-- {
		first = lists[i]
	}
	return last.Began.Sub(first.Ended) > settings.SandboxCreationMax
}

// TestNoResponseCoversAnOpenQuery: queries are made and withdrawn, lists decide some of them, the agent restarts and the machine reboots. A
// response covers no query without an outcome in its boot, loses no claim of a standing query, and is not written again unchanged.
func TestNoResponseCoversAnOpenQuery(t *testing.T) {
	responses := 0
	for seed := range uint64(500) {
		h := &history{random: rand.New(rand.NewPCG(seed, 2)), boot: "boot-0", done: map[string]map[int64]bool{"boot-0": {}}, claimed: map[string]bool{}}
		for step := range 200 {
			h.change()
			if wrong := h.respond(); wrong != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, wrong)
			}
		}
		responses += h.responses
	}
	if responses < 5000 {
		t.Errorf("only %d responses in 500 histories", responses)
	}
}

type history struct {
	random     *rand.Rand
	generation int64
	standing   []Finding
	boot       string
	response   *v1alpha1.AllNodesResponse
	responses  int
	// done are the epochs of the queries with an outcome, by boot, and claimed the sandboxes that a written response claimed.
	done    map[string]map[int64]bool
	claimed map[string]bool
}

func (h *history) change() {
	switch h.random.IntN(8) {
	case 0, 1, 2:
		h.generation++
		h.standing = append(h.standing, Finding{SandboxID: fmt.Sprint("s", h.generation), Epoch: h.generation})
	case 3:
		if len(h.standing) > 0 {
			h.generation++
			at := h.random.IntN(len(h.standing))
			delete(h.claimed, h.standing[at].SandboxID)
			h.standing = append(h.standing[:at:at], h.standing[at+1:]...)
		}
	case 4:
		if h.random.IntN(10) == 0 {
			h.boot = fmt.Sprint("boot-", len(h.done))
			h.done[h.boot] = map[int64]bool{}
		}
	}
}

func (h *history) respond() string {
	queries := AllNodesFindings{UID: "all", Generation: h.generation}
	for _, f := range h.standing {
		f.Outcome = Outcome{Kind: []Kind{NoClaim, Decided, Pending, NoResponse}[h.random.IntN(4)], Reason: v1alpha1.ReasonSandboxOfThisNode}
		if f.Kind == NoClaim || f.Kind == Decided {
			h.done[h.boot][f.Epoch] = true
		}
		queries.Findings = append(queries.Findings, f)
	}
	next, due := queries.Respond(h.response, h.boot, start)
	if !due {
		return ""
	}
	if wrong := h.check(&next); wrong != "" {
		return wrong
	}
	h.response = &next
	h.responses++
	if _, again := queries.Respond(h.response, h.boot, start.Add(time.Minute)); again {
		return fmt.Sprintf("the same findings are written again after %+v", next)
	}
	return ""
}

// check gives the fault of a response; empty if there is none.
func (h *history) check(next *v1alpha1.AllNodesResponse) string {
	for _, f := range h.standing {
		claims := slices.ContainsFunc(next.Claims, func(c v1alpha1.SandboxClaim) bool { return c.SandboxID == f.SandboxID })
		if f.Epoch <= next.Generation && !h.done[h.boot][f.Epoch] && !claims {
			return fmt.Sprintf("generation %d covers %+v, which no list of %s decided", next.Generation, f, h.boot)
		}
		if h.claimed[f.SandboxID] && !claims {
			return fmt.Sprintf("the claim of %s is lost", f.SandboxID)
		}
		h.claimed[f.SandboxID] = claims
	}
	if next.Generation > h.generation || (h.response != nil && h.response.BootID == h.boot && next.Generation < h.response.Generation) {
		return fmt.Sprintf("generation %d of %d after %+v", next.Generation, h.generation, h.response)
	}
	return ""
}
