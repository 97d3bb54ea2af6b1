// SPDX-License-Identifier: Apache-2.0

package nodes

// orphan is what the manager does about a record of unknown node.
func (t *turn) orphan() {
	if t.From.Rec.Exists && t.From.Rec.Orphan && t.From.Rec.UID == 0 {
		t.queryAll()
		if t.From.All.Epoch != 0 {
			t.readOrphan()
		}
	}
	t.removeFromAll()
}

// queryAll puts the query into the AllNodesQuery: its epoch is the generation of that write.
func (t *turn) queryAll() {
	to := t.From
	switch {
	case to.All.Inst == 0:
		to.All = AllNodes{Inst: to.All.Gen + 1, Gen: 1}
		t.Owed(to, t.Say("the manager creates the AllNodesQuery"))
	case to.All.Epoch == 0:
		to.All.Gen++
		to.All.Epoch = to.All.Gen
		t.Owed(to, t.Say("the manager queries every node about the orphan: epoch %d", to.All.Epoch))
	}
}

// readOrphan reads the GuardedNodes; Nodes, Lease, record and pool come after them (R11).
func (t *turn) readOrphan() {
	p := Pass{Kind: PassOrphan}
	now := t.From.live()
	if t.May(LatePass) && t.From.Copy == (Copy{}) {
		to := t.From
		p.Excused = to.excused()
		to.Mgr.Pass, to.Copy = p, *now
		t.Chance(LatePass, to, t.Say("the manager begins to read for the decision about the orphan; the rest takes its time"))
	}
	if what, _, _ := t.m.decide(&t.From, now); what != waits {
		p.Excused = t.From.excused()
		t.decideOrphan(t.From, p, now)
	}
}

// verdict is what is done about an orphan.
type verdict uint8

const (
	waits verdict = iota
	releases
	addresses
)

// decide about the orphan on what the pass read first, and on the rest as it is now.
func (m *Model) decide(s *State, first *Copy) (what verdict, claimant, machine uint8) {
	read := *first
	read.Node, read.Lease, read.All = s.Node, s.Lease, s.All
	switch m.Off {
	case NodesBeforeObjects:
		read.GN, read.Node, read.Lease = s.GN, first.Node, first.Lease
	case RecordBeforeObjects:
		read.GN, read.Lease, read.All = s.GN, first.Lease, first.All
	default:
	}
	if read.All.Epoch == 0 || !m.watched(s, read.Lease) {
		return waits, 0, 0
	}
	claimant, many := m.claimant(&read)
	switch {
	case many || !m.othersWithout(s, &read, claimant):
		return waits, 0, 0
	case claimant == 0:
		return releases, 0, 0
	}
	return addresses, claimant, m.claimedBy(&read.GN[claimant-1])
}

// claimant is the Node whose agent claims the orphan; many: more than one does.
func (m *Model) claimant(read *Copy) (uid uint8, many bool) {
	for u := range read.GN {
		if m.claims(read, uint8(u)+1) {
			uid, many = uint8(u)+1, uid != 0
		}
	}
	return uid, many
}

// claims: the object has a claim to a query of this AllNodesQuery, and no other Node reports the machine that claimed: that one's agent would have
// to claim itself (R6).
func (m *Model) claims(read *Copy, uid uint8) bool {
	g := &read.GN[uid-1]
	if m.Off == ClaimsAmongResponses {
		return g.Response.Epoch == read.All.Epoch && !g.Response.Ready
	}
	return g.Claim && (m.Off == OldClaim || !succeeded(&read.Node, g, uid))
}

// succeeded: another Node reports the machine that claimed.
func succeeded(nodes *[machines]Node, g *GuardedNode, uid uint8) bool {
	now := reporterOf(nodes, machineOf(g.Ack.Boot)).UID
	return now != 0 && now != uid
}

// othersWithout: no machine of any other Node has the sandbox, and each Node is in its object with the machine that it reports.
func (m *Model) othersWithout(s *State, read *Copy, claimant uint8) bool {
	for u := range read.GN {
		if uid := uint8(u) + 1; read.GN[u].Inst != 0 && uid != claimant && !m.without(s, read, uid) {
			return false
		}
	}
	for _, node := range read.Node {
		if node.UID != 0 && !read.GN[node.UID-1].Machine[node.Machine].Known {
			return false
		}
	}
	return true
}

