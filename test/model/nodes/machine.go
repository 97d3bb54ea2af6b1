// SPDX-License-Identifier: Apache-2.0

package nodes

// machine is what happens to a machine, to its link, its kubelet's process and its runtime.
func (t *turn) machine(i uint8) {
	machine := t.From.Machine[i]
	change := func(c Chance, possible bool, label string, how func(*State)) {
		if t.May(c) && possible {
			to := t.From
			how(&to)
			t.Chance(c, to, t.Say("machine %s "+label, name(i)))
		}
	}
	change(PowerOff, machine.Up, "is switched off", func(to *State) {
		to.ends(i)
		to.Machine[i].Up, to.Agent[i] = false, Agent{}
	})
	change(Reboot, true, "boots again", func(to *State) {
		to.ends(i)
		m := &to.Machine[i]
		m.Boot, m.Up, m.Linked, m.Frozen, m.Unreadable = m.Boot+1, true, true, false, false
		to.Agent[i] = Agent{}
	})
	change(Cut, machine.Linked && machine.Up, "is cut off from the API server, and runs on", func(to *State) { to.Machine[i].Linked = false })
	change(Heal, !machine.Linked && machine.Up, "reaches the API server again", func(to *State) { to.Machine[i].Linked = true })
	change(Freeze, machine.Up && !machine.Frozen, "has a kubelet that hangs", func(to *State) { to.Machine[i].Frozen = true })
	change(Unreadable, machine.Up && !machine.Unreadable, "has a runtime that cannot be listed", func(to *State) { to.Machine[i].Unreadable = true })
}

// ends: no sandbox of the machine is left.
func (s *State) ends(i uint8) {
	if s.Pod.Machine == i {
		s.Pod.Alive = false
	}
}

// kubelet is what a kubelet does: Node objects and sandboxes.
func (t *turn) kubelet(i uint8) {
	machine := t.From.Machine[i]
	node := t.From.Node[machine.Name]
	mine := node.UID != 0 && node.Machine == i
	switch {
	case mine && !machine.reaches() && node.Ready:
		to := t.From
		to.Node[machine.Name].Ready = false
		t.Owed(to, t.Say("the node controller finds Node U%d not Ready", node.UID))
	case !machine.reaches():
		return
	case mine && (!node.Ready || node.Boot != machine.Boot):
		to := t.From
		to.Node[machine.Name].Ready, to.Node[machine.Name].Boot = true, machine.Boot
		t.Owed(to, t.Say("the kubelet on machine %s reports boot %d and Ready to Node U%d", name(i), machine.Boot, node.UID))
	case node.UID == 0:
		t.registers(i)
	case !mine && t.May(TakeOver):
		to := t.From
		n := &to.Node[machine.Name]
		n.Machine, n.Boot, n.Ready = i, machine.Boot, true
		to.present(i)
		to.Machine[i].Seen = node.UID
		t.Chance(TakeOver, to, t.Say("the kubelet on machine %s reports into Node U%d, which was machine %s's", name(i), node.UID, name(node.Machine)))
	}
	t.sandbox(i)
}

// registers: a kubelet that starts makes a Node object, with another UID. One that finds no Node object may go on writing for its pods.
func (t *turn) registers(i uint8) {
	machine := t.From.Machine[i]
	if t.May(Register) && t.From.UIDs < uids {
		to := t.From
		to.UIDs++
		to.Node[machine.Name] = Node{UID: to.UIDs, Machine: i, Boot: machine.Boot, Ready: true}
		to.present(i)
		to.Machine[i].Seen = to.UIDs
		t.Chance(Register, to, t.Say("the kubelet on machine %s registers Node U%d", name(i), to.UIDs))
	}
	if t.May(KubeletWrites) {
		to := t.From
		to.present(i)
		to.Machine[i].Wrote = true
		t.Chance(KubeletWrites, to, t.Say("the kubelet on machine %s writes the status of a pod", name(i)))
	}
}

func (s *State) present(i uint8) { s.Machine[i].Absent = 0 }

// sandbox: the kubelet of the pod's machine makes its sandbox anew while the pod lives, under the entry of the one before, and ends it with the pod.
// No kubelet knows of an orphan's pod.
func (t *turn) sandbox(i uint8) {
	pod := t.From.Pod
	if pod.Machine != i {
		return
	}
	if t.May(SandboxAnew) && !pod.Alive && !pod.Deleting {
		to := t.From
		to.Pod.Alive = true
		t.Chance(SandboxAnew, to, t.Say("the kubelet on machine %s makes the pod's sandbox anew, at the same address", name(i)))
	}
	if pod.Alive && pod.Deleting && !t.From.Rec.Orphan {
		to := t.From
		to.Pod.Alive = false
		t.Owed(to, t.Say("the kubelet on machine %s stops the pod's sandbox", name(i)))
	}
}

// administrators is what people do, and what happens to etcd.
func (t *turn) administrators() {
	if t.From.Pod.Alive && t.May(SandboxDies) && t.From.Machine[t.From.Pod.Machine].Up {
		to := t.From
		to.Pod.Alive = false
		t.Chance(SandboxDies, to, t.Say("the pod's sandbox dies"))
	}
	if !t.From.Pod.Deleting {
		to := t.From
		to.Pod.Deleting = true
		t.Step(to, t.Say("a user deletes the pod, and its grace period is over"), true)
	}
	for i, node := range t.From.Node {
		if node.UID != 0 {
			t.administer(i)
		}
	}
	t.objects()
}

func (t *turn) administer(i int) {
	node := t.From.Node[i]
	if t.May(NodeDelete) {
		to := t.From
		to.Node[i] = Node{}
		to.present(node.Machine)
		t.Chance(NodeDelete, to, t.Say("an administrator deletes Node U%d", node.UID))
	}
	if t.May(Taint) && !node.Taint {
		to := t.From
		to.Node[i].Taint = true
		t.Chance(Taint, to, t.Say("an administrator taints Node U%d out-of-service", node.UID))
	}
	if t.May(Untaint) && node.Taint {
		to := t.From
		to.Node[i].Taint = false
		t.Chance(Untaint, to, t.Say("an administrator removes the taint of Node U%d", node.UID))
	}
}

// objects are deleted against every rule, or restored.
func (t *turn) objects() {
	for u := range t.From.GN {
		if t.May(ObjectDelete) && t.From.GN[u].Inst != 0 {
			to := t.From
			to.GN[u] = GuardedNode{Gen: to.GN[u].Inst}
			to.Lost = true
			if node := to.ofUID(uint8(u) + 1); node.UID != 0 {
				to.Machine[node.Machine].Seen = node.UID // it has to be written again
			}
			t.Chance(ObjectDelete, to, t.Say("an administrator deletes GuardedNode U%d, against the policy", u+1))
		}
	}
	if t.May(AllDelete) && t.From.All.Inst != 0 {
		to := t.From
		to.All = AllNodes{Gen: to.All.Inst}
		t.Chance(AllDelete, to, t.Say("an administrator deletes the AllNodesQuery, against the policy"))
	}
	if t.May(Restore) {
		to := t.From
		t.m.Scenario.Backup(&to)
		to.Late = Late{}
		if !t.m.Scenario.ViewsSurvive {
			for i := range to.Agent {
				to.Agent[i].View, to.Agent[i].All = GuardedNode{}, AllNodes{}
			}
		}
		t.Chance(Restore, to, t.Say("etcd is restored from a backup: generations and responses are those of an earlier time"))
	}
}
