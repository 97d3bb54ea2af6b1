// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
)

// runs says whether the pod of a sandbox is the machine's to run: PodGC and kubelets compare names only.
func (s *State) runs(i int, second bool) bool {
	pod, name := &s.Pod, uint8(0)
	if second {
		pod, name = &s.Second, 1
	}
	return pod.There && s.Machine[i].Name == name && s.Machine[i].Up && s.Machine[i].Running
}

// informed: the kubelet has seen the deletion.
func (s *State) informed(i int, second bool) bool {
	if second {
		return s.Second.Deleting
	}
	return s.Machine[i].Knows
}

// kubelet is the kubelet of one machine.
func (t *turn) kubelet(i int) {
	machine := t.From.Machine[i]
	if !machine.Up || !machine.Running {
		return
	}
	if machine.Linked && machine.Name == 0 && !machine.Knows && t.From.Pod.Deleting {
		to := t.From
		to.Machine[i].Knows = true
		t.Owed(to, t.Say("the kubelet on machine %d sees that the pod is being deleted", i))
	}
	t.begin(i)
	for b := range boxes {
		t.stop(i, b)
	}
	t.finish(i)
}

// begin: the kubelet makes the pod a sandbox where it has none that is alive. CNI ADD records the address first.
func (t *turn) begin(i int) {
	s := &t.From
	next := slices.IndexFunc(s.Box[:], func(box Box) bool { return box.Phase == BoxNone })
	if next < 0 || !t.begins(i) || s.left(i, false) || (next > 0 && !t.m.Scenario.Restarts) {
		return
	}
	to := t.From
	addr := t.add(&to, i, next)
	to.Box[next] = Box{Phase: BoxMaking, Machine: uint8(i), Boot: s.Machine[i].Boot, Addr: addr}
	t.Owed(to, t.Say("the kubelet on machine %d begins sandbox s%d of the pod: CNI ADD gives it address %d (%s)", i, next, addr, to.holder(int(addr))))
}

// begins: the kubelet works on the pod, and does not know that it is being deleted.
func (t *turn) begins(i int) bool {
	s := &t.From
	late := s.Pod.Over && !t.m.Scenario.LateKubelet
	registered := s.Node[0].UID != 0 && int(s.Node[0].Machine) == i
	return registered && s.runs(i, false) && s.Machine[i].Linked && !s.Machine[i].Knows && !late
}

// add is the IPAM's ADD: an entry of the pod's name in the pool wins; otherwise an address that is free.
func (t *turn) add(s *State, i, next int) uint8 {
	for addr := range s.Entry {
		holder := int(s.Entry[addr].Holder) - 1
		if holder < 0 || holder >= boxes || s.Box[holder].Second {
			continue
		}
		if t.m.Scenario.PoolPerNode && int(s.Box[holder].Machine) != i {
			continue
		}
		if !t.m.Scenario.KeepsID {
			s.Entry[addr].Holder = uint8(next + 1)
		}
		return uint8(addr)
	}
	addr := next
	if s.Entry[0].Holder == HolderNone && !t.m.Scenario.PoolPerNode {
		addr = 0
	}
	s.Entry[addr].Holder = uint8(next + 1)
	return uint8(addr)
}

// stop: the kubelet stops what is dead or is to end: CNI DEL, then the namespace; the runtime removes it later.
func (t *turn) stop(i, b int) {
	box := t.From.Box[b]
	if int(box.Machine) != i || !t.From.runs(i, box.Second) {
		return
	}
	ending := t.From.informed(i, box.Second)
	switch box.Phase {
	case BoxReady:
		if ending {
			to := t.From
			to.Box[b].Phase = BoxOpen
			t.Owed(to, t.Say("the kubelet on machine %d begins to stop sandbox s%d", i, b))
		}
	case BoxOpen:
		t.del(i, b)
	case BoxClosed:
		to := t.From
		to.Box[b].Phase = BoxAbsent
		t.Owed(to, t.Say("the runtime on machine %d removes sandbox s%d", i, b))
		if held := to.entryOf(b); held >= 0 && t.May(LateDel) && t.From.Machine[i].Linked {
			to.Entry[held].Holder = HolderNone
			t.Chance(LateDel, to, t.Say("the runtime on machine %d removes sandbox s%d, and calls CNI DEL again: the pool's entry is removed", i, b))
		}
	default: // there is nothing to stop
	}
}

// refusesDel: with agents a CNI DEL passes only where the record has every sandbox of the pod that had an address, and the address for no other.
func (m *Model) refusesDel(s *State, b int) bool {
	if m.Scenario.NoAgents || m.Off == UnseenIgnored || s.Box[b].Second || s.Rec.Kind != RecordOfPod {
		return false
	}
	other := 1 - b
	return !s.Rec.Slot[b].Known || s.Rec.Some || (s.Rec.Slot[other].Known && s.Box[other].Addr == s.Box[b].Addr)
}

