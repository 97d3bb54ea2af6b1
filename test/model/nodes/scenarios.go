// SPDX-License-Identifier: Apache-2.0

package nodes

import "slices"

// running is a pod on machine A, of Node U1, that has been observed for long. Machine B is off.
func running(s *State) {
	s.Machine = [machines]Machine{{Up: true, Linked: true}, {Name: 1, Absent: long}}
	s.UIDs = 1
	s.Node[0] = Node{UID: 1, Ready: true}
	s.GN[0].create(0, 0)
	s.Agent[0] = Agent{Up: true, UID: 1, View: s.GN[0].content()}
	s.Pod.Alive = true
	s.Rec = Record{Exists: true, UID: 1}
	s.Lease = Lease{Acquired: long, Renewed: long}
	s.Mgr.Up = true
}

// rival is that pod after its deletion, on a machine that is cut off, and machine B runs under the name of its Node.
func rival(s *State) {
	running(s)
	s.Machine[1] = Machine{Up: true, Linked: true, Absent: long}
	s.Machine[0].Linked, s.Node[0].Ready = false, false
	s.Pod.Deleting = true
}

// ended is that pod after its deletion, on a machine whose kubelet hangs, so that its sandbox is left.
func ended(s *State) {
	running(s)
	s.Pod.Deleting = true
	s.Machine[0].Frozen, s.Node[0].Ready = true, false
}

// away is that pod after its deletion, on a machine that is cut off, and its Node is deleted.
func away(s *State) {
	running(s)
	s.Pod.Deleting = true
	s.Machine[0].Linked = false
	s.Node[0] = Node{}
	s.GN[0].Machine[0].Gone = true
	s.Lease.Renewed = 0
}

// orphaned is two nodes, and an orphan of unknown node whose sandbox is on machine A.
func orphaned(s *State) {
	running(s)
	s.Machine[1] = Machine{Name: 1, Up: true, Linked: true}
	s.UIDs = 2
	s.Node[1] = Node{UID: 2, Machine: 1, Ready: true}
	s.GN[1].create(1, 0)
	s.All = AllNodes{Inst: 1, Gen: 1}
	s.Agent[1] = Agent{Up: true, UID: 2, View: s.GN[1].content()}
	s.Agent[0].All, s.Agent[1].All = s.All, s.All
	s.Pod.Deleting = true
	s.Rec = Record{Exists: true, Orphan: true}
}

// alone is an orphan whose sandbox is on machine B, which has no Node and was never seen; no manager runs.
func alone(s *State) {
	orphaned(s)
	s.UIDs = 1
	s.Node[1], s.GN[1], s.Agent[1] = Node{}, GuardedNode{}, Agent{}
	s.Machine[1].Absent = long
	s.Pod.Machine = 1
	s.Mgr.Up = false
}

// aged is two nodes whose agents acknowledged earlier queries.
func aged(s *State) {
	orphaned(s)
	s.All.Gen = 3
	for i := range s.Agent {
		ack := Ack{Inst: 1, Gen: 3, Boot: bootKey(uint8(i), 0)}
		s.GN[i].Ack = ack
		s.Agent[i].View.Ack, s.Agent[i].Memory, s.Agent[i].All = ack, ack, s.All
	}
}

// contested is an orphan whose sandbox is on machine A, and machine B runs under the name of its Node.
func contested(s *State) {
	orphaned(s)
	s.UIDs = 1
	s.Node[1], s.GN[1], s.Agent[1] = Node{}, GuardedNode{}, Agent{}
	s.Machine[1] = Machine{Up: true, Linked: true, Absent: long}
}

// queried is that orphan while all nodes are queried about it, and Nodes have been observed for long.
func queried(s *State) {
	contested(s)
	s.All.Gen, s.All.Epoch = 2, 2
	s.Lease = Lease{Acquired: long}
}

// backup is what a restore brings back of them: the orphan was not queried yet.
func backup(s *State) {
	s.All = AllNodes{Inst: 1, Gen: 1}
	for i := range s.GN {
		s.GN[i].Query, s.GN[i].Status = Query{}, Status{}
	}
	if !s.Released {
		s.Rec = Record{Exists: true, Orphan: true}
	}
}

// Scenarios are what is explored.
func Scenarios() []Scenario { return slices.Concat(ofPods(), ofOrphans()) }

