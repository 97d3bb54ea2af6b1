// SPDX-License-Identifier: Apache-2.0

package nodes

// manager is the leader, and what is left of one that lost the leadership.
func (t *turn) manager() {
	t.lands()
	t.act(&t.From.Old, func(to *State) *Pass { return &to.Old })
	if !t.From.Mgr.Up {
		t.starts()
		return
	}
	if t.May(ManagerCrash) {
		to := t.From
		to.Mgr = Manager{}
		t.Chance(ManagerCrash, to, t.Say("the manager crashes"))
	}
	if pass := t.From.Mgr.Pass; t.May(Depose) && pass.Kind != PassNone && t.From.Old.Kind == PassNone {
		to := t.From
		to.Old, to.Mgr = pass, Manager{}
		t.Chance(Depose, to, t.Say("the manager loses the leadership in the middle of a pass, and does not know it yet"))
	}
	t.cache()
	if t.From.Mgr.Pass.Kind != PassNone {
		t.act(&t.From.Mgr.Pass, func(to *State) *Pass { return &to.Mgr.Pass })
		return
	}
	t.observe()
	t.losses()
	t.worker()
	t.pass()
	t.orphan()
	t.collect()
}

// starts: a manager begins to observe. It does not know which Nodes came and went before, so that every delay begins again (R3).
func (t *turn) starts() {
	to := t.From
	to.Mgr = Manager{Up: true}
	gap := to.Lease.Renewed >= long
	label := t.Say("a manager starts, and resumes the observation")
	resumes := t.m.Off == GapAlone || t.m.Off == ResumedWatch
	if t.m.Off != SinceAlone && (gap || !resumes) {
		to.Lease.Acquired = 0
		label = t.Say("a manager starts, and its observation of Nodes with it")
	}
	to.Lease.Renewed, to.Lost = 0, false
	for i := range to.Machine {
		if t.m.Off == ResumedWatch {
			continue
		}
		to.Machine[i].Seen = to.reporter(uint8(i)).UID // the list shows what is there, and nothing of what was
	}
	t.Owed(to, label)
}

// cache: what the manager has of GuardedNodes is late for a while.
func (t *turn) cache() {
	if t.May(LateCache) && !t.From.Mgr.Stalled && t.From.Copy == (Copy{}) {
		to := t.From
		to.Mgr.Stalled = true
		for u := range to.GN {
			to.Copy.GN[u] = to.GN[u].content()
		}
		t.Chance(LateCache, to, t.Say("the manager's cache of GuardedNodes falls behind"))
	}
	if t.From.Mgr.Stalled {
		to := t.From
		to.Mgr.Stalled = false
		t.Owed(to, t.Say("the manager's cache catches up"))
	}
}

// cached is the object as the manager's cache has it.
func (s *State) cached(uid uint8) GuardedNode {
	if s.Mgr.Stalled {
		return s.Copy.GN[uid-1]
	}
	return s.gn(uid).content()
}

// current: a write with the cached resourceVersion is no conflict (R4).
func (s *State) current(uid uint8) bool { return s.cached(uid) == s.gn(uid).content() }

// write changes an object's spec.
func (g *GuardedNode) write(how func(*GuardedNode)) {
	how(g)
	g.Gen++
}

// create makes the object with its first machine. Gen of one that does not exist is the number of the last one of that name.
func (g *GuardedNode) create(machine, boot uint8) {
	*g = GuardedNode{Inst: g.Gen + 1, Gen: 1, Top: machine + 1}
	g.Machine[machine] = Lifecycle{Known: true, Boot: boot}
}

// observe is a round: one write where an object does not say what Nodes and the writes of kubelets show; the renewal of the Lease if all do. False: there
// is nothing to write.
func (t *turn) observe() bool {
	for _, node := range t.From.Node {
		if node.UID != 0 && t.registration(node) {
			return true
		}
	}
	for u := range uint8(uids) {
		for i := range uint8(machines) {
			if t.lifecycle(u+1, i) {
				return true
			}
		}
	}
	for i := range uint8(machines) {
		if t.liveness(i) {
			return true
		}
	}
	return t.recreate() || t.renew()
}

