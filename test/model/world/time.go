// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"

	"github.com/holdfast-dev/holdfast/internal/release"
)

// time: delays pass. Each delay is an event that is only possible while the assumption of the design about it holds.
func (t *turn) time() {
	t.grace()
	for i := range machines {
		t.absences(i)
	}
	t.queriesWait()
	t.creationEnds()
	t.unchanged()
	t.nodeGone()
}

// grace: the pod's grace period with its slack passes.
func (t *turn) grace() {
	s := &t.From
	if !s.Pod.There || !s.Pod.Deleting || s.Pod.Over {
		return
	}
	for i := range s.Machine {
		if t.early(i) {
			return
		}
	}
	to := t.From
	to.Pod.Over = true
	t.Owed(to, t.Say("the pod's grace period and slack are over"))
}

// early: the design takes it that no grace period is over yet: the kubelet has not seen the deletion; or it makes a sandbox for which
// the pool has an old one's entry (docs/model.md).
func (t *turn) early(i int) bool {
	machine := t.From.Machine[i]
	uninformed := machine.Up && machine.Running && machine.Linked && machine.Name == 0 && !machine.Knows
	return (uninformed && !t.m.Scenario.LateKubelet) || (t.m.Scenario.KeepsID && !t.m.Scenario.LateMaking && t.From.making(i))
}

func (s *State) making(i int) bool {
	for _, box := range s.Box {
		if int(box.Machine) == i && box.Phase == BoxMaking {
			return true
		}
	}
	return false
}

// absences: a sequence of lists gets longer than sandboxCreationMax. None of its sandboxes can be starting any more.
func (t *turn) absences(i int) {
	for k, absence := range t.From.Agent[i].Absence {
		if absence != AbsenceBegun || t.From.isBeingCreated(k) {
			continue
		}
		to := t.From
		to.Agent[i].Absence[k] = AbsenceLong
		to.Agent[i].drop(t.m.Off) // it lists again later
		t.Owed(to, t.Say("for longer than sandboxCreationMax no list on machine %d has shown %s", i, boxID(k)))
	}
}

func (s *State) isBeingCreated(k int) bool {
	for b, box := range s.Box {
		if box.Phase == BoxMaking && (b == k || (k == anyQuery && !box.Second)) {
			return true
		}
	}
	return false
}

// queriesWait: releaseDelay passes after a query. An agent that can respond has done so by then.
func (t *turn) queriesWait() {
	for k, query := range t.From.Rec.Query {
		if query.Epoch == 0 || query.Waited || (!query.All && query.Taint == 0) {
			continue
		}
		dead := !query.All && !t.From.Node[t.From.Rec.At].Ready
		if dead && t.From.lives(query.Boot) && !t.From.hasResponse(k, query) {
			continue // the taint would be wrong
		}
		to := t.From
		to.Rec.Query[k].Waited = true
		t.Owed(to, t.Say("the delay after the query about %s is over", boxID(k)))
	}
}

// creationEnds: a query to all nodes is older than twice sandboxCreationMax, and the controller marks it.
func (t *turn) creationEnds() {
	if query := t.From.Rec.Query[0]; !query.All || !query.Waited || query.CreationDone || t.From.isBeingCreated(0) {
		return
	}
	to := t.From
	to.Rec.Query[0].CreationDone = true
	t.Owed(to, t.Say("sandbox s0 is not being created any more, and the query to all nodes says so"))
}

// lives: that boot of that machine runs.
func (s *State) lives(boot uint8) bool {
	for i, machine := range s.Machine {
		if machine.Up && bootKey(uint8(i), machine.Boot) == boot {
			return true
		}
	}
	return false
}

func (s *State) hasResponse(k int, query Query) bool {
	given := s.Rec.response(k, query.UID)
	return given != nil && given.Epoch == query.Epoch
}

// unchanged: an entry stands for longer than sandboxCreationMax. It is only looked at of a pod that its kubelet finished.
func (t *turn) unchanged() {
	pod := t.From.subject()
	for b, slot := range t.From.Rec.Slot {
		if !slot.Known || slot.Long || !pod.Finished || t.From.entryOf(b) < 0 || t.From.Box[b].Phase == BoxMaking || t.m.unstopped(&t.From, b) {
			continue
		}
		to := t.From
		to.Rec.Slot[b].Long = true
		t.Owed(to, t.Say("the entry of sandbox s%d has stood unchanged for longer than sandboxCreationMax", b))
	}
}

// unstopped is an assumption (docs/model.md): a sandbox that its kubelet did not list when it reported the end is listed, and stopped, by then.
func (m *Model) unstopped(s *State, b int) bool {
	return m.Scenario.Chances[MissesMaking] > 0 && s.Box[b].Phase.live()
}

// nodeGone: nodeGoneDelay passes without a sign that its machine is alive. A machine that runs gives one, so that the deletion of its Node was wrong.
func (t *turn) nodeGone() {
	rec := &t.From.Rec
	if rec.Kind == RecordNone || rec.Gone || rec.At == noName {
		return
	}
	away := t.From.away()
	absent := t.From.Node[rec.At].UID == 0
	if (!absent && len(away) == 0) || t.signOfLife(absent, away) {
		return
	}
	to := t.From
	to.Rec.Gone = true
	t.Owed(to, t.Say("the Node of the recorded machine has been gone for nodeGoneDelay without a sign that its machine is alive"))
}

// signOfLife: a recorded machine gives one, or the pod shows what counts as one of its kubelet.
func (t *turn) signOfLife(absent bool, away []uint8) bool {
	if absent && release.SignOfLife(t.From.Pod.object(), t.m.judgedSince(ForgedLife)) != nil {
		return true
	}
	for i, machine := range t.From.Machine {
		recorded := slices.Contains(away, uint8(i)) || (absent && machine.Name == t.From.Rec.At)
		if recorded && t.From.signals(machine) {
			return true
		}
	}
	return false
}

// signals: a machine that runs without its Node gives a sign that it is alive, unless only a forger wrote that it was replaced.
func (s *State) signals(machine Machine) bool {
	return machine.Up && (!s.Node[machine.Name].Forged || (machine.Linked && machine.Running))
}

// away are the machines of recorded sandboxes that the Node is not any more.
func (s *State) away() []uint8 {
	var away []uint8
	node := s.Node[s.Rec.At]
	for b, slot := range s.Rec.Slot {
		if slot.Known && slot.Ident.UID != 0 && s.entryOf(b) >= 0 && (node.UID == 0 || node.shown().Machine != slot.Ident.Machine) {
			away = append(away, slot.Ident.Machine)
		}
	}
	return away
}
