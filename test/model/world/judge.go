// SPDX-License-Identifier: Apache-2.0

package world

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// outcome is the outcome of Judge for a query, on the agent's list and memory.
func (m *Model) outcome(s *State, i, k int, me uint8) handshake.Outcome {
	a := &s.Agent[i]
	if !a.View[k].All && !m.isShown(s, i, k, me) {
		return handshake.Outcome{Kind: handshake.NoResponse, Reason: v1alpha1.ReasonNotThisMachine, Message: "the query is to another Node UID, or another boot"}
	}
	q := handshake.Query{SandboxID: boxID(k), RecordUID: s.recordUID(), CreationDone: a.View[k].CreationDone, Seen: now.Add(-time.Second)}
	if !a.View[k].All {
		q.NodeUID = nodeUID(me)
	}
	if !a.Fresh[k] {
		q.Seen = now.Add(time.Second)
	}
	if given := s.Rec.response(k, me); given != nil && given.Pod != 0 && given.Boot == bootKey(uint8(i), s.Machine[i].Boot) {
		q.Affirmed = podUID(given.Pod)
	}
	settings := handshake.Settings{SandboxCreationMax: delay}
	if m.Off == InFlightOff {
		settings.SandboxCreationMax = 0
	}
	return handshake.Judge(q, handshake.Check(m.listing(s, a, k), agentUID), a.recall(s, k), settings)
}

// recall is the agent's memory about the subject of a query.
func (a *Agent) recall(s *State, k int) handshake.Recollection {
	r := handshake.Recollection{}
	for b, phase := range a.List {
		if phase == BoxUnloaded && b != k && !s.Box[b].Second {
			r.Unloaded = append(r.Unloaded, boxID(b))
		}
	}
	for b, seen := range a.Seen {
		if seen != 0 && (b == k || (k == anyQuery && !s.Box[b].Second)) {
			r.Listed = true
			r.Pod = podFact(seen)
		}
	}
	switch a.Absence[k] {
	case AbsenceBegun:
		r.AbsentSince = now.Add(-time.Second)
	case AbsenceLong:
		r.AbsentSince = now.Add(-2 * delay)
	default: // a list shows it, or there is none
	}
	return r
}

// isShown says whether the query is in the agent's own GuardedNode, and to this boot.
func (m *Model) isShown(s *State, i, k int, me uint8) bool {
	query := s.Agent[i].View[k]
	written, boot := queryOf(k, query), bootID(bootKey(uint8(i), s.Machine[i].Boot))
	if m.Off == OtherBoot || m.Off == BySandboxAlone {
		written.BootID = boot
	}
	return (query.UID == me || m.Off == BySandboxAlone) && handshake.Foreign(written, boot) == ""
}

// listing is the list that the agent has.
func (m *Model) listing(s *State, a *Agent, k int) *handshake.Listing {
	l := &handshake.Listing{Began: now, Ended: now, ReportsNamespaces: !m.Scenario.AbsenceOnly, Runtime: "a runtime",
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
