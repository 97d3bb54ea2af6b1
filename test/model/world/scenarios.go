// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
)

// started sets up machine 0, with the pod on it.
func started(s *State) {
	s.Machine[0] = Machine{Up: true, Linked: true, Running: true}
	s.UIDs = 1
	s.Node[0] = Node{Ident: Ident{UID: 1}, Ready: true}
	s.Agent[0] = Agent{Up: true, Token: 1}
	s.Pod = Pod{There: true}
	s.Rec = Record{Kind: RecordOfPod}
}

// running has the pod's sandbox running.
func running(s *State) {
	started(s)
	s.Box[0] = Box{Phase: BoxReady, Shown: true}
	s.Entry[0].Holder = 1
	s.Rec.Slot[0] = Slot{Known: true, Ident: s.Node[0].Ident}
}

// unseen is that pod before its sandbox was recorded.
func unseen(s *State) {
	running(s)
	s.Rec.Slot[0] = Slot{}
}

// overdue is that pod after its deletion, its grace period and slack.
func overdue(s *State) {
	running(s)
	s.Pod.Deleting, s.Pod.Over = true, true
	s.Machine[0].Knows = true
}

// lost is that pod after its machine was switched off and its Node deleted.
func lost(s *State) {
	overdue(s)
	s.off(0)
	s.Node[0] = Node{}
}

// queried is that pod with a query about its sandbox, and another machine that was set up under the name.
func queried(s *State) {
	overdue(s)
	s.Rec.Epochs[0] = 1
	s.Rec.Query[0] = Query{Epoch: 1, UID: 1, Boot: bootKey(0, 0)}
	s.Machine[1] = Machine{Up: true, Linked: true, Running: true, Knows: true}
}

// agentless is that pod and that machine, and no agent.
func agentless(s *State) {
	overdue(s)
	s.Agent[0] = Agent{}
	s.Machine[1] = Machine{Up: true, Linked: true, Running: true, Knows: true, AgentLess: true}
	s.Machine[0].AgentLess = true
}

// unresponsive is that pod on a machine whose kubelet and agent do not run.
func unresponsive(s *State) {
	queried(s)
	s.Machine[0].Running, s.Machine[0].AgentLess = false, true
	s.Node[0].Ready, s.Agent[0] = false, Agent{}
}

// unattended takes the agent away.
func unattended(s *State) {
	running(s)
	s.Agent[0] = Agent{}
	s.Machine[0].AgentLess = true
}

// making has the pod's sandbox being created.
func making(s *State) {
	running(s)
	s.Box[0] = Box{Phase: BoxMaking}
}

// orphaned sets up two nodes; the pod is deleted, and its sandbox is left.
func orphaned(s *State) {
	running(s)
	s.Pod, s.Rec = Pod{}, Record{}
	s.Machine[1] = Machine{Name: 1, Up: true, Linked: true, Running: true}
	s.UIDs = 2
	s.Node[1] = Node{Ident: Ident{UID: 2, Machine: 1}, Ready: true}
	s.Agent[1] = Agent{Up: true, Token: 2}
}

// orphanedEarly is that sandbox while it is being created.
func orphanedEarly(s *State) {
	orphaned(s)
	s.Box[0] = Box{Phase: BoxMaking}
}

// sameName adds another pod of the name on node 1.
func sameName(s *State) {
	orphaned(s)
	s.Second = Pod{There: true}
	s.Box[1] = Box{Phase: BoxReady, Machine: 1, Addr: 1, Shown: true, Second: true}
	s.Entry[1].Holder = 2
}

// Scenarios are those that are explored.
func Scenarios() []Scenario {
	return slices.Concat(ofOneNode(), ofSandboxesMadeAnew(), ofForgers(), ofMachines(), ofOrphans())
}