// losses: an object that another client deleted may have named machines that no record names. They are gone for the delay once the observation
// has begun again and lasted for it (R10).
func (t *turn) losses() {
	if !t.From.Lost {
		return
	}
	to := t.From
	to.Lost = false
	label := t.Say("the manager sees that another client deleted a GuardedNode")
	if t.m.Off != LossIgnored {
		to.Lease.Acquired = 0
		label += t.Say(": its observation begins again")
	}
	t.Owed(to, label)
}

// registration: the object of a Node names the machine that it reports.
func (t *turn) registration(node Node) bool {
	want := Lifecycle{Known: true, Boot: node.Boot}
	g := t.From.gn(node.UID)
	if g.Inst != 0 && g.Top == node.Machine+1 && g.Machine[node.Machine] == want {
		return false
	}
	to := t.From
	if to.Machine[node.Machine].Seen == node.UID && (g.Inst == 0 || to.current(node.UID)) {
		to.Machine[node.Machine].Seen = 0
	}
	switch {
	case g.Inst == 0:
		to.gn(node.UID).create(node.Machine, node.Boot)
		t.Owed(to, t.Say("the manager creates GuardedNode U%d with machine %s", node.UID, name(node.Machine)))
	case !to.current(node.UID):
		return false
	default:
		to.gn(node.UID).write(func(g *GuardedNode) { g.Top, g.Machine[node.Machine] = node.Machine+1, want })
		t.Owed(to, t.Say("the manager writes machine %s, boot %d, first into GuardedNode U%d", name(node.Machine), node.Boot, node.UID))
	}
	return true
}

// lifecycle: the object says whether another Node reports its machine, or none.
func (t *turn) lifecycle(uid, i uint8) bool {
	g := t.From.gn(uid)
	reporter := t.From.reporter(i).UID
	if g.Inst == 0 || !g.Machine[i].Known || reporter == uid || !t.From.current(uid) {
		return false
	}
	old := g.Machine[i]
	want := Lifecycle{Known: true, Boot: old.Boot, Successor: reporter, Gone: reporter == 0}
	if old.Gone && want.Gone {
		want.Since = old.Since
	}
	if old == want {
		return false
	}
	to := t.From
	to.gn(uid).write(func(g *GuardedNode) { g.Machine[i] = want })
	if reporter == 0 {
		t.Owed(to, t.Say("the manager finds no Node of machine %s, and writes so into GuardedNode U%d", name(i), uid))
	} else {
		t.Owed(to, t.Say("the manager finds machine %s in Node U%d, and writes so into GuardedNode U%d", name(i), reporter, uid))
	}
	return true
}

// liveness: a machine without a Node was seen to be alive, so that its delay begins again.
func (t *turn) liveness(i uint8) bool {
	machine := t.From.Machine[i]
	if !machine.Wrote && machine.Seen == 0 {
		return false
	}
	to := t.From
	to.Machine[i].Wrote, to.Machine[i].Seen = false, 0
	absent := to.reporter(i).UID == 0
	for u := range to.GN {
		if g := &to.GN[u]; g.Inst != 0 && g.Machine[i].Gone && absent {
			g.write(func(g *GuardedNode) { g.Machine[i].Since = 0 })
			break // one object is enough, since the youngest counts
		}
	}
	if seen := machine.Seen; seen != 0 && absent {
		to.gn(seen).keep(i, machine.Boot)
	}
	t.Owed(to, t.Say("the manager sees that the kubelet on machine %s wrote or registered meanwhile; its delay begins again", name(i)))
	return true
}

// keep writes a machine that no Node reports into an object that does not name it.
func (g *GuardedNode) keep(machine, boot uint8) {
	switch {
	case g.Inst == 0:
		g.create(machine, boot)
	case g.Machine[machine].Known:
		return
	}
	g.write(func(g *GuardedNode) { g.Machine[machine] = Lifecycle{Known: true, Boot: boot, Gone: true} })
}

// recreate: a record that names a UID without an object gets one, from the machine that it names (R10).
func (t *turn) recreate() bool {
	rec := t.From.Rec
	if t.m.Off == NotRecreated || t.m.Off == MissingIsGone || !rec.Exists || rec.UID == 0 || t.From.gn(rec.UID).Inst != 0 || t.From.registered(rec.UID) {
		return false
	}
	to := t.From
	to.gn(rec.UID).create(rec.Machine, to.Machine[rec.Machine].Boot)
	to.gn(rec.UID).Machine[rec.Machine].Gone = true
	t.Owed(to, t.Say("the manager creates GuardedNode U%d again, with the machine that the record names", rec.UID))
	return true
}

