// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
)

// Normalize makes states equal whose differences no longer matter.
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
		s.Machine, s.Node, s.Agent, s.Left, s.Acknowledged = [machines]Machine{}, [machines]Node{}, [machines]Agent{}, [chances]uint8{}, [machines]Acknowledgment{}
	}
	if m.Off != ResponseKept && m.Off != BySandboxAlone && s.Rec.Kind != RecordOrphan {
		s.oldResponses()
	}
	s.spent(m)
	s.aliveUnder()
	s.endedOrphan()
	s.epochs()
}

// aliveUnder drops a Node UID that never comes back, or is no further evidence.
func (s *State) aliveUnder() {
	if s.Rec.Alive != 0 && (s.Rec.At == noName || s.Node[s.Rec.At].UID != s.Rec.Alive || s.Rec.End.UID != 0) {
		s.Rec.Alive = 0
	}
}

// endedOrphan drops acknowledgments once not all nodes are queried any more.
func (s *State) endedOrphan() {
	if s.Rec.Kind != RecordOrphan || s.Rec.At != noName {
		s.Acknowledged, s.Ctl.Acknowledged = [machines]Acknowledgment{}, [machines]Acknowledgment{}
	}
}

// oldResponses: of a DoNotRelease to an earlier query only the seen pod and the boot matter, because it releases nothing.
func (s *State) oldResponses() {
	for k := range s.Rec.Response {
		for n := range s.Rec.Response[k] {
			if given := &s.Rec.Response[k][n]; given.Epoch != s.Rec.Query[k].Epoch && !given.Ready {
				*given = Response{Epoch: min(given.Epoch, 1), UID: given.UID, Boot: given.Boot, Pod: given.Pod}
			}
		}
	}
}

// epochs renumbers the epochs of each query: only their order matters.
func (s *State) epochs() {
	for k := range s.Rec.Epochs {
		all := []*uint8{&s.Rec.Epochs[k], &s.Rec.Query[k].Epoch, &s.Rec.Response[k][0].Epoch, &s.Rec.Response[k][1].Epoch,
			&s.Ctl.Query[k].Epoch, &s.Ctl.Response[k][0].Epoch, &s.Ctl.Response[k][1].Epoch, &s.Agent[0].View[k].Epoch, &s.Agent[1].View[k].Epoch}
		if k == 0 {
			for i := range s.Acknowledged {
				all = append(all, &s.Acknowledged[i].Generation, &s.Ctl.Acknowledged[i].Generation)
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

// over: the pod is deleted, and nothing is alive or held, so that no further step is possible.
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

// spent drops the chances that can no longer come.
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

// spentSandboxes: no further sandbox is created.
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
