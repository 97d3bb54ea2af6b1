// SPDX-License-Identifier: Apache-2.0

package nodes

// How many there are of each. Node UIDs are 1, 2, 3; the GuardedNode of a UID is GN[UID-1].
const (
	machines = 2
	uids     = 3
	// long is the number of ticks after which a delay is over. What began just before a tick is hardly old after it, so that two of them are
	// more than one whole tick.
	long = 2
)

// State is the whole world at one moment.
type State struct {
	// Left is how often each chance may still come.
	Left    [chances]uint8
	Machine [machines]Machine
	// Node is the Node object of each name; UID 0 is none. UIDs is the number of UIDs that were given out.
	Node [machines]Node
	UIDs uint8
	Pod  Pod
	// Rec is the IPAllocation, Released: its address is back in the pool. Bad says what is wrong with that release.
	Rec      Record
	Released bool
	Bad      uint8
	GN       [uids]GuardedNode
	// Lost: another client deleted a GuardedNode, and the manager's watch of them has not brought that yet.
	Lost  bool
	All   AllNodes
	Lease Lease
	Agent [machines]Agent
	// Late is a status write on its way to the API server.
	Late Late
	Mgr  Manager
	// Old is the pass of a manager that lost the leadership in the middle of it.
	Old  Pass
	Copy Copy
}

// Machine is a machine with its kubelet.
type Machine struct {
	Name, Boot uint8
	Up         bool
	// Linked: kubelet and agent reach the API server. Frozen: the kubelet does not run. Unreadable: the agent cannot list the runtime.
	Linked, Frozen, Unreadable bool
	// Absent is for how many ticks no Node object reported the machine and its kubelet wrote nothing: the truth, which no actor reads.
	Absent uint8
	// KubeletWrites: its kubelet wrote something that the manager has not compared yet. Seen is the Node UID under which the machine registered
	// since the manager's watch of Nodes was last read; 0 is none.
	Wrote bool
	Seen  uint8
}

// Node is a Node object. Machine and Boot are what it reports.
type Node struct {
	UID, Machine, Boot uint8
	Ready, Taint       bool
}

// Pod is the pod and its sandbox. Deleting: the grace period with its slack is over.
type Pod struct {
	Deleting bool
	// Alive: a sandbox of the pod uses the address, on Machine.
	Alive   bool
	Machine uint8
}

// Record is the IPAllocation. UID is the Node that it names; 0 for an orphan of unknown node.
type Record struct {
	Exists, Orphan bool
	UID, Machine   uint8
}

// GuardedNode is the object of a Node registration.
type GuardedNode struct {
	// Inst tells objects of one name apart, as metadata.uid does; 0: there is none. Gen is the generation.
	Inst, Gen uint8
	// Top is 1 + the newest machine.
	Top     uint8
	Machine [machines]Lifecycle
	Query   Query
	Status
}

// Status is what the agent writes.
type Status struct {
	Response Response
	// Ack is what it acknowledged of the AllNodesQuery, and Claim: it has the sandbox that was queried there.
	Ack   Ack
	Claim bool
}

// Late is a status write that was made from the object Base; UID 0 is none.
type Late struct {
	UID  uint8
	Base GuardedNode
	Next Status
}

// Lifecycle is what a GuardedNode has of a machine.
type Lifecycle struct {
	Known bool
	Boot  uint8
	// Successor is the Node UID that reports the machine now, if another does. Gone: none does; Since is for how many ticks.
	Successor uint8
	Gone      bool
	Since     uint8
}

// Query is a query about the pod's sandbox; epoch 0 is none.
type Query struct {
	Epoch, Boot uint8
	// Release: the purpose is the release of the address; otherwise it is the rewriting of the entry of a pod that lives.
	Release bool
	// OutOfService: the Node had the taint and was not Ready. Waited: releaseDelay has passed since. Reachable: an agent ran there that could have
	// responded by then; the truth, which no actor reads.
	OutOfService, Waited, Reachable bool
}