// renew ends a round. After a gap the observation begins again (R3).
func (t *turn) renew() bool {
	if !t.From.observed() || t.From.Lease.Renewed == 0 {
		return false
	}
	to := t.From
	label := t.Say("the manager ends a round, and renews the Lease")
	if to.Lease.Renewed >= long && t.m.Off != SinceAlone {
		to.Lease.Acquired = 0
		label = t.Say("the manager ends a round after a gap: its observation begins again")
	}
	to.Lease.Renewed = 0
	t.Owed(to, label)
	return true
}

// worker writes the query of an object: one that is wanted gets an epoch of its own, one that no record stands for is withdrawn. Each write names
// the resourceVersion (R4).
func (t *turn) worker() {
	for u := range uint8(uids) {
		t.withdraw(u + 1)
	}
	want := t.From.Mgr.Want
	if want.UID == 0 || want.None || t.From.gn(want.UID).Inst == 0 {
		return
	}
	cached := t.From.cached(want.UID)
	if !t.From.current(want.UID) && t.m.Off != EpochFromCache {
		return
	}
	to := t.From
	to.Mgr.Want = Want{}
	to.gn(want.UID).write(func(g *GuardedNode) {
		query := want.Query
		query.Epoch = cached.Gen + 1
		if kept := g.Query; !want.Renew && kept.Epoch != 0 && t.m.keeps(kept, query) {
			query.Epoch = kept.Epoch
		}
		g.Query = query
	})
	t.Owed(to, t.Say("the manager writes a query to GuardedNode U%d: %s", want.UID, to.gn(want.UID).Query))
}

// keeps: the query keeps its epoch, against the rules.
func (m *Model) keeps(old, query Query) bool {
	switch m.Off {
	case EpochKept:
		return old.Boot == query.Boot && old.OutOfService == query.OutOfService
	case OutOfServiceSameEpoch:
		return old.Boot == query.Boot && old.Release == query.Release
	default:
		return false
	}
}

func (t *turn) withdraw(uid uint8) {
	g := t.From.cached(uid)
	want := t.From.Mgr.Want
	unwanted := !t.From.Rec.Exists || t.From.Rec.UID != uid || (want.UID == uid && want.None)
	if g.Inst == 0 || g.Query.Epoch == 0 || !unwanted || !t.From.current(uid) {
		return
	}
	to := t.From
	if want.UID == uid {
		to.Mgr.Want = Want{}
	}
	to.gn(uid).write(func(g *GuardedNode) { g.Query = Query{} })
	t.Owed(to, t.Say("the manager withdraws the query from GuardedNode U%d", uid))
}

// collect deletes an object when no Node of its UID exists, all its machines are gone for good or have a successor, no record names it, and no
// claim in it counts for a standing query.
func (t *turn) collect() {
	for u := range uint8(uids) {
		uid := u + 1
		g := t.From.gn(uid)
		named := t.From.Rec.Exists && t.From.Rec.UID == uid
		claims := t.From.All.Epoch != 0 && t.m.claims(t.From.live(), uid)
		if g.Inst == 0 || t.From.registered(uid) || named || claims || g.Query.Epoch != 0 || !t.over(uid) {
			continue
		}
		t.begin(Pass{Kind: PassDelete, UID: uid, Gen: g.Gen}, t.Say("the manager finds GuardedNode U%d to be of no use any more", uid))
	}
}

// over: no machine of the object is left to it.
func (t *turn) over(uid uint8) bool {
	for i, machine := range t.From.gn(uid).Machine {
		if machine.Known && machine.Successor == 0 && !t.m.gone(&t.From, t.From.live(), uid, uint8(i)) {
			return false
		}
	}
	return true
}

// begin does what was decided, at once or later.
func (t *turn) begin(pass Pass, label string) {
	pass.Excused = t.From.excused()
	to := t.From
	to.Mgr.Pass = pass
	if t.May(LatePass) {
		t.Chance(LatePass, to, label+t.Say("; what follows takes its time"))
	}
	sub := t.m.turn(to, t.Explain, func(step stepOf) { step.Label = label + "; " + step.Label; t.Emit(step) })
	sub.act(&to.Mgr.Pass, func(to *State) *Pass { return &to.Mgr.Pass })
}
