// SPDX-License-Identifier: Apache-2.0

package nodes

// agent is the agent on a machine.
func (t *turn) agent(i uint8) {
	machine, a := t.From.Machine[i], t.From.Agent[i]
	switch {
	case !machine.Up:
		return
	case !a.Up:
		if machine.reaches() {
			to := t.From
			to.Agent[i] = Agent{Up: true, UID: to.reporter(i).UID}
			t.Owed(to, t.Say("the agent on machine %s starts, with a token of Node U%d", name(i), to.Agent[i].UID))
			if t.May(LateView) {
				to.Agent[i].All = AllNodes{Inst: to.All.Inst, Gen: 1}
				t.Chance(LateView, to, t.Say("the agent on machine %s starts, and is shown the AllNodesQuery of generation 1 by a server that is behind", name(i)))
			}
		}
		return
	case t.May(AgentCrash):
		to := t.From
		to.Agent[i] = Agent{}
		t.Chance(AgentCrash, to, t.Say("the agent on machine %s crashes", name(i)))
	}
	if !machine.Linked {
		return
	}
	t.identity(i)
	t.watch(i)
	t.respond(i)
}

// identity: an agent of a Node that does not report its machine any more gets a token of the one that does (R8).
func (t *turn) identity(i uint8) {
	a := t.From.Agent[i]
	now := t.From.reporter(i).UID
	if now == 0 || now == a.UID || (a.UID != 0 && !t.m.outdated(a, i)) {
		return
	}
	to := t.From
	to.Agent[i].UID, to.Agent[i].View = now, GuardedNode{}
	t.Owed(to, t.Say("the agent on machine %s refreshes its identity: Node U%d", name(i), now))
}

// outdated: the object says that its Node does not report this machine any more, or it is gone.
func (m *Model) outdated(a Agent, i uint8) bool {
	machine := a.View.Machine[i]
	outdated := a.View.Inst != 0 && (machine.Gone || machine.Successor != 0)
	switch m.Off {
	case IdentityKept:
		return false
	case IdentityOnWrite:
		return outdated
	default:
		return outdated || a.View.Inst == 0
	}
}

// watch brings an agent what stands now, its own object and the AllNodesQuery each in its own time.
func (t *turn) watch(i uint8) {
	a := t.From.Agent[i]
	if a.UID != 0 && a.View != t.From.gn(a.UID).content() {
		to := t.From
		to.Agent[i].View = to.gn(a.UID).content()
		t.Owed(to, t.Say("the watch shows the agent on machine %s GuardedNode U%d (%s)", name(i), a.UID, to.gn(a.UID).Query))
	}
	if a.All != t.From.All {
		to := t.From
		to.Agent[i].All = to.All
		t.Owed(to, t.Say("the watch shows the agent on machine %s the AllNodesQuery (generation %d, epoch %d)", name(i), to.All.Gen, to.All.Epoch))
	}
}

// respond: the agent lists the runtime and writes what that says about what it sees, where a live read of the Node shows that its token speaks for
// this machine in this boot. The write names the version from which it was made (R9), or comes late.
func (t *turn) respond(i uint8) {
	a, machine := t.From.Agent[i], t.From.Machine[i]
	node := t.From.reporter(i)
	if a.UID == 0 || a.View.Inst == 0 || node.UID != a.UID || (node.Boot != machine.Boot && t.m.Off != OtherBoot) {
		return
	}
	next := t.m.status(&t.From, i)
	if next == a.View.Status {
		return
	}
	to := t.From
	if t.m.Off == FromMemory {
		to.Agent[i].Memory = next.Ack
	}
	if t.May(LateWrite) && to.Late.UID == 0 {
		late := to
		late.Late = Late{UID: a.UID, Base: a.View, Next: next}
		t.Chance(LateWrite, late, t.Say("the agent on machine %s sends for GuardedNode U%d: %s; the write takes its time", name(i), a.UID, next.Response))
	}
	if a.View == to.gn(a.UID).content() {
		to.gn(a.UID).Status = next
		to.Agent[i].View.Status = next
		t.Owed(to, t.Say("the agent on machine %s writes to GuardedNode U%d: %s; acknowledged %d, claim %v", name(i), a.UID, next.Response, next.Ack.Gen, next.Claim))
	}
}

