// SPDX-License-Identifier: Apache-2.0

package nodes

import "github.com/holdfast-dev/holdfast/test/model/checker"

type stepOf = checker.Step[State]

// pass is a pass over the pod's record on live reads: its GuardedNode, then Nodes, the Lease, the pods.
func (t *turn) pass() {
	rec := t.From.Rec
	if !rec.Exists {
		t.adopt()
		return
	}
	if rec.UID == 0 {
		return
	}
	node := t.From.reporter(rec.Machine)
	if t.m.Off == LifecyclePerNode {
		node = t.From.ofUID(rec.UID)
	}
	switch {
	case node.UID != 0 && node.UID != rec.UID && t.m.Off != StoredVerdict:
		to := t.From
		to.Rec.UID = node.UID
		to.Mgr.Want = Want{}
		t.Owed(to, t.Say("the manager re-addresses the record to Node U%d", node.UID))
	case node.UID != 0 && node.UID == rec.UID:
		t.query(node)
	default:
		t.absent()
	}
}

// adopt: the manager records what the pool has of the pod.
func (t *turn) adopt() {
	if t.From.Released || t.From.Rec.Orphan {
		return
	}
	to := t.From
	to.Rec = Record{Exists: true, UID: 1, Machine: to.Pod.Machine}
	t.Owed(to, t.Say("the manager records the pod's address, with Node U1"))
}

func (s *State) ofUID(uid uint8) Node {
	for _, node := range s.Node {
		if node.UID == uid {
			return node
		}
	}
	return Node{}
}

// query: the Node reports the sandbox's machine, so that its agent is queried.
func (t *turn) query(node Node) {
	need := Query{Boot: bootKey(node.Machine, node.Boot), Release: t.From.Pod.Deleting, OutOfService: node.Taint && !node.Ready}
	if !need.Release {
		t.suspects(need)
		return
	}
	t.wants(need)
	g := t.responded(node.UID)
	if g.Inst == 0 || !t.m.stands(g.Query, need) {
		return
	}
	counts := g.Response.Epoch == g.Query.Epoch && (g.Response.Boot == need.Boot || t.m.Off == OtherBoot)
	switch {
	case counts && g.Response.Ready:
		t.begin(Pass{Kind: PassRelease}, t.Say("the manager reads ReadyForRelease to epoch %d of GuardedNode U%d", g.Query.Epoch, node.UID))
	case !counts && need.OutOfService && g.Query.Waited:
		t.begin(Pass{Kind: PassRelease}, t.Say("the manager reads no response of the out-of-service Node U%d", node.UID))
	}
}

// responded is the object, read live for its response (R11).
func (t *turn) responded(uid uint8) GuardedNode {
	live := *t.From.gn(uid)
	if t.m.Off != CachedResponse || !t.From.Mgr.Stalled {
		return live
	}
	cached := t.From.cached(uid)
	cached.Query.Waited = live.Query.Waited && cached.Query.Epoch == live.Query.Epoch
	return cached
}

// stands: the query is the one that is needed.
func (m *Model) stands(q, need Query) bool {
	if q.Epoch == 0 {
		return false
	}
	q.Epoch, q.Waited, q.Reachable = 0, false, false
	switch m.Off {
	case RewriteReleases:
		q.Release = need.Release
	case OtherBoot:
		q.Boot = need.Boot
	case OutOfServiceSameEpoch:
		q.OutOfService = need.OutOfService
	default:
	}
	return q == need
}

// wants gives the worker what is needed, unless the cache shows it.
func (t *turn) wants(need Query) {
	want := Want{UID: t.From.Rec.UID, Query: need}
	if had := t.From.Mgr.Want; had.UID == want.UID && (had.None || had.Renew) {
		want.Renew = t.m.Off != EpochKept
	}
	if g := t.From.cached(want.UID); !want.Renew && t.m.stands(g.Query, need) {
		want = Want{}
	}
	if want != t.From.Mgr.Want {
		to := t.From
		to.Mgr.Want = want
		t.Owed(to, t.Say("the manager wants a query about the sandbox (%s)", need))
	}
}

