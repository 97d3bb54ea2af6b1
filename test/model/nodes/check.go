// SPDX-License-Identifier: Apache-2.0

package nodes

import "fmt"

// excused: an administrator declared the sandbox's machine dead, and nothing contradicts it: no Node object has reported it for the whole delay and
// its kubelet wrote nothing; or its Node is out of service, and for releaseDelay after the query no agent ran that could have responded.
func (s *State) excused() bool {
	i := s.Pod.Machine
	machine := s.Machine[i]
	node := s.reporter(i)
	if node.UID == 0 {
		return machine.Absent >= long
	}
	g := s.gn(node.UID)
	return node.Taint && !node.Ready && g.Query.Waited && !g.Query.Reachable && !g.reported()
}

// reported: the standing query has the response that the sandbox is not gone.
func (g *GuardedNode) reported() bool {
	return g.Query.Epoch != 0 && g.Response.Epoch == g.Query.Epoch && !g.Response.Ready && !g.Response.Claimed
}

// Violation is the promise: no address is released while its sandbox is alive, unless that is excused.
func (m *Model) Violation(s State) string {
	if s.Bad != 0 {
		return fmt.Sprintf("the address was released while the pod's sandbox on machine %s is alive, and no declaration stands uncontradicted", name(s.Pod.Machine))
	}
	return ""
}

// Unrest says what is still to be done.
func (m *Model) Unrest(s State) string {
	switch {
	case !s.Mgr.Up || s.Mgr.Pass.Kind != PassNone || s.Old.Kind != PassNone:
		return "a manager is at work"
	case !s.Released:
		return m.heldFor(&s)
	}
	for u := range s.GN {
		if s.GN[u].Query.Epoch != 0 {
			return fmt.Sprintf("the query in GuardedNode U%d stands for ever", u+1)
		}
		if s.GN[u].Inst != 0 && !s.registered(uint8(u)+1) {
			return fmt.Sprintf("GuardedNode U%d stands for ever", u+1)
		}
	}
	if s.All.Epoch != 0 {
		return "the query to all nodes stands for ever"
	}
	return ""
}

// heldFor says what should end the hold; empty if it is right.
func (m *Model) heldFor(s *State) string {
	i := s.Pod.Machine
	node := s.reporter(i)
	switch {
	case !s.Pod.Deleting:
		return ""
	case s.Rec.Orphan && s.Rec.UID == 0:
		return m.orphanHeld(s)
	case node.UID == 0:
		return "no Node has reported the machine for the delay, and still its address is held"
	case node.Taint && !node.Ready && !s.connected(i):
		if g := s.gn(node.UID); g.reported() && g.Query.OutOfService {
			return "" // its agent reported the sandbox after the declaration
		}
		return "its node is out of service and does not respond, and still its address is held"
	case s.Pod.Alive || m.unreachable(s, i):
		return ""
	}
	return "its sandbox is gone and its node can be reached, and still its address is held"
}

// connected: an agent on the machine runs and reaches the API server.
func (s *State) connected(i uint8) bool {
	return s.Machine[i].Up && s.Machine[i].Linked && s.Agent[i].Up
}

// orphanHeld: an orphan is held while a node of unknown state cannot be reached, or has its sandbox.
func (m *Model) orphanHeld(s *State) string {
	for _, node := range s.Node {
		if node.UID != 0 && m.unreachable(s, node.Machine) {
			return ""
		}
	}
	return "every node can be reached or is gone, and still the orphan is of unknown node"
}

// unreachable: no agent on the machine can respond, and no kubelet starts one.
func (m *Model) unreachable(s *State, i uint8) bool {
	machine := s.Machine[i]
	running := s.Agent[i].Up || !machine.Frozen
	return !machine.Up || !machine.Linked || machine.Unreadable || !running || s.reporter(i).Boot != machine.Boot
}