// lands: a status write arrives. One that was made from another version, or for another object of the name, is refused (R4, R9).
func (t *turn) lands() {
	late := t.From.Late
	if late.UID == 0 {
		return
	}
	to := t.From
	to.Late = Late{}
	g := to.gn(late.UID)
	label := t.Say("the late write is refused: GuardedNode U%d is another one by now", late.UID)
	same := g.content() == late.Base
	switch t.m.Off {
	case NoObjectUID:
		same = g.Inst != 0
	case NoVersion:
		same = g.Inst == late.Base.Inst
	default:
	}
	if same {
		g.Status = late.Next
		label = t.Say("the late write arrives at GuardedNode U%d: %s", late.UID, late.Next.Response)
	}
	t.Owed(to, label)
}

// status is what the agent has to say.
func (m *Model) status(s *State, i uint8) Status {
	a, machine := s.Agent[i], s.Machine[i]
	key := bootKey(i, machine.Boot)
	next := a.View.Status
	next.Response = m.response(s, i, key)
	if machine.Unreadable || a.All.Inst == 0 || (m.Off != OldView && a.older()) {
		return next
	}
	has := s.Pod.Alive && s.Pod.Machine == i
	if m.Off == ClaimsAmongResponses {
		return m.merged(s, i, next, has, key)
	}
	if m.Off != FromMemory || !a.remembers(key) {
		next.Claim = a.All.Epoch != 0 && has
	}
	if a.All.Epoch != 0 || m.Scenario.Others {
		next.Ack = Ack{Inst: a.All.Inst, Gen: a.All.Gen, Boot: key}
	}
	return next
}

// older: what it has of the AllNodesQuery is older than what it has acknowledged, and says nothing about claims (R6).
func (a *Agent) older() bool { return a.All.Inst == a.View.Ack.Inst && a.All.Gen < a.View.Ack.Gen }

// remembers: as its memory has it, the agent has compared the query.
func (a *Agent) remembers(boot uint8) bool {
	return a.Memory.Inst == a.All.Inst && a.Memory.Boot == boot && a.All.Epoch <= a.Memory.Gen
}

// response is the one to the object's query. ReadyForRelease is final for its epoch.
func (m *Model) response(s *State, i, key uint8) Response {
	q, given := s.Agent[i].View.Query, s.Agent[i].View.Response
	if q.Epoch == 0 || (q.Boot != key && m.Off != OtherBoot) {
		return Response{}
	}
	if given.Epoch != q.Epoch {
		given = Response{}
	}
	has := s.Pod.Alive && s.Pod.Machine == i
	switch {
	case given.Epoch != 0 && given.Ready:
		return given
	case !s.Machine[i].Unreadable:
		return Response{Epoch: q.Epoch, Boot: q.Boot, Ready: !has}
	case q.OutOfService && m.Off != UnreadableIgnored:
		return Response{Epoch: q.Epoch, Boot: q.Boot}
	}
	return given
}

// merged is the status where claims stand among the responses: one entry about the sandbox, which has an epoch.
func (m *Model) merged(s *State, i uint8, next Status, has bool, key uint8) Status {
	all := s.Agent[i].All
	if all.Epoch == 0 {
		return next
	}
	next.Ack = Ack{Inst: all.Inst, Gen: all.Gen, Boot: key}
	if s.Agent[i].View.Query.Epoch == 0 && has {
		next.Response = Response{Epoch: all.Epoch, Boot: key, Claimed: true}
	}
	return next
}