// suspects: the entry of a pod that lives looks outdated, and then not any more.
func (t *turn) suspects(need Query) {
	standing := t.From.cached(t.From.Rec.UID).Query
	if t.May(Suspect) && standing.Epoch == 0 && t.From.Mgr.Want.UID == 0 {
		to := t.From
		to.Mgr.Want = Want{UID: to.Rec.UID, Query: need}
		t.Chance(Suspect, to, t.Say("the manager suspects that the pod's entry is outdated, and wants a query"))
	}
	if t.May(Unsuspect) && standing.Epoch != 0 {
		to := t.From
		to.Mgr.Want = Want{UID: to.Rec.UID, None: true}
		t.Chance(Unsuspect, to, t.Say("the manager wants no query any more"))
	}
}

// absent: no Node reports the machine. The address is released after the delay, on live reads (R2).
func (t *turn) absent() {
	rec := t.From.Rec
	g := t.From.gn(rec.UID)
	if g.Query.Epoch != 0 && t.From.Mgr.Want.UID == 0 {
		to := t.From
		to.Mgr.Want = Want{UID: rec.UID, None: true}
		t.Owed(to, t.Say("the manager wants no query: no Node reports machine %s", name(rec.Machine)))
	}
	switch {
	case g.Inst == 0:
		if t.m.Off == MissingIsGone {
			t.begin(Pass{Kind: PassRelease}, t.Say("the manager finds no GuardedNode U%d, and takes its machine for gone", rec.UID))
		}
	case t.m.gone(&t.From, t.From.live(), rec.UID, rec.Machine):
		t.begin(Pass{Kind: PassRelease}, t.Say("the manager reads that machine %s has been gone for the delay", name(rec.Machine)))
	}
}

// live is what a pass reads from the API server.
func (s *State) live() *Copy { return &Copy{GN: s.GN, Node: s.Node, Lease: s.Lease, All: s.All} }

// gone: the delay is over since the machine is gone, in every object that names it (R1), and since the observation began (R3); Nodes, Lease and
// pods, read live, show nothing else, and the watch of Nodes has come as far as they (R2, R3).
func (m *Model) gone(s *State, read *Copy, uid, machine uint8) bool {
	if !read.GN[uid-1].Machine[machine].Gone || (read.Lease.Acquired < long && m.Off != SinceAlone) {
		return false
	}
	for u := range read.GN {
		if (uint8(u)+1 == uid || m.Off != OneObject) && read.GN[u].Machine[machine].young() {
			return false
		}
	}
	return m.Off == StoredVerdict || (read.Lease.Renewed < long && !m.alive(s, read, machine))
}

// young: the machine is not gone, or not for the delay.
func (f Lifecycle) young() bool { return f.Known && (!f.Gone || f.Since < long) }

// alive: a Node reports the machine, or did since the watch was last read, or its kubelet wrote something.
func (m *Model) alive(s *State, read *Copy, machine uint8) bool {
	seen := s.Machine[machine].Seen != 0 && m.Off != LateWatch
	reported := reporterOf(&read.Node, machine).UID != 0 && m.Off != LifecyclePerNode
	return s.Machine[machine].Wrote || seen || reported
}

// act does what a pass has decided. The release compares the entry, a deletion UID and resourceVersion.
func (t *turn) act(pass *Pass, of func(*State) *Pass) {
	p := *pass
	to := t.From
	*of(&to) = Pass{}
	switch p.Kind {
	case PassNone:
		return
	case PassRelease:
		if to.Released {
			t.Owed(to, t.Say("the manager finds the address released"))
			return
		}
		to.release(p)
		t.Owed(to, t.Say("the manager releases the address, and deletes the record"))
	case PassDelete:
		label := t.Say("the manager finds that GuardedNode U%d has changed, and keeps it", p.UID)
		if g := to.gn(p.UID); g.Inst != 0 && p.Gen == g.Gen {
			*g = GuardedNode{Gen: g.Inst}
			label = t.Say("the manager deletes GuardedNode U%d", p.UID)
		}
		t.Owed(to, label)
	case PassOrphan:
		t.decideOrphan(to, p, &t.From.Copy)
	case PassAddress:
		t.address(to, p.UID, p.Machine)
	}
}

// release gives the address back. It is wrong if the sandbox is alive and nothing excuses it, neither now nor when the pass read.
func (s *State) release(p Pass) {
	if s.Pod.Alive && !p.Excused && !s.excused() {
		s.Bad = 1
	}
	s.Released = true
	s.Rec = Record{Orphan: s.Rec.Orphan}
}