func ofOneNode() []Scenario {
	return []Scenario{
		{
			Name: "deletion", About: "one node, one pod, and what can go wrong when it is deleted", Start: running,
			Chances: map[Chance]uint8{AgentCrash: 1, ControllerCrash: 1, KubeletFreeze: 1, SandboxDies: 1, DelLost: 1, LateDel: 1, Force: 1},
		},
		{
			Name: "cut", About: "a node that is cut off, for good or for a while", Start: running,
			Chances: map[Chance]uint8{Cut: 1, Heal: 1, PowerOff: 1, DelLost: 1, Force: 1},
		},
		{
			Name: "late caches", About: "a controller that looks at caches of any age", Start: running,
			Chances: map[Chance]uint8{CachedPass: 1, KubeletFreeze: 1, KubeletThaw: 1, DelLost: 1},
		},
		{
			Name: "starting", About: "a pod that is deleted while its sandbox is starting", Start: making,
			Chances: map[Chance]uint8{AgentCrash: 1, ControllerCrash: 1, KubeletFreeze: 1, KubeletThaw: 1, HalfMade: 1, DelLost: 1, Force: 1},
		},
		{
			Name: "unloaded", About: "a runtime that is restarted and fails to load a sandbox, which runs on", Start: running,
			Chances: map[Chance]uint8{Unload: 1, AgentCrash: 1, KubeletFreeze: 1, DelLost: 1},
		},
		{
			Name: "unseen", About: "the same before the manager saw the sandbox; the next one gets its entry", Start: unseen, Restarts: true,
			Chances: map[Chance]uint8{Unload: 1, AgentCrash: 1},
		},
		{
			Name: "absence only", About: "a runtime that does not report namespaces", Start: running, AbsenceOnly: true,
			Chances: map[Chance]uint8{AgentCrash: 1, KubeletFreeze: 1, KubeletThaw: 1, SandboxDies: 1, DelLost: 1},
		},
	}
}

func ofSandboxesMadeAnew() []Scenario {
	return []Scenario{
		{
			Name: "made anew", About: "a sandbox that dies and is made anew; the entry gets the new ID; a kubelet may be late", Start: running,
			Restarts: true, LateKubelet: true, Depth: 22,
			Chances: map[Chance]uint8{SandboxDies: 1, DelLost: 1},
		},
		{
			Name: "made anew, old ID", About: "the same, and the entry stays under the old ID", Start: running, Restarts: true, KeepsID: true,
			Chances: map[Chance]uint8{KubeletFreeze: 1, SandboxDies: 1, DelLost: 1},
		},
		{
			Name: "made anew, no agents", About: "a sandbox is being created when its kubelet, which does not list it, reports the end; no agent runs", Start: unattended,
			Restarts: true, NoAgents: true,
			Chances: map[Chance]uint8{SandboxDies: 1, MissesMaking: 1, DelLost: 2},
		},
		{
			Name: "reboot", About: "a machine that boots again and restarts the pod in place; the entry gets the new ID", Start: running, Restarts: true, Depth: 22,
			Chances: map[Chance]uint8{PowerOff: 1, PowerOn: 1, DelLost: 1},
		},
		{
			Name: "reboot, old ID", About: "the same, and the entry stays under the old ID", Start: running, Restarts: true, KeepsID: true,
			Chances: map[Chance]uint8{PowerOff: 1, PowerOn: 1},
		},
	}
}