// del is the end of a sandbox's network. The pool's entry goes, if it is this sandbox's; where the call to the API server is lost, it stays.
func (t *turn) del(i, b int) {
	to := t.From
	to.Box[b].Phase = BoxClosed
	held := to.entryOf(b)
	if held >= 0 && !to.Machine[i].Linked {
		t.Owed(to, t.Say("the kubelet on machine %d stops sandbox s%d; CNI DEL does not reach the pool", i, b))
		return
	}
	if held >= 0 && t.May(DelLost) {
		t.Chance(DelLost, to, t.Say("the kubelet on machine %d stops sandbox s%d; CNI DEL fails, without an error", i, b))
	}
	if held >= 0 && t.m.refusesDel(&to, b) {
		t.Owed(to, t.Say("the kubelet on machine %d stops sandbox s%d; CNI DEL is refused", i, b))
		return
	}
	if held >= 0 {
		to.Entry[held].Holder = HolderNone
	}
	t.Owed(to, t.Say("the kubelet on machine %d stops sandbox s%d; CNI DEL has released its entries", i, b))
}

// entryOf is the address that the pool has for a sandbox; -1 if none.
func (s *State) entryOf(b int) int {
	for addr := range s.Entry {
		if int(s.Entry[addr].Holder) == b+1 {
			return addr
		}
	}
	return -1
}

// finish: once no sandbox of the pod is left on its machine, the kubelet writes the terminal phase.
func (t *turn) finish(i int) {
	if !t.From.Machine[i].Linked {
		return
	}
	for _, second := range []bool{false, true} {
		if !t.ends(i, second) || !t.From.runs(i, second) || !t.From.informed(i, second) {
			continue
		}
		to := t.From
		missed := t.May(MissesMaking) && !second && t.From.onlyMaking(i)
		if missed {
			to.Pod.Finished = true
			t.Chance(MissesMaking, to, t.Say("the kubelet on machine %d reports the end of the pod, and does not list the sandbox that is being created", i))
		}
		if t.From.left(i, second) {
			continue
		}
		pod := &to.Pod
		if second {
			pod = &to.Second
		}
		pod.Finished = true
		t.Owed(to, t.Say("the kubelet on machine %d reports the end of the pod", i))
	}
}

// ends: a kubelet registers before it works on pods. One that replaced another ends what it never ran.
func (t *turn) ends(i int, second bool) bool {
	node := t.From.Node[t.From.Machine[i].Name]
	if second || (i == 0 && node.UID == 0) {
		return true
	}
	return node.UID != 0 && int(node.Machine) == i
}

// left: a sandbox of the pod is on the machine, or starts there.
func (s *State) left(i int, second bool) bool {
	for _, box := range s.Box {
		if int(box.Machine) == i && box.Second == second && box.Phase.live() && box.Phase != BoxUnloaded {
			return true
		}
	}
	return false
}

// onlyMaking: what is left of the pod on the machine is being created.
func (s *State) onlyMaking(i int) bool {
	return s.left(i, false) && !s.any(func(b int) bool {
		return int(s.Box[b].Machine) == i && (s.Box[b].Phase == BoxReady || s.Box[b].Phase == BoxOpen)
	})
}

// live: it uses its address, or will.
func (p Phase) live() bool { return p == BoxMaking || p.running() }

// running: it uses its address.
func (p Phase) running() bool { return p == BoxReady || p == BoxOpen || p == BoxUnloaded }

// runtime is what the container runtime does by itself.
func (t *turn) runtime(b int) {
	box := t.From.Box[b]
	if !t.From.Machine[box.Machine].Up {
		return
	}
	switch box.Phase {
	case BoxMaking:
		to := t.From
		to.Box[b].Phase, to.Box[b].Shown = BoxReady, true
		t.Owed(to, t.Say("the runtime on machine %d has made sandbox s%d: it is READY", box.Machine, b))
		if t.May(HalfMade) {
			to := t.From
			to.Box[b].Phase = BoxAbsent
			t.Chance(HalfMade, to, t.Say("making sandbox s%d on machine %d fails; its address stays in the pool", b, box.Machine))
		}
	case BoxReady:
		if t.May(Unload) {
			to := t.From
			to.Box[b].Phase = BoxUnloaded
			t.Chance(Unload, to, t.Say("the runtime on machine %d is restarted, and fails to load sandbox s%d, which runs on", box.Machine, b))
		}
		if t.May(SandboxDies) {
			to := t.From
			to.Box[b].Phase = BoxOpen
			t.Chance(SandboxDies, to, t.Say("sandbox s%d on machine %d dies: it is NOTREADY, its network namespace open", b, box.Machine))
		}
	default: // it is the kubelet's
	}
}

// pools: what is free is given to another pod.
func (t *turn) pools() {
	for addr := range t.From.Entry {
		entry := t.From.Entry[addr]
		if entry.Holder != HolderNone || entry.Others > 1 || !t.From.used(addr) {
			continue
		}
		to := t.From
		to.Entry[addr] = Entry{Holder: HolderOther, Others: entry.Others + 1}
		t.Owed(to, t.Say("another pod is given address %d", addr))
	}
}

// used: a sandbox has, or had, the address.
func (s *State) used(addr int) bool {
	for _, box := range s.Box {
		if box.Phase != BoxNone && int(box.Addr) == addr {
			return true
		}
	}
	return false
}
