// SPDX-License-Identifier: Apache-2.0

package world

// bootKey tells every boot of every machine; it is never 0.
func bootKey(machine, boot uint8) uint8 { return machine*8 + boot + 1 }

// power is what happens to a machine and to its link.
func (t *turn) power(i int) {
	machine := t.s.Machine[i]
	if t.may(PowerOff) && machine.Up {
		to := t.s
		to.off(i)
		t.chance(PowerOff, to, t.say("machine %d is switched off", i))
	}
	if t.may(PowerOn) && !machine.Up && i == 0 {
		to := t.s
		to.on(i)
		t.chance(PowerOn, to, t.say("machine %d boots", i))
	}
	if t.may(Cut) && machine.Up && machine.Linked {
		to := t.s
		to.Machine[i].Linked = false
		t.chance(Cut, to, t.say("machine %d is cut off from the API server, and runs on", i))
	}
	if t.may(Heal) && !machine.Linked {
		to := t.s
		to.Machine[i].Linked = true
		t.inform(&to, i)
		t.chance(Heal, to, t.say("machine %d reaches the API server again", i))
	}
	t.freeze(i)
	t.restart(i)
}

// restart: a kubelet that starts lists its runtime, and reports that there is no sandbox of a pod that is being deleted.
func (t *turn) restart(i int) {
	machine, node := t.s.Machine[i], t.s.Node[t.s.Machine[i].Name]
	registered := node.UID != 0 && int(node.Machine) == i
	if !t.may(KubeletRestart) || !registered || !t.s.runs(i, false) || !machine.Linked || !t.s.Pod.Deleting || t.s.left(i, false) {
		return
	}
	to := t.s
	to.Machine[i].Knows, to.Pod.Empty = true, node.UID
	t.chance(KubeletRestart, to, t.say("the kubelet on machine %d is started again, and reports that the pod has no sandbox", i))
}

func (t *turn) freeze(i int) {
	machine := t.s.Machine[i]
	if t.may(KubeletFreeze) && machine.Up && machine.Running {
		to := t.s
		to.Machine[i].Running = false
		t.chance(KubeletFreeze, to, t.say("the kubelet on machine %d freezes", i))
	}
	if t.may(KubeletThaw) && machine.Up && !machine.Running {
		to := t.s
		to.Machine[i].Running = true
		t.inform(&to, i)
		t.chance(KubeletThaw, to, t.say("the kubelet on machine %d runs again", i))
	}
}

// inform is an assumption (docs/model.md): a kubelet that comes back learns of a deletion before it makes anything.
func (t *turn) inform(to *State, i int) {
	machine := &to.Machine[i]
	machine.Knows = machine.Knows || (to.Pod.Over && machine.Running && machine.Linked && !t.m.Scenario.LateKubelet)
}

// off ends every sandbox of the machine; what is being made never comes to be.
func (s *State) off(i int) {
	machine := &s.Machine[i]
	machine.Up, machine.Running, machine.Knows = false, false, false
	s.Agent[i] = Agent{Token: s.Agent[i].Token}
	for b := range s.Box {
		if box := &s.Box[b]; int(box.Machine) == i {
			switch box.Phase {
			case BoxMaking:
				box.Phase = BoxAbsent
			case BoxReady, BoxOpen, BoxUnloaded:
				box.Phase = BoxClosed
			default: // it has ended before
			}
		}
	}
}

func (s *State) on(i int) {
	machine := &s.Machine[i]
	machine.Up, machine.Running, machine.Linked = true, true, true
	machine.Boot++
	machine.Knows = s.Pod.Deleting // it begins with a list
}

// registration is what the Node object of the machine's name says.
func (t *turn) registration(i int) {
	machine := t.s.Machine[i]
	node := t.s.Node[machine.Name]
	alive := machine.Up && machine.Linked && machine.Running
	switch {
	case !alive && node.UID != 0 && int(node.Machine) == i && node.Ready:
		to := t.s
		to.Node[machine.Name].Ready = false
		t.owed(to, t.say("the node controller finds node %d not Ready", machine.Name))
	case !alive:
	case node.UID == 0:
		t.register(i)
	case int(node.Machine) != i:
		t.takeOver(i)
	case !node.reports(machine.Boot):
		t.reportReady(i)
	}
}

// reports: the object is as the kubelet of its machine writes it.
func (n Node) reports(boot uint8) bool { return n.Boot == boot && n.Ready && !n.Forged }