func ofForgers() []Scenario {
	return []Scenario{
		{
			Name: "forger, old ID", About: "another client reports the end as the kubelet, and no policy refuses it; the entry stays under the old ID", Start: running,
			Restarts: true, KeepsID: true, Unjudged: true,
			Chances: map[Chance]uint8{Forge: 1, SandboxDies: 1, DelLost: 1},
		},
		{
			Name: "forged machine", About: "another client writes another machine into a Node object, and no policy refuses it", Start: running, Unjudged: true,
			Chances: map[Chance]uint8{ForgeMachine: 1, KubeletFreeze: 1, KubeletThaw: 1, DelLost: 1},
		},
		{
			Name: "forged report of a kubelet", About: "another client writes as the kubelet of a machine that is off and whose Node is gone, and no policy refuses it", Start: lost,
			Unjudged: true, Restarts: true,
			Chances: map[Chance]uint8{ForgeLife: 1, PowerOn: 1},
		},
		{
			Name: "forger, refused", About: "another client tries all that, and the policies refuse it; no agent runs", Start: unattended, NoAgents: true,
			Chances: map[Chance]uint8{Forge: 1, ForgeMachine: 1, KubeletFreeze: 1, KubeletThaw: 1, DelLost: 1},
		},
	}
}

func ofMachines() []Scenario {
	return []Scenario{
		{
			Name: "re-registration", About: "a Node object that is deleted and registered again, with another machine in between", Start: queried, Returns: true, Depth: 13,
			Chances: map[Chance]uint8{NodeDelete: 2},
		},
		{
			Name: "re-registration, unresponsive", About: "the same, and no agent and no kubelet runs on the first machine until it registers again", Start: unresponsive, Returns: true,
			Chances: map[Chance]uint8{NodeDelete: 2, KubeletThaw: 1},
		},
		{
			Name: "re-registration, no agents", About: "the same, where no agent runs anywhere", Start: agentless, Returns: true, NoAgents: true,
			Chances: map[Chance]uint8{NodeDelete: 2, DelLost: 1, KubeletFreeze: 1, KubeletThaw: 1, KubeletRestart: 2},
		},
		{
			Name: "replacement", About: "another machine under the name, which runs the pod again; pools by node", Start: running, Restarts: true, PoolPerNode: true, Depth: 17,
			Chances: map[Chance]uint8{NodeDelete: 1, Replace: 1},
		},
		{
			Name: "taken over", About: "another machine that reports into the same Node object, and the old one again", Start: queried, Returns: true, Depth: 15,
			Chances: map[Chance]uint8{TakeOver: 2},
		},
		{
			Name: "taken over, no agents", About: "the same, where no agent runs anywhere", Start: agentless, Returns: true, NoAgents: true,
			Chances: map[Chance]uint8{TakeOver: 2, DelLost: 1, KubeletFreeze: 1, KubeletThaw: 1},
		},
		{
			Name: "out-of-service taint", About: "an out-of-service taint, perhaps while the node lives", Start: running, PrematureTaint: true, Depth: 23,
			Chances: map[Chance]uint8{TaintNode: 2, UntaintNode: 1, KubeletFreeze: 1, PowerOff: 1},
		},
		{
			Name: "out-of-service taint, no agent", About: "an out-of-service taint on a Ready node without an agent", Start: unattended, PrematureTaint: true,
			Chances: map[Chance]uint8{TaintNode: 1, DelLost: 1, Force: 1},
		},
	}
}

func ofOrphans() []Scenario {
	return []Scenario{
		{
			Name: "orphan, no mishap", About: "two nodes, a sandbox of unknown node, and nothing that goes wrong", Start: orphaned, Orphan: true,
		},
		{
			Name: "orphan", About: "two nodes, a sandbox of unknown node", Start: orphaned, Orphan: true, Depth: 12,
			Chances: map[Chance]uint8{ControllerCrash: 1, KubeletFreeze: 1},
		},
		{
			Name: "orphan, starting", About: "two nodes, a sandbox of unknown node that is being created, and an agent that may be started again", Start: orphanedEarly, Orphan: true,
			Chances: map[Chance]uint8{AgentCrash: 1},
		},
		{
			Name: "same name", About: "a second pod of the name on another node, while the first one's sandbox lives", Start: sameName, Orphan: true, PoolPerNode: true, Depth: 12,
			Chances: map[Chance]uint8{KubeletFreeze: 1, SecondDeleted: 1},
		},
	}
}