// watched: Nodes were observed for the whole delay, and the watch has come as far as their list, so that each machine that may have the sandbox
// and is not declared dead is in an object (R3).
func (m *Model) watched(s *State, lease Lease) bool {
	if m.Off == OrphanAtOnce || m.Off == SinceAlone {
		return true
	}
	for _, machine := range s.Machine {
		if machine.Seen != 0 && m.Off != LateWatch {
			return false
		}
	}
	if s.Lost && m.Off != LossIgnored {
		return false
	}
	return lease.Acquired >= long && lease.Renewed < long
}

// without: no machine of the object has the sandbox. Each has acknowledged in the boot that the object has, or is gone, or another object speaks for it (R1).
func (m *Model) without(s *State, read *Copy, uid uint8) bool {
	g := read.GN[uid-1]
	for i, machine := range g.Machine {
		if !machine.Known || (m.Off == LifecyclePerNode && g.Top != uint8(i)+1) {
			continue
		}
		node := reporterOf(&read.Node, uint8(i))
		if node.UID == 0 {
			node = Node{Machine: uint8(i), Boot: machine.Boot}
		}
		if acknowledged := m.acknowledged(g.Ack, read.All, node); (node.UID == uid && !acknowledged) || (node.UID == 0 && !acknowledged && !m.gone(s, read, uid, uint8(i))) {
			return false
		}
	}
	return true
}

// acknowledged: the Node's agent compared the query with the runtime of the boot that the Node reports, or reported last.
func (m *Model) acknowledged(ack Ack, all AllNodes, node Node) bool {
	same := ack.Inst == all.Inst || m.Off == NoAllUID
	return same && ack.Gen >= all.Epoch && ack.Boot == bootKey(node.Machine, node.Boot)
}

// decideOrphan is the second half of the pass.
func (t *turn) decideOrphan(to State, p Pass, read *Copy) {
	if rec := to.Rec; (rec.UID != 0 || !rec.Exists) && t.m.Off != RecordBeforeObjects {
		t.Owed(to, t.Say("the manager finds the orphan addressed or released"))
		return
	}
	what, uid, machine := t.m.decide(&to, read)
	switch {
	case to.Released || what == waits:
		t.Owed(to, t.Say("the manager waits with the orphan"))
	case what == releases:
		to.release(p)
		t.Owed(to, t.Say("the manager releases the address of the orphan: every node is without its sandbox"))
	case t.m.Off == RemovedFirst:
		to.All.Gen++
		to.All.Epoch = 0
		to.Mgr.Pass = Pass{Kind: PassAddress, UID: uid, Machine: machine}
		t.Owed(to, t.Say("the manager removes the query from the AllNodesQuery"))
	default:
		t.address(to, uid, machine)
	}
}

// address gives the record the Node of the claim, and the machine in whose boot it was made (R6; R7: first the record).
func (t *turn) address(to State, uid, machine uint8) {
	if to.Rec.Exists && to.Rec.UID == 0 {
		to.Rec.UID, to.Rec.Machine = uid, machine
	}
	t.Owed(to, t.Say("the manager addresses the orphan's record to machine %s of Node U%d, which claims it", name(to.Rec.Machine), uid))
}

// claimedBy is the machine in whose boot the object's claim was made.
func (m *Model) claimedBy(g *GuardedNode) uint8 {
	switch m.Off {
	case ClaimsAmongResponses:
		return machineOf(g.Response.Boot)
	case ClaimOfNewest:
		return g.Top - 1
	default:
		return machineOf(g.Ack.Boot)
	}
}

// removeFromAll: the query is removed when the record is gone, or has a node that is queried itself or whose machine no Node reports (R7: last).
func (t *turn) removeFromAll() {
	rec := t.From.Rec
	if t.From.All.Epoch == 0 || (rec.Exists && rec.UID == 0) {
		return
	}
	if rec.Exists && t.From.gn(rec.UID).Query.Epoch == 0 && t.From.reporter(rec.Machine).UID != 0 {
		return
	}
	to := t.From
	to.All.Gen++
	to.All.Epoch = 0
	t.Owed(to, t.Say("the manager removes the query about the orphan from the AllNodesQuery"))
}
