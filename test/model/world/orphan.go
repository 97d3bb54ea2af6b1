// SPDX-License-Identifier: Apache-2.0

package world

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// adopt makes the record of what a pool holds: the owner's, or an orphan's.
func (t *turn) adopt() {
	s := &t.From
	for b := range s.Box {
		if s.entryOf(b) < 0 {
			continue
		}
		owned := t.m.owner(s, b) != v1alpha1.AttributionNone
		switch {
		case owned && (s.Box[b].Second || t.m.Off == ByName) && s.Second.There:
			t.adoptFor(RecordOfSecond, 1, b)
		case !owned && !s.Box[b].Second && t.m.Scenario.Orphan:
			t.adoptFor(RecordOrphan, noName, b)
		}
	}
}

func (t *turn) adoptFor(kind Kind, at uint8, b int) {
	to := t.From
	to.Rec = Record{Kind: kind, At: at}
	if kind == RecordOrphan {
		to.Rec.Slot[b].Known = true
		t.Owed(to, t.Say("the controller records sandbox s%d as an orphan", b))
		return
	}
	t.m.record(&to)
	t.Owed(to, t.Say("the controller records the entries with the second pod's name as the second pod's"))
}

// passOrphan reads the responses with their claims, then the Nodes, the record and the pools. Without a response to the standing query nothing can be
// outdated, and all is one step.
func (t *turn) passOrphan() {
	to := t.From
	to.Ctl = Controller{Stage: StageRead, Acknowledged: t.From.Acknowledged, Response: t.From.Rec.Response}
	if !t.From.responded() {
		t.decideOrphan(to)
		return
	}
	t.Owed(to, t.Say("the controller reads what the agents have responded"))
}

// responded says whether the response of a node may count.
func (s *State) responded() bool {
	for _, ack := range s.Acknowledged {
		if query := s.Rec.Query[0]; query.Epoch != 0 && ack.UID != 0 && ack.Generation >= query.Epoch {
			return true
		}
	}
	return false
}

func (t *turn) decideOrphan(to State) {
	facts := t.m.orphanFacts(&to)
	d := orphan.Decide(facts, now)
	to.Ctl = Controller{}
	label := t.Say("the controller reads Nodes, record and pools: orphan row %s, %s (%s)", d.Row, d.Action, d.Reason)
	switch d.Action {
	case orphan.QueryAll:
		to.Rec.Epochs[0]++
		to.Rec.Query[0] = Query{Epoch: to.Rec.Epochs[0], All: true}
	case orphan.Address:
		to.address(d.Claim.NodeUID)
	case orphan.Release:
		to.plan(StageRelease, sight{entry: to.Entry}, release.Decision{Sandboxes: []string{boxID(0)}})
	case orphan.Drop:
		to.Rec = Record{}
	default: // it waits
	}
	t.Owed(to, label)
}

// address writes the node that has claimed it into the record, with the machine of the claim if a live read still shows it.
func (s *State) address(uid types.UID) {
	for name, node := range s.Node {
		given := s.Rec.response(0, node.UID)
		if node.UID == 0 || nodeUID(node.UID) != uid || given == nil {
			continue
		}
		s.Rec.At = uint8(name)
		s.Rec.Query[0] = Query{}
		if given.Boot == bootKey(node.Machine, node.Boot) {
			s.Rec.Slot[0].Ident = node.Ident
		}
	}
}

// allUID is the UID of the AllNodesQuery.
const allUID = "all"

// orphanFacts are what a live pass has read.
func (m *Model) orphanFacts(s *State) orphan.Facts {
	f := orphan.Facts{Evidence: release.EvidenceAgent, Live: true, Owner: ownership.KindSandbox, Entries: release.Absent[orphan.Entries](), HasCapacity: true,
		Record: release.Known(orphan.Record{Claims: s.claims()}), Shown: release.Absent[string](), Rival: release.Absent[string](),
		Nodes: release.Known(m.inventory(s)), Settings: release.Settings{ReleaseDelay: delay, NodeGoneDelay: delay}}
	if s.entryOf(0) >= 0 {
		f.Entries = release.Known(orphan.Entries{Since: now.Add(-2 * delay)})
	}
	if query := s.Rec.Query[0]; query.Epoch != 0 {
		f.Query = orphan.Query{UID: allUID, Epoch: int64(query.Epoch), Since: now}
		if query.Waited {
			f.Query.Since = now.Add(-2 * delay)
		}
	}
	return f
}

func (s *State) claims() []orphan.Claim {
	var claims []orphan.Claim
	for _, given := range s.Ctl.Response[0] {
		if given.Epoch == 0 {
			continue
		}
		claim := orphan.Claim{NodeUID: nodeUID(given.UID), Pod: release.Absent[string]()}
		for name, node := range s.Node {
			if node.UID == given.UID {
				claim.NodeName, claim.Live = nodeName(uint8(name)), true
			}
		}
		claims = append(claims, claim)
	}
	return claims
}

// inventory is all Nodes that were ever seen.
func (m *Model) inventory(s *State) []orphan.Node {
	var nodes []orphan.Node
	for name, node := range s.Node {
		if m.Off == OnlyReadyNodes && !node.Ready {
			continue
		}
		n := orphan.Node{Name: nodeName(uint8(name)), Live: release.Absent[release.Node](), GoneSince: release.Absent[time.Time](),
			Acknowledged: release.Absent[orphan.Acknowledgement]()}
		if node.UID != 0 {
			live := m.node(s, node)
			n.Live, n.UID, n.BootID = release.Known(live), live.NodeUID, live.BootID
		}
		if ack := s.Ctl.Acknowledged[name]; ack.UID != 0 && ack.UID == node.UID {
			n.Acknowledged = release.Known(orphan.Acknowledgement{UID: allUID, Generation: int64(ack.Generation), BootID: bootID(ack.Boot)})
		}
		nodes = append(nodes, n)
	}
	return nodes
}
