// SPDX-License-Identifier: Apache-2.0

package world

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// word is what the agent has to say about a mark: Judge, on the list that it has and what it remembers.
func (m *Model) outcome(s *State, i, k int, me uint8) handshake.Outcome {
	a := &s.Agent[i]
	if !a.View[k].All && !m.isShown(s, i, k, me) {
		return handshake.Outcome{Kind: handshake.NoResponse, Reason: v1alpha1.ReasonNotThisMachine, Message: "the query is to another Node UID, or another boot"}
	}
	q := handshake.Query{SandboxID: boxID(k), RecordUID: s.recordUID(), Seen: now.Add(-time.Second)}
	if !a.View[k].All {
		q.NodeUID = nodeUID(me)
	}
	if !a.Fresh[k] {
		q.Seen = now.Add(time.Second)
	}
	if given := s.Rec.answer(k, me); given != nil && given.Pod != 0 && given.Boot == bootKey(uint8(i), s.Machine[i].Boot) {
		q.Affirmed = podUID(given.Pod)
	}
	settings := handshake.Settings{SandboxCreationMax: delay}
	if m.Off == InFlightOff {
		settings.SandboxCreationMax = 0
	}
	return handshake.Judge(q, handshake.Check(m.listing(s, a, k), agentUID), a.recall(s, k), settings)
}

// recall is what the agent remembers of what a mark asks about.
func (a *Agent) recall(s *State, k int) handshake.Recollection {
	r := handshake.Recollection{}
	for b, phase := range a.List {
		if phase == BoxUnloaded && b != k && !s.Box[b].Second {
			r.Unloaded = boxID(b)
		}
	}
	for b, seen := range a.Seen {
		if seen != 0 && (b == k || (k == anyMark && !s.Box[b].Second)) {
			r.Listed = true
			r.Pod = podFact(seen)
		}
	}
	switch a.Row[k] {
	case RowBegun:
		r.AbsentSince = now.Add(-time.Second)
	case RowLong:
		r.AbsentSince = now.Add(-2 * delay)
	default: // some list shows it, or none was taken
	}
	return r
}

// isShown: the query stands in the agent's own GuardedNode, and is to this boot.
func (m *Model) isShown(s *State, i, k int, me uint8) bool {
	mark := s.Agent[i].View[k]
	query, boot := queryOf(k, mark), bootID(bootKey(uint8(i), s.Machine[i].Boot))
	if m.Off == OtherBoot || m.Off == BySandboxAlone {
		query.BootID = boot
	}
	return (mark.UID == me || m.Off == BySandboxAlone) && handshake.Foreign(query, boot) == ""
}

// listing is the list that the agent has.
func (m *Model) listing(s *State, a *Agent, k int) *handshake.Listing {
	l := &handshake.Listing{Began: now, Ended: now, TellsNamespaces: !m.Scenario.AbsenceOnly, Runtime: "a runtime",
		Sandboxes: []handshake.Sandbox{{ID: "agent", Pod: handshake.Pod{UID: agentUID, Name: "agent"}, State: handshake.StateReady}}}
	for b, phase := range a.List {
		if phase == BoxNone || (m.Off == SuccessorIgnored && b != k) {
			continue
		}
		listed := handshake.Sandbox{ID: boxID(b), Pod: podFact(podOf(s.Box[b]) + 1), State: handshake.StateReady}
		switch phase {
		case BoxUnloaded:
			if l.Tasks.IDs == nil {
				l.Tasks.IDs = map[string]bool{"agent": true}
			}
			l.Tasks.IDs[boxID(b)] = true
			continue
		case BoxOpen:
			listed.State, listed.Network = handshake.StateNotReady, handshake.NamespaceOpen
			if m.Off == NotReadyIsGone {
				listed.Network = handshake.NamespaceClosed
			}
		case BoxClosed:
			listed.State, listed.Network = handshake.StateNotReady, handshake.NamespaceClosed
		default: // it is READY
		}
		l.Sandboxes = append(l.Sandboxes, listed)
	}
	return l
}

func (s *State) recordUID() types.UID {
	switch s.Rec.Kind {
	case RecordOfSecond:
		return secondUID
	case RecordOrphan:
		return ""
	default:
		return firstUID
	}
}
