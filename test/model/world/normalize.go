// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
)

// Normalize makes states equal that differ in nothing that matters any more.
func (m *Model) Normalize(s *State) {
	for i := range s.Agent {
		if a := &s.Agent[i]; !a.Up {
			*a = Agent{Token: a.Token}
		}
		if machine := &s.Machine[i]; !machine.Up {
			*machine = Machine{Name: machine.Name, Boot: machine.Boot}
		}
	}
	if s.Ctl.Stage == StageIdle {
		s.Ctl = Controller{}
	}
	if s.over() {
		s.Machine, s.Node, s.Agent, s.Left, s.Response = [machines]Machine{}, [machines]Node{}, [machines]Agent{}, [chances]uint8{}, [machines]Response{}
	}
	if m.Off != AnswerKept && m.Off != BySandboxAlone && s.Rec.Kind != RecordOrphan {
		s.oldAnswers()
	}
	s.spent(m)
	s.aliveUnder()
	s.settledOrphan()
	s.epochs()
}

// aliveUnder forgets a Node UID that never comes back, or has said what it can.
func (s *State) aliveUnder() {
	if s.Rec.Alive != 0 && (s.Rec.At == noName || s.Node[s.Rec.At].UID != s.Rec.Alive || s.Rec.End.UID != 0) {
		s.Rec.Alive = 0
	}
}

// settledOrphan forgets responses where all nodes are not queried any more.
func (s *State) settledOrphan() {
	if s.Rec.Kind != RecordOrphan || s.Rec.At != noName {
		s.Response, s.Ctl.Response = [machines]Response{}, [machines]Response{}
	}
}

// oldAnswers: what is said in a DoNotRelease to an earlier question gives nothing away, so that all that matters of it is who was seen and
// in which boot.
func (s *State) oldAnswers() {
	for k := range s.Rec.Answer {
		for n := range s.Rec.Answer[k] {
			if given := &s.Rec.Answer[k][n]; given.Epoch != s.Rec.Mark[k].Epoch && !given.Ready {
				*given = Answer{Epoch: min(given.Epoch, 1), UID: given.UID, Boot: given.Boot, Pod: given.Pod}
			}
		}
	}
}

// epochs numbers the epochs of each mark anew: only their order matters.
func (s *State) epochs() {
	for k := range s.Rec.Epochs {
		all := []*uint8{&s.Rec.Epochs[k], &s.Rec.Mark[k].Epoch, &s.Rec.Answer[k][0].Epoch, &s.Rec.Answer[k][1].Epoch,
			&s.Ctl.Mark[k].Epoch, &s.Ctl.Answer[k][0].Epoch, &s.Ctl.Answer[k][1].Epoch, &s.Agent[0].View[k].Epoch, &s.Agent[1].View[k].Epoch}
		if k == 0 {
			for i := range s.Response {
				all = append(all, &s.Response[i].Generation, &s.Ctl.Response[i].Generation)
			}
		}
		renumber(all...)
	}
}

// renumber gives numbers without gaps that have the order of the old ones; 0 stays.
func renumber(all ...*uint8) {
	var used [64]bool
	for _, one := range all {
		used[*one] = true
	}
	var number [len(used)]uint8
	next := uint8(0)
	for old := 1; old < len(used); old++ {
		if used[old] {
			next++
			number[old] = next
		}
	}
	for _, one := range all {
		*one = number[*one]
	}
}

// over: the pod is gone, and nothing lives or is held, so that nothing can come any more.
func (s *State) over() bool {
	if s.Pod.There || s.Second.There || s.Rec.Kind != RecordNone || s.Ctl.Stage != StageIdle {
		return false
	}
	for b, box := range s.Box {
		if box.Phase.live() || s.entryOf(b) >= 0 || (box.Phase != BoxNone && s.Entry[box.Addr].Holder == HolderNone) {
			return false
		}
	}
	return true
}

// spent forgets the chances that cannot come any more.
func (s *State) spent(m *Model) {
	if s.Pod.Deleting || !s.Pod.There {
		s.Left[Force] = 0
	}
	if !m.Scenario.Restarts || s.Pod.Over || !s.Pod.There {
		s.spentSandboxes()
	}
	if s.Pod.Finished || !s.Pod.There {
		s.Left[Forge], s.Left[MissesMaking] = 0, 0
	}
	if !s.Pod.There {
		s.Left[ForgeLife] = 0
	}
	s.spentMachines()
}

// spentSandboxes: no sandbox comes any more.
func (s *State) spentSandboxes() {
	if !s.any(func(b int) bool { return s.Box[b].Phase == BoxReady || s.Box[b].Phase == BoxMaking }) {
		s.Left[SandboxDies], s.Left[HalfMade] = 0, 0
	}
	if !s.any(func(b int) bool { return s.entryOf(b) >= 0 && s.Box[b].Phase.live() }) {
		s.Left[DelLost] = 0
	}
	if !s.any(func(b int) bool { return s.entryOf(b) >= 0 }) {
		s.Left[LateDel] = 0
	}
}

// spentMachines: there is nothing to undo.
func (s *State) spentMachines() {
	is := func(what func(Machine) bool) bool { return slices.ContainsFunc(s.Machine[:], what) }
	s.spend(PowerOn, PowerOff, !s.Machine[0].Up)
	s.spend(Heal, Cut, is(func(machine Machine) bool { return machine.Up && !machine.Linked }))
	s.spend(KubeletThaw, KubeletFreeze, is(func(machine Machine) bool { return machine.Up && !machine.Running }))
	s.spend(UntaintNode, TaintNode, s.Node[0].Taint != 0 || s.Node[1].Taint != 0)
}

// spend: what undoes another chance is of no use where there is nothing to undo and nothing can come to be undone.
func (s *State) spend(undo, what Chance, done bool) {
	if !done && s.Left[what] == 0 {
		s.Left[undo] = 0
	}
}

func (s *State) any(is func(b int) bool) bool {
	for b := range s.Box {
		if is(b) {
			return true
		}
	}
	return false
}