// reportReady: a query that was made under a taint is older now than the node's being Ready. What a forger wrote of the machine is overwritten.
func (t *turn) reportReady(i int) {
	machine := t.s.Machine[i]
	to := t.s
	node := &to.Node[machine.Name]
	to.Rec.Gone = to.Rec.Gone && !node.Forged
	node.Boot, node.Ready, node.Forged = machine.Boot, true, false
	for k := range to.Rec.Mark {
		to.Rec.Mark[k].Early = to.Rec.Mark[k].Taint != 0
	}
	t.owed(to, t.say("the kubelet on machine %d reports its machine, boot %d and Ready", i, machine.Boot))
}

// register makes a new Node object, and with it another UID.
func (t *turn) register(i int) {
	machine := t.s.Machine[i]
	to := t.s
	to.UIDs++
	to.Node[machine.Name] = Node{Ident: Ident{UID: to.UIDs, Machine: uint8(i), Boot: machine.Boot}, Ready: true}
	t.owed(to, t.say("the kubelet on machine %d registers node %d: Node UID %d", i, machine.Name, to.UIDs))
}

// takeOver: a machine that is told to run under a name which has a Node object reports into that object.
func (t *turn) takeOver(i int) {
	if !t.may(TakeOver) || (i == 0 && t.unseenEnd()) {
		return
	}
	machine := t.s.Machine[i]
	to := t.s
	node := &to.Node[machine.Name]
	node.Machine, node.Boot, node.Ready, node.Forged = uint8(i), machine.Boot, true, false
	t.chance(TakeOver, to, t.say("the kubelet on machine %d reports into the Node object of node %d: Node UID %d stays", i, machine.Name, node.UID))
}

// unseenEnd is an assumption where no agents run (docs/model.md): a machine does not take its Node object back between the end of the pod, which the one
// that had the object may have written, and the controller's look at it.
func (t *turn) unseenEnd() bool {
	return t.m.Scenario.NoAgents && !t.m.Scenario.TakesBack && t.s.Pod.Finished && t.s.held() && t.s.Rec.End.UID == 0
}

// administrators is what people do.
func (t *turn) administrators() {
	t.deletions()
	t.replacement()
	for name := range machines {
		node := t.s.Node[name]
		if node.UID == 0 {
			continue
		}
		if t.may(NodeDelete) {
			to := t.s
			to.Node[name] = Node{}
			if int(to.Lease[name].UID) == int(node.UID) {
				to.Lease[name] = Lease{} // its owner is gone
			}
			t.chance(NodeDelete, to, t.say("an administrator deletes node %d", name))
		}
		t.taint(name)
	}
}

// taint: an administrator says that a machine is off. Where the scenario does not let them err, it is.
func (t *turn) taint(name int) {
	node := t.s.Node[name]
	off := !t.s.Machine[node.Machine].Up
	if t.may(TaintNode) && node.Taint == 0 && (off || t.m.Scenario.PrematureTaint) {
		to := t.s
		to.Taints++
		to.Node[name].Taint = to.Taints
		label := t.say("an administrator taints node %d out-of-service; its machine is off", name)
		if !off {
			label = t.say("an administrator taints node %d out-of-service too early: its machine runs", name)
		}
		t.chance(TaintNode, to, label)
	}
	if t.may(UntaintNode) && node.Taint != 0 {
		to := t.s
		to.Node[name].Taint = 0
		t.chance(UntaintNode, to, t.say("an administrator takes the taint off node %d", name))
	}
}

// replacement: another machine is given the name of node 0.
func (t *turn) replacement() {
	if !t.may(Replace) || t.s.Machine[1].Up {
		return
	}
	to := t.s
	to.Machine[1] = Machine{Name: 0, Up: true, Linked: true, Running: true, Knows: to.Pod.Deleting}
	t.chance(Replace, to, t.say("machine 1 is set up under the name of node 0"))
}

// deletions of pods. The ordinary one may come at any moment, and once.
func (t *turn) deletions() {
	if t.s.Pod.There && !t.s.Pod.Deleting {
		to := t.s
		to.Pod.Deleting = true
		t.step(to, t.say("a user deletes the pod"), true)
		if t.may(Force) && !t.m.Scenario.Restarts {
			to.Pod.Over = true
			t.chance(Force, to, t.say("a user deletes the pod with no grace"))
		}
	}
	if t.may(SecondDeleted) && t.s.Second.There && !t.s.Second.Deleting {
		to := t.s
		to.Second.Deleting = true
		t.chance(SecondDeleted, to, t.say("a user deletes the second pod of the name"))
	}
}