// Response is an agent's; epoch 0 is none. Ready: the sandbox is gone, and no other one of the pod is on the machine.
type Response struct {
	Epoch, Boot uint8
	Ready       bool
	// Claimed: it is a claim in truth (only with R6 turned off); no actor can tell.
	Claimed bool
}

// Ack says that the queries of the AllNodesQuery Inst with an epoch up to Gen were compared with the runtime in that boot.
type Ack struct{ Inst, Gen, Boot uint8 }

// AllNodes is the AllNodesQuery; Inst 0: there is none. Epoch is that of the query about the orphan; 0 is none.
type AllNodes struct{ Inst, Gen, Epoch uint8 }

// Lease is the observation Lease: how many ticks ago the observation of Nodes began, and the last complete round.
type Lease struct{ Acquired, Renewed uint8 }

// Agent is the agent on a machine.
type Agent struct {
	Up bool
	// UID is the Node UID of its token, View and All are what its watches have brought.
	UID  uint8
	View GuardedNode
	All  AllNodes
	// Memory is kept by an agent that does not derive everything from the objects.
	Memory Ack
}

// Manager is the memory of the leader.
type Manager struct {
	Up bool
	// Stalled: its cache of GuardedNodes is the State's Copy, and no longer what the API server has.
	Stalled bool
	Want    Want
	Pass    Pass
}

// Want is what the worker of a GuardedNode is to write; UID 0 is nothing.
type Want struct {
	UID uint8
	// None: no query. Renew: one that was not wanted in between.
	None, Renew bool
	Query       Query
}

// Kind is what a pass that was begun will do.
type Kind uint8

// The kinds of passes.
const (
	PassNone Kind = iota
	// PassRelease: it was decided to release the address.
	PassRelease
	// PassOrphan: the first objects for the decision about an orphan were read.
	PassOrphan
	// PassDelete: it was decided to delete a GuardedNode.
	PassDelete
	// PassAddress: the query was removed from the AllNodesQuery, and the record gets its node next (only with R7 turned off).
	PassAddress
)

// Pass is a pass of the manager between two of its steps.
type Pass struct {
	Kind Kind
	// UID is the GuardedNode that it is about, and Gen its generation when it was read.
	UID, Gen uint8
	// Machine is the one that claimed the orphan.
	Machine uint8
	// Excused: when it read, a release was right though the sandbox may be alive (excused).
	Excused bool
}

// Copy is what was read a while ago: the cache of a manager that is behind, or the first reads of a pass. There is one at a time.
type Copy struct {
	GN    [uids]GuardedNode
	Node  [machines]Node
	Lease Lease
	All   AllNodes
}

// bootKey tells every boot of every machine; it is never 0.
func bootKey(machine, boot uint8) uint8 { return machine*8 + boot + 1 }

// machineOf is the machine of a boot.
func machineOf(boot uint8) uint8 { return (boot - 1) / 8 }

// gn is the GuardedNode of a UID.
func (s *State) gn(uid uint8) *GuardedNode { return &s.GN[uid-1] }

// content is the object without how old things in it are, which is no part of what a watch brings.
func (g GuardedNode) content() GuardedNode {
	for i := range g.Machine {
		g.Machine[i].Since = 0
	}
	g.Query.Waited, g.Query.Reachable = false, false
	return g
}

// reporter is the Node that reports a machine; the zero Node if none does.
func (s *State) reporter(machine uint8) Node { return reporterOf(&s.Node, machine) }

func reporterOf(nodes *[machines]Node, machine uint8) Node {
	for _, node := range nodes {
		if node.UID != 0 && node.Machine == machine {
			return node
		}
	}
	return Node{}
}

// registered: a Node of that UID exists.
func (s *State) registered(uid uint8) bool {
	for _, node := range s.Node {
		if node.UID == uid {
			return true
		}
	}
	return false
}

// reaches: the machine's kubelet runs and reaches the API server.
func (m Machine) reaches() bool { return m.Up && m.Linked && !m.Frozen }
