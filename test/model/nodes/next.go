// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"github.com/holdfast-dev/holdfast/test/model/checker"
)

// turn is one state, of which the steps are wanted.
type turn struct {
	checker.Turn[State, Chance]
	m *Model
}

func (m *Model) turn(s State, explain bool, emit func(checker.Step[State])) *turn {
	return &turn{m: m, Turn: checker.Turn[State, Chance]{Rules: m, From: s, Explain: explain, Emit: emit}}
}

// Next is the steps of every actor.
func (m *Model) Next(s State, explain bool, emit func(checker.Step[State])) {
	if s.Bad != 0 {
		return
	}
	t := m.turn(s, explain, emit)
	for i := range uint8(machines) {
		t.machine(i)
		t.kubelet(i)
		t.agent(i)
	}
	t.administrators()
	t.time()
	t.manager()
}

// Left is how often each chance may still come.
func (m *Model) Left(s *State) []uint8 { return s.Left[:] }

// Normalize makes states equal that differ in nothing that matters any more.
func (m *Model) Normalize(s *State) {
	for i := range s.Agent {
		s.Agent[i].normalize(m.Off)
	}
	if !s.Mgr.Up {
		s.Mgr = Manager{}
	}
	if !s.Mgr.Stalled && s.Mgr.Pass.Kind != PassOrphan && s.Old.Kind != PassOrphan {
		s.Copy = Copy{}
	}
	if s.Released {
		crash, agent, late := s.Left[ManagerCrash], s.Left[AgentCrash], s.Left[LatePass]
		s.Left = [chances]uint8{ManagerCrash: crash, AgentCrash: agent, LatePass: late}
		s.Pod.Alive, s.Pod.Deleting = false, true
	}
	if !s.Rec.Exists {
		s.Mgr.Want = Want{}
	}
	for i := range s.Machine {
		if uint8(i) != s.Pod.Machine || s.Released {
			s.Machine[i].Absent = 0
		}
	}
	s.unobserved()
	s.spent()
}

// unobserved: what no verdict depends on.
func (s *State) unobserved() {
	if !s.observed() {
		s.Lease = Lease{Renewed: long} // the next round finds a gap
	}
	if !s.Rec.Orphan {
		s.Lost = false // the record of a pod names its machine itself
	}
}

func (a *Agent) normalize(off Switch) {
	switch {
	case !a.Up:
		*a = Agent{}
	case a.UID == 0:
		a.View = GuardedNode{}
	}
	if off != FromMemory {
		a.Memory = Ack{}
	}
}

// spent forgets the chances that cannot come any more, or change nothing.
func (s *State) spent() {
	if s.Pod.Deleting {
		s.Left[SandboxAnew], s.Left[Suspect], s.Left[Unsuspect] = 0, 0, 0
	}
	if !s.Pod.Alive && s.Left[SandboxAnew] == 0 {
		s.Left[SandboxDies] = 0
	}
	undo := func(undo, what Chance, done func(Machine) bool) {
		if s.Left[what] == 0 && !done(s.Machine[0]) && !done(s.Machine[1]) {
			s.Left[undo] = 0
		}
	}
	undo(Heal, Cut, func(m Machine) bool { return m.Up && !m.Linked })
	undo(Untaint, Taint, func(Machine) bool { return s.Node[0].Taint || s.Node[1].Taint })
	if s.UIDs == uids {
		s.Left[Register] = 0
	}
}

// observed: a machine is gone, or every node is queried, so that the manager renews the Lease.
func (s *State) observed() bool {
	if s.All.Epoch != 0 {
		return true
	}
	for u := range s.GN {
		for _, machine := range s.GN[u].Machine {
			if machine.Gone {
				return true
			}
		}
	}
	return false
}

// time is what passes.
func (t *turn) time() {
	to := t.From
	for i := range to.Machine {
		if m := &to.Machine[i]; to.reporter(uint8(i)).UID == 0 {
			m.Absent = min(m.Absent+1, long)
		}
	}
	for u := range to.GN {
		for i := range to.GN[u].Machine {
			if f := &to.GN[u].Machine[i]; f.Gone {
				f.Since = min(f.Since+1, long)
			}
		}
	}
	to.Lease = Lease{Acquired: min(to.Lease.Acquired+1, long), Renewed: min(to.Lease.Renewed+1, long)}
	if t.m.Off != OldReads {
		to.Mgr.Pass.late()
		to.Old.late()
	} else {
		to.Mgr.Pass.Excused, to.Old.Excused = false, false
	}
	t.Owed(to, t.Say("two minutes pass"))
	t.releaseDelay()
}

// late: what was read is older than 30 s, and is read again.
func (p *Pass) late() {
	if p.Kind != PassAddress {
		*p = Pass{}
	}
}

// releaseDelay passes after a query to an out-of-service node. An agent that can respond has done so by then.
func (t *turn) releaseDelay() {
	for u := range t.From.GN {
		q := t.From.GN[u].Query
		if q.Epoch == 0 || !q.OutOfService || q.Waited || (t.reachable(uint8(u)+1) && t.responds(uint8(u)+1)) {
			continue
		}
		to := t.From
		to.GN[u].Query.Waited, to.GN[u].Query.Reachable = true, t.reachable(uint8(u)+1)
		t.Owed(to, t.Say("releaseDelay has passed since the query to the out-of-service Node U%d", u+1))
	}
}

// reachable: an agent on the machine that is queried runs and reaches the API server.
func (t *turn) reachable(uid uint8) bool {
	boot := t.From.gn(uid).Query.Boot
	for i, machine := range t.From.Machine {
		if bootKey(uint8(i), machine.Boot) == boot {
			return t.From.connected(uint8(i))
		}
	}
	return false
}

// responds: that agent is about to respond.
func (t *turn) responds(uid uint8) bool {
	g := t.From.gn(uid)
	unreadable := t.From.Machine[t.From.Node[0].Machine].Unreadable && t.m.Off == UnreadableIgnored
	return g.Response.Epoch != g.Query.Epoch && !unreadable
}
