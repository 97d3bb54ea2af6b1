// SPDX-License-Identifier: Apache-2.0

package nodes

// machine is what happens to a machine, to its link, its kubelet's process and its runtime.
func (t *turn) machine(i uint8) {
	machine := t.s.Machine[i]
	change := func(c Chance, possible bool, label string, how func(*State)) {
		if t.may(c) && possible {
			to := t.s
			how(&to)
			t.chance(c, to, t.say("machine %s "+label, name(i)))
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
	machine := t.s.Machine[i]
	node := t.s.Node[machine.Name]
	mine := node.UID != 0 && node.Machine == i
	switch {
	case mine && !machine.reaches() && node.Ready:
		to := t.s
		to.Node[machine.Name].Ready = false
		t.owed(to, t.say("the node controller finds Node U%d not Ready", node.UID))
	case !machine.reaches():
		return
	case mine && (!node.Ready || node.Boot != machine.Boot):
		to := t.s
		to.Node[machine.Name].Ready, to.Node[machine.Name].Boot = true, machine.Boot
		t.owed(to, t.say("the kubelet on machine %s reports boot %d and Ready to Node U%d", name(i), machine.Boot, node.UID))
	case node.UID == 0:
		t.registers(i)
	case !mine && t.may(TakeOver):
		to := t.s
		n := &to.Node[machine.Name]
		n.Machine, n.Boot, n.Ready = i, machine.Boot, true
		to.present(i)
		to.Machine[i].Seen = node.UID
		t.chance(TakeOver, to, t.say("the kubelet on machine %s reports into Node U%d, which was machine %s's", name(i), node.UID, name(node.Machine)))
	}
	t.sandbox(i)
}

// registers: a kubelet that starts makes a Node object, with another UID. One that finds no Node object may go on writing for its pods.
func (t *turn) registers(i uint8) {
	machine := t.s.Machine[i]
	if t.may(Register) && t.s.UIDs < uids {
		to := t.s
		to.UIDs++
		to.Node[machine.Name] = Node{UID: to.UIDs, Machine: i, Boot: machine.Boot, Ready: true}
		to.present(i)
		to.Machine[i].Seen = to.UIDs
		t.chance(Register, to, t.say("the kubelet on machine %s registers Node U%d", name(i), to.UIDs))
	}
	if t.may(KubeletWrites) {
		to := t.s
		to.present(i)
		to.Machine[i].Wrote = true
		t.chance(KubeletWrites, to, t.say("the kubelet on machine %s writes the status of a pod", name(i)))
	}
}

func (s *State) present(i uint8) { s.Machine[i].Absent = 0 }

// sandbox: the kubelet of the pod's machine makes its sandbox anew while the pod lives, under the entry of the one before, and ends it with the pod.
// No kubelet knows of an orphan's pod.
func (t *turn) sandbox(i uint8) {
	pod := t.s.Pod
	if pod.Machine != i {
		return
	}
	if t.may(SandboxAnew) && !pod.Alive && !pod.Deleting {
		to := t.s
		to.Pod.Alive = true
		t.chance(SandboxAnew, to, t.say("the kubelet on machine %s makes the pod's sandbox anew, at the same address", name(i)))
	}
	if pod.Alive && pod.Deleting && !t.s.Rec.Orphan {
		to := t.s
		to.Pod.Alive = false
		t.owed(to, t.say("the kubelet on machine %s stops the pod's sandbox", name(i)))
	}
}

// administrators is what people do, and what happens to etcd.
func (t *turn) administrators() {
	if t.s.Pod.Alive && t.may(SandboxDies) && t.s.Machine[t.s.Pod.Machine].Up {
		to := t.s
		to.Pod.Alive = false
		t.chance(SandboxDies, to, t.say("the pod's sandbox dies"))
	}
	if !t.s.Pod.Deleting {
		to := t.s
		to.Pod.Deleting = true
		t.step(to, t.say("a user deletes the pod, and its grace period is over"), true)
	}
	for i, node := range t.s.Node {
		if node.UID != 0 {
			t.administer(i)
		}
	}
	t.objects()
}

func (t *turn) administer(i int) {
	node := t.s.Node[i]
	if t.may(NodeDelete) {
		to := t.s
		to.Node[i] = Node{}
		to.present(node.Machine)
		t.chance(NodeDelete, to, t.say("an administrator deletes Node U%d", node.UID))
	}
	if t.may(Taint) && !node.Taint {
		to := t.s
		to.Node[i].Taint = true
		t.chance(Taint, to, t.say("an administrator taints Node U%d out-of-service", node.UID))
	}
	if t.may(Untaint) && node.Taint {
		to := t.s
		to.Node[i].Taint = false
		t.chance(Untaint, to, t.say("an administrator removes the taint of Node U%d", node.UID))
	}
}

// objects are deleted against every rule, or restored.
func (t *turn) objects() {
	for u := range t.s.GN {
		if t.may(ObjectDelete) && t.s.GN[u].Inst != 0 {
			to := t.s
			to.GN[u] = GuardedNode{Gen: to.GN[u].Inst}
			to.Lost = true
			if node := to.ofUID(uint8(u) + 1); node.UID != 0 {
				to.Machine[node.Machine].Seen = node.UID // it has to be written again
			}
			t.chance(ObjectDelete, to, t.say("an administrator deletes GuardedNode U%d, against the policy", u+1))
		}
	}
	if t.may(AllDelete) && t.s.All.Inst != 0 {
		to := t.s
		to.All = AllNodes{Gen: to.All.Inst}
		t.chance(AllDelete, to, t.say("an administrator deletes the AllNodesQuery, against the policy"))
	}
	if t.may(Restore) {
		to := t.s
		t.m.Scenario.Backup(&to)
		to.Late = Late{}
		if !t.m.Scenario.ViewsSurvive {
			for i := range to.Agent {
				to.Agent[i].View, to.Agent[i].All = GuardedNode{}, AllNodes{}
			}
		}
		t.chance(Restore, to, t.say("etcd is restored from a backup: generations and responses are those of an earlier time"))
	}
}
