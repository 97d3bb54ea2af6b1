// SPDX-License-Identifier: Apache-2.0

package world

import (
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// sight is what a pass has read.
type sight struct {
	live     bool
	query    [queries]Query
	response [queries][2]Response
	node     [machines]Node
	pod      Pod
	entry    [boxes]Entry
}

// controller is the controller. Its passes are reads and writes between which any other step may happen.
func (t *turn) controller() {
	s := &t.From
	if t.May(ControllerCrash) && s.Ctl != (Controller{}) {
		to := t.From
		to.Ctl = Controller{}
		t.Chance(ControllerCrash, to, t.Say("the controller crashes, and another one starts"))
	}
	switch {
	case s.Ctl.Stage == StageIdle:
		t.pass()
	case s.Ctl.Stage == StageRead && s.Rec.Kind == RecordOrphan && s.Rec.At == noName:
		t.decideOrphan(t.From)
	case s.Ctl.Stage == StageRead:
		t.decide(t.From, t.fresh(s.Ctl.Query, s.Ctl.Response))
	case s.Ctl.Stage == StageCached:
		c := &s.Ctl
		t.decide(t.From, sight{query: c.Query, response: c.Response, node: c.Node, pod: c.Pod, entry: c.Entry})
	default:
		t.act()
	}
}

// fresh reads the Node and the pools live, after the record.
func (t *turn) fresh(query [queries]Query, response [queries][2]Response) sight {
	return sight{live: true, query: query, response: response, node: t.From.Node, pod: *t.From.subject(), entry: t.From.Entry}
}

// promised says whether a response in the record leads to a release or a rewrite.
func (s *State) promised() bool {
	for k := range s.Rec.Response {
		for _, given := range s.Rec.Response[k] {
			if given.Epoch != 0 && (given.Ready || given.Next != 0) {
				return true
			}
		}
	}
	return false
}

// subject is the pod whose record it is.
func (s *State) subject() *Pod {
	if s.Rec.Kind == RecordOfSecond {
		return &s.Second
	}
	return &s.Pod
}

// pass begins a pass.
func (t *turn) pass() {
	s := &t.From
	if s.Rec.Kind == RecordNone {
		t.adopt()
		return
	}
	if s.Rec.Kind == RecordOrphan && s.Rec.At == noName {
		t.passOrphan()
		return
	}
	if t.May(CachedPass) {
		to := t.From
		to.Ctl = Controller{Stage: StageCached, Query: s.Rec.Query, Response: s.Rec.Response, Node: s.Node, Pod: *s.subject(), Entry: s.Entry}
		t.Chance(CachedPass, to, t.Say("the controller looks at what its caches show"))
	}
	if !s.promised() {
		t.decide(t.From, t.fresh(s.Rec.Query, s.Rec.Response)) // no response that may be outdated releases anything
		return
	}
	to := t.From
	to.Ctl = Controller{Stage: StageRead, Query: s.Rec.Query, Response: s.Rec.Response}
	t.Owed(to, t.Say("the controller reads the record with its responses"))
}

// decide reads the rest, updates the record, and does or plans the decision.
func (t *turn) decide(to State, v sight) {
	to.Ctl.Stage = StageIdle
	if v.live {
		t.m.record(&to)
	}
	observation := t.m.observe(&to, v)
	d := release.Decide(observation, now)
	read := "the controller reads Node and pools: "
	if !v.live {
		read = "the controller decides on its caches: "
	}
	label := t.Say("%srow %s, %s %v (%s)", read, d.Row, d.Action, d.Sandboxes, d.Reason)
	if d.Readdress && v.live {
		to.readdress()
		t.Owed(to, t.Say("%s: the record follows to the new Node UID", label))
		return
	}
	to.follow(d, v)
	t.Owed(to, label)
}

// follow does or plans what was decided.
func (s *State) follow(d release.Decision, v sight) {
	switch d.Action {
	case release.Confirm:
		if v.query == s.Rec.Query && v.response == s.Rec.Response { // else the write is a conflict
			s.queryNode(d, v.node[s.Rec.At], v.pod.There && !v.pod.Deleting)
		}
	case release.Release:
		s.plan(StageRelease, v, d)
	case release.Rewrite:
		s.plan(StageRewrite, v, d)
	case release.Unprotect:
		s.Ctl.Stage = StageUnprotect
	case release.Keep:
		if v.live && !d.Queried && v.query == s.Rec.Query {
			s.Rec.Query = [queries]Query{}
		}
	default: // it waits
	}
}

// record writes down each sandbox that a pool shows, with the machine that a live read of the Node gives, unless that Node object is
// younger than the pod.
func (m *Model) record(s *State) {
	for b := range s.Box {
		slot := &s.Rec.Slot[b]
		if slot.Known || s.entryOf(b) < 0 {
			continue
		}
		if m.owner(s, b) == v1alpha1.AttributionNone {
			continue
		}
		s.Rec.Some = s.Rec.Some || s.missed(b)
		*slot = Slot{Known: true}
		if node := s.Node[s.Rec.At]; node.UID == boundUID(s.Rec.At) || (m.Off == IdentityPerPod && node.UID != 0) {
			slot.Ident = node.shown()
		}
	}
	m.recordEnd(s)
}

// missed: an earlier sandbox of the pod had the address, and is not recorded.
func (s *State) missed(b int) bool {
	return b > 0 && !s.Box[b-1].Second && s.Box[b-1].Addr == s.Box[b].Addr && !s.Rec.Slot[b-1].Known
}

// recordEnd records the machine whose kubelet terminated the pod, if the present Node shows it and the pool has an entry for it.
func (m *Model) recordEnd(s *State) {
	pod := s.subject()
	if !pod.Finished || s.Rec.End.UID != 0 || s.Rec.At == noName || !s.held() {
		return
	}
	node := s.Node[s.Rec.At]
	switch {
	case m.Off == ReplacementTrusted:
		s.Rec.End = s.Rec.Slot[0].Ident
	case node.UID != 0 && release.EndedUnder(s.podFacts(*pod), m.node(s, node)):
		s.Rec.End = node.shown()
	}
}

// boundUID is the Node UID of a name when the pods were bound.
func boundUID(name uint8) uint8 { return name + 1 }

// queryNode writes queries with the next epochs.
func (s *State) queryNode(d release.Decision, node Node, living bool) {
	for _, id := range d.Sandboxes {
		k := queryIndex(id)
		s.Rec.Epochs[k]++
		query := Query{Epoch: s.Rec.Epochs[k], UID: node.UID, Boot: bootKey(node.shown().Machine, node.Boot), Living: living}
		if d.OutOfService {
			query.Taint, query.Early = node.Taint, node.Ready
		}
		s.Rec.Query[k] = query
	}
}

// readdress: the record follows a machine to its new Node UID.
func (s *State) readdress() {
	node := s.Node[s.Rec.At]
	for b := range s.Rec.Slot {
		slot := &s.Rec.Slot[b]
		if slot.Ident.UID != 0 && release.Compare(machineOf(slot.Ident), machineOf(node.shown())) == release.Reregistered {
			slot.Ident.UID = node.UID
		}
	}
	s.Rec.Gone = false
	if pod := s.subject(); pod.There && !pod.Finished {
		s.Rec.Alive = node.UID
	}
}

// plan notes the entries as they were read.
func (s *State) plan(stage Stage, v sight, d release.Decision) {
	c := Controller{Stage: stage}
	for _, id := range d.Sandboxes {
		b := queryIndex(id)
		for addr := range v.entry {
			if int(v.entry[addr].Holder) == b+1 {
				c.Keys[addr], c.Next[addr] = uint8(b+1), boxIndex(d.Successors[id])
			}
		}
	}
	s.Ctl = c
}

// act does what was decided. Each write compares.
func (t *turn) act() {
	to := t.From
	c := t.From.Ctl
	to.Ctl = Controller{}
	var label string
	switch c.Stage {
	case StageUnprotect:
		label = t.Say("the controller removes the finalizer: the pod and its record are deleted")
		*to.subject() = Pod{}
		to.Rec = Record{}
	default:
		label = t.Say("the controller finds the pool changed, and writes nothing")
		for addr, key := range c.Keys {
			entry := &to.Entry[addr]
			if key == 0 || entry.Holder == HolderNone || (entry.Holder != key && t.m.Off != NoCompare) {
				continue
			}
			label = t.Say("the controller releases address %d (%s)", addr, t.From.holder(addr))
			if c.Stage == StageRewrite {
				label = t.Say("the controller gives the entry of address %d to sandbox s%d", addr, c.Next[addr]-1)
			}
			entry.Holder = c.Next[addr]
		}
	}
	t.Owed(to, label)
}