func ofPods() []Scenario {
	return []Scenario{
		{
			Name: "objects: a machine replaced", About: "machine B takes the Node object of machine A over", Start: rival,
			Chances: map[Chance]uint8{Heal: 1, TakeOver: 1, LatePass: 1},
		},
		{
			Name: "objects: an object taken back", About: "machine B takes the Node object of machine A over, and A has it back", Start: rival, Depth: 16,
			Chances: map[Chance]uint8{Heal: 1, TakeOver: 2},
		},
		{
			Name: "objects: a machine returns", About: "a Node is deleted, and its machine registers again, and once more", Start: away,
			Chances: map[Chance]uint8{Heal: 1, NodeDelete: 1, Register: 1, ManagerCrash: 1, LatePass: 1},
		},
		{
			Name: "objects: a kubelet writes", About: "the kubelet of a machine whose Node was deleted writes", Start: away,
			Chances: map[Chance]uint8{Heal: 1, Freeze: 1, KubeletWrites: 2, LatePass: 1, ManagerCrash: 1},
		},
		{
			Name: "objects: a new registration", About: "a Node is deleted and registers again while its agent runs, and may be cut off meanwhile", Start: running,
			Chances: map[Chance]uint8{NodeDelete: 1, Register: 1, Cut: 1, Heal: 1},
		},
		{
			Name: "objects: a pod that lives", About: "queries about a pod that lives, and then is deleted; late caches and late writes", Start: running,
			Chances: map[Chance]uint8{SandboxDies: 1, SandboxAnew: 1, Suspect: 1, Unsuspect: 1, LateCache: 1, Freeze: 1, ManagerCrash: 1},
		},
		{
			Name: "objects: a machine boots again", About: "a machine boots again while a query about a pod that lives stands", Start: running,
			Chances: map[Chance]uint8{Reboot: 1, SandboxAnew: 1, Suspect: 1, LateWrite: 1},
		},
		{
			Name: "objects: a machine returns, two leaders", About: "a leader that was deposed releases late", Start: away,
			Chances: map[Chance]uint8{Heal: 1, Register: 1, LatePass: 1, Depose: 1, NodeDelete: 1},
		},
		{
			Name: "objects: an object deleted", About: "an administrator deletes a GuardedNode, and a status write is late", Start: running,
			Chances: map[Chance]uint8{SandboxDies: 1, SandboxAnew: 1, Suspect: 1, LateWrite: 1, ObjectDelete: 1, NodeDelete: 1},
		},
		{
			Name: "objects: out of service", About: "a node that is declared out of service, perhaps too early", Start: ended,
			Chances: map[Chance]uint8{Taint: 1, Untaint: 1, Cut: 1, Heal: 1, LateCache: 1, LatePass: 1, Unreadable: 1, AgentCrash: 1},
		},
		{
			Name: "objects: a late record", About: "a record is written while another leader deletes the object of its node", Start: func(s *State) {
				away(s)
				s.Rec = Record{}
			},
			Chances: map[Chance]uint8{LatePass: 1, Depose: 1, Heal: 1, Register: 1, ManagerCrash: 1},
		},
	}
}

func ofOrphans() []Scenario {
	return []Scenario{
		{
			Name: "objects: an orphan", About: "two nodes are queried about an orphan; crashes of the manager and of agents", Start: orphaned,
			Chances: map[Chance]uint8{ManagerCrash: 1, AgentCrash: 1, Cut: 1, SandboxDies: 1},
		},
		{
			Name: "objects: an orphan, out of service", About: "the node that claims the orphan is declared out of service", Start: orphaned,
			Chances: map[Chance]uint8{Taint: 1, PowerOff: 1, Cut: 1},
		},
		{
			Name: "objects: an orphan, a new registration", About: "a node registers again after or before it claims the orphan", Start: orphaned,
			Chances: map[Chance]uint8{NodeDelete: 1, Register: 1},
		},
		{
			Name: "objects: an orphan, a machine replaced", About: "another machine takes over the Node object of the one that has the orphan's sandbox", Start: contested,
			Chances: map[Chance]uint8{TakeOver: 1},
		},
		{
			Name: "objects: an orphan, an object deleted", About: "an administrator deletes the only object that names the machine of the orphan", Start: queried, Depth: 12,
			Chances: map[Chance]uint8{TakeOver: 1, ObjectDelete: 1},
		},
		{
			Name: "objects: an orphan, two leaders", About: "a leader that was deposed decides about the orphan late", Start: orphaned,
			Chances: map[Chance]uint8{LatePass: 1, Depose: 1, NodeDelete: 1},
		},
		{
			Name: "objects: an orphan of a Node never seen", About: "the orphan's Node registers and is deleted again", Start: alone,
			Chances: map[Chance]uint8{Register: 1, NodeDelete: 1, ManagerCrash: 1},
		},
		{
			Name: "objects: AllNodesQuery deleted", About: "an administrator deletes the AllNodesQuery, and it is created again", Start: aged,
			Chances: map[Chance]uint8{AllDelete: 1, ManagerCrash: 1, AgentCrash: 1, LateView: 1},
		},
		{
			Name: "objects: etcd restored", About: "etcd is restored: generations and acknowledgements are those of an earlier time", Start: aged, Backup: backup, Others: true,
			Chances: map[Chance]uint8{Restore: 1, LateWrite: 1},
		},
		{
			Name: "objects: etcd restored, a pod that lives", About: "etcd is restored after a query about a pod that lived", Start: running, Backup: func(s *State) {
				s.GN[0].Gen, s.GN[0].Query, s.GN[0].Status = 1, Query{}, Status{}
			},
			Chances: map[Chance]uint8{Restore: 1, SandboxDies: 1, SandboxAnew: 1, Suspect: 1, LateWrite: 1, Freeze: 1},
		},
	}
}
