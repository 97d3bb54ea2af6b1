// SPDX-License-Identifier: Apache-2.0

package world

// bootKey tells every boot of every machine; it is never 0.
func bootKey(machine, boot uint8) uint8 { return machine*8 + boot + 1 }

// power is what happens to a machine and to its link.
func (t *turn) power(i int) {
	machine := t.From.Machine[i]
	if t.May(PowerOff) && machine.Up {
		to := t.From
		to.off(i)
		t.Chance(PowerOff, to, t.Say("machine %d is switched off", i))
	}
	if t.May(PowerOn) && !machine.Up && i == 0 {
		to := t.From
		to.on(i)
		t.Chance(PowerOn, to, t.Say("machine %d boots", i))
	}
	if t.May(Cut) && machine.Up && machine.Linked {
		to := t.From
		to.Machine[i].Linked = false
		t.Chance(Cut, to, t.Say("machine %d is cut off from the API server, and runs on", i))
	}
	if t.May(Heal) && !machine.Linked {
		to := t.From
		to.Machine[i].Linked = true
		t.inform(&to, i)
		t.Chance(Heal, to, t.Say("machine %d reaches the API server again", i))
	}
	t.freeze(i)
	t.restart(i)
}

// restart: a kubelet that starts lists its runtime, and reports that there is no sandbox of a pod that is being deleted.
func (t *turn) restart(i int) {
	machine, node := t.From.Machine[i], t.From.Node[t.From.Machine[i].Name]
	registered := node.UID != 0 && int(node.Machine) == i
	if !t.May(KubeletRestart) || !registered || !t.From.runs(i, false) || !machine.Linked || !t.From.Pod.Deleting || t.From.left(i, false) {
		return
	}
	to := t.From
	to.Machine[i].Knows, to.Pod.Empty = true, node.UID
	t.Chance(KubeletRestart, to, t.Say("the kubelet on machine %d is started again, and reports that the pod has no sandbox", i))
}

func (t *turn) freeze(i int) {
	machine := t.From.Machine[i]
	if t.May(KubeletFreeze) && machine.Up && machine.Running {
		to := t.From
		to.Machine[i].Running = false
		t.Chance(KubeletFreeze, to, t.Say("the kubelet on machine %d freezes", i))
	}
	if t.May(KubeletThaw) && machine.Up && !machine.Running {
		to := t.From
		to.Machine[i].Running = true
		t.inform(&to, i)
		t.Chance(KubeletThaw, to, t.Say("the kubelet on machine %d runs again", i))
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
	machine := t.From.Machine[i]
	node := t.From.Node[machine.Name]
	alive := machine.Up && machine.Linked && machine.Running
	switch {
	case !alive && node.UID != 0 && int(node.Machine) == i && node.Ready:
		to := t.From
		to.Node[machine.Name].Ready = false
		t.Owed(to, t.Say("the node controller finds node %d not Ready", machine.Name))
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
	machine := t.From.Machine[i]
	to := t.From
	node := &to.Node[machine.Name]
	to.Rec.Gone = to.Rec.Gone && !node.Forged
	node.Boot, node.Ready, node.Forged = machine.Boot, true, false
	for k := range to.Rec.Query {
		to.Rec.Query[k].Early = to.Rec.Query[k].Taint != 0
	}
	t.Owed(to, t.Say("the kubelet on machine %d reports its machine, boot %d and Ready", i, machine.Boot))
}

// register makes a new Node object, and with it another UID.
func (t *turn) register(i int) {
	machine := t.From.Machine[i]
	to := t.From
	to.UIDs++
	to.Node[machine.Name] = Node{Ident: Ident{UID: to.UIDs, Machine: uint8(i), Boot: machine.Boot}, Ready: true}
	t.Owed(to, t.Say("the kubelet on machine %d registers node %d: Node UID %d", i, machine.Name, to.UIDs))
}

// takeOver: a machine that is told to run under a name which has a Node object reports into that object.
func (t *turn) takeOver(i int) {
	if !t.May(TakeOver) || (i == 0 && t.unseenEnd()) {
		return
	}
	machine := t.From.Machine[i]
	to := t.From
	node := &to.Node[machine.Name]
	node.Machine, node.Boot, node.Ready, node.Forged = uint8(i), machine.Boot, true, false
	t.Chance(TakeOver, to, t.Say("the kubelet on machine %d reports into the Node object of node %d: Node UID %d stays", i, machine.Name, node.UID))
}

// unseenEnd is an assumption where no agents run (docs/model.md): a machine does not take its Node object back between the end of the pod, which the one
// that had the object may have written, and the controller's look at it.
func (t *turn) unseenEnd() bool {
	return t.m.Scenario.NoAgents && !t.m.Scenario.TakesBack && t.From.Pod.Finished && t.From.held() && t.From.Rec.End.UID == 0
}

// administrators is what people do.
func (t *turn) administrators() {
	t.deletions()
	t.replacement()
	for name := range machines {
		node := t.From.Node[name]
		if node.UID == 0 {
			continue
		}
		if t.May(NodeDelete) {
			to := t.From
			to.Node[name] = Node{}
			if to.Acknowledged[name].UID == node.UID {
				to.Acknowledged[name] = Acknowledgment{} // no Node has the UID again, so that it counts for none
			}
			t.Chance(NodeDelete, to, t.Say("an administrator deletes node %d", name))
		}
		t.taint(name)
	}
}

// taint: an administrator says that a machine is off. Where the scenario does not let them err, it is.
func (t *turn) taint(name int) {
	node := t.From.Node[name]
	off := !t.From.Machine[node.Machine].Up
	if t.May(TaintNode) && node.Taint == 0 && (off || t.m.Scenario.PrematureTaint) {
		to := t.From
		to.Taints++
		to.Node[name].Taint = to.Taints
		label := t.Say("an administrator taints node %d out-of-service; its machine is off", name)
		if !off {
			label = t.Say("an administrator taints node %d out-of-service too early: its machine runs", name)
		}
		t.Chance(TaintNode, to, label)
	}
	if t.May(UntaintNode) && node.Taint != 0 {
		to := t.From
		to.Node[name].Taint = 0
		t.Chance(UntaintNode, to, t.Say("an administrator takes the taint off node %d", name))
	}
}

// replacement: another machine is given the name of node 0.
func (t *turn) replacement() {
	if !t.May(Replace) || t.From.Machine[1].Up {
		return
	}
	to := t.From
	to.Machine[1] = Machine{Name: 0, Up: true, Linked: true, Running: true, Knows: to.Pod.Deleting}
	t.Chance(Replace, to, t.Say("machine 1 is set up under the name of node 0"))
}

// deletions of pods. The ordinary one may come at any moment, and once.
func (t *turn) deletions() {
	if t.From.Pod.There && !t.From.Pod.Deleting {
		to := t.From
		to.Pod.Deleting = true
		t.Step(to, t.Say("a user deletes the pod"), true)
		if t.May(Force) && !t.m.Scenario.Restarts {
			to.Pod.Over = true
			t.Chance(Force, to, t.Say("a user deletes the pod with no grace"))
		}
	}
	if t.May(SecondDeleted) && t.From.Second.There && !t.From.Second.Deleting {
		to := t.From
		to.Second.Deleting = true
		t.Chance(SecondDeleted, to, t.Say("a user deletes the second pod of the name"))
	}
}
