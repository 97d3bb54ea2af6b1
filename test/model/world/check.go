// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Violation is the promise: no address is given to another pod while a sandbox that uses it is alive.
func (m *Model) Violation(s State) string {
	for addr, entry := range s.Entry {
		if entry.Others > 1 {
			return fmt.Sprintf("address %d was given to another pod while the one that had it before is alive", addr)
		}
		if entry.Others == 0 {
			continue
		}
		for b, box := range s.Box {
			if int(box.Addr) == addr && box.Phase.running() {
				return fmt.Sprintf("address %d was given to another pod while sandbox s%d on machine %d uses it: it is %s", addr, b, box.Machine, box.Phase)
			}
		}
	}
	return ""
}

// unexplained are reasons that explain no hold of the model, in which every owner is a sandbox and every read succeeds.
var unexplained = []v1alpha1.Reason{"", v1alpha1.ReasonUnclassified, v1alpha1.ReasonObservationFailed, v1alpha1.ReasonOwnerKindUnknown}

// Unrest says why the end of the story is not reached, and nothing explains it.
func (m *Model) Unrest(s State) string {
	switch {
	case s.Ctl.Stage != StageIdle:
		return "the controller is in the middle of a pass"
	case m.ended(&s):
		return ""
	}
	reason, waits := m.explain(&s)
	switch {
	case !waits:
		return "something is still to be done: " + string(reason)
	case slices.Contains(unexplained, reason):
		return "it is held, and the reason explains nothing: " + string(reason)
	case reason == v1alpha1.ReasonMachineUnknown:
		return "" // the machine was not recorded: held by design
	case m.Scenario.NoAgents && reason == v1alpha1.ReasonKubeletNotFinished && s.subject().Finished:
		return "" // no kubelet can be shown to have terminated the pod, and no agent can be queried: held, and reported, until a kubelet is restarted
	}
	if s.goneAndOff(reason) {
		return "its Node is gone and its machine is off, and still it is held: " + string(reason)
	}
	return m.overdue(&s, reason)
}

// ended: there is nothing to be released, or the pod lives.
func (m *Model) ended(s *State) bool {
	pod := s.subject()
	switch {
	case s.Rec.Kind == RecordOrphan:
		return !s.held()
	case pod.There:
		return !pod.Deleting || (s.Rec.Kind == RecordNone && !s.held())
	case s.Rec.Kind == RecordNone && !m.Scenario.Orphan:
		return true // what a late kubelet has made since is an orphan: another scenario
	}
	return !s.held()
}

// held: the pool has an entry of the record.
func (s *State) held() bool {
	return s.any(func(b int) bool { return s.entryOf(b) >= 0 && (!s.Box[b].Second || s.Rec.Kind == RecordOfSecond) })
}

// explain is the reason that the controller reports for a hold.
func (m *Model) explain(s *State) (v1alpha1.Reason, bool) {
	if s.Rec.Kind == RecordNone {
		return "", false
	}
	if s.Rec.Kind == RecordOrphan && s.Rec.At == noName {
		c := *s
		c.Ctl.Acknowledged, c.Ctl.Response = s.Acknowledged, s.Rec.Response
		d := orphan.Decide(m.orphanFacts(&c), now)
		return d.Reason, d.Action == orphan.Wait
	}
	v := sight{live: true, query: s.Rec.Query, response: s.Rec.Response, node: s.Node, pod: *s.subject(), entry: s.Entry}
	d := release.Decide(m.observe(s, v), now)
	return d.Reason, d.Action == release.Wait
}

// overdue: every needed actor runs and no sandbox is left, and the address is still held.
func (m *Model) overdue(s *State, reason v1alpha1.Reason) string {
	if m.unremoved(s) {
		return "" // the runtime lists it, and no kubelet has it removed
	}
	for i := range s.Machine {
		if s.concerned(i) && !m.reachable(s, i) {
			return ""
		}
	}
	for b, box := range s.Box {
		if box.Phase.live() && (!box.Second || s.Rec.Kind == RecordOfSecond) {
			machine := s.Machine[box.Machine]
			if box.Phase == BoxUnloaded || !machine.Running || !s.runs(int(box.Machine), box.Second) {
				return "" // it lives, and no kubelet stops it
			}
			return fmt.Sprintf("sandbox s%d is left to a kubelet that runs (%s)", b, reason)
		}
	}
	return "every sandbox is gone and every queried node can be reached, and still it is held: " + string(reason)
}

// goneAndOff: nothing of the recorded machine can show that it lives.
func (s *State) goneAndOff(reason v1alpha1.Reason) bool {
	return reason == v1alpha1.ReasonNodeGone && s.Rec.Kind == RecordOfPod && s.Node[s.Rec.At].UID == 0 &&
		!slices.ContainsFunc(s.Machine[:], func(machine Machine) bool { return machine.Up && machine.Name == s.Rec.At })
}

// concerned: the machine ran a sandbox of the record, or all nodes are queried.
func (s *State) concerned(i int) bool {
	if s.Rec.At == noName {
		return s.Machine[i].Up || s.Node[s.Machine[i].Name].UID != 0
	}
	for b, slot := range s.Rec.Slot {
		if slot.Known && s.entryOf(b) >= 0 && int(slot.Ident.Machine) == i {
			return true
		}
	}
	for _, box := range s.Box {
		if box.Phase != BoxNone && int(box.Machine) == i && !box.Second {
			return true
		}
	}
	return s.Machine[i].Name == s.Rec.At && int(s.Node[s.Rec.At].Machine) == i
}

// reachable: the machine runs, reaches the API server, has the Node object of its name, and an agent where agents are installed.
func (m *Model) reachable(s *State, i int) bool {
	machine := s.Machine[i]
	agent := s.Agent[i].Up || (machine.Running && (m.Scenario.NoAgents || !machine.AgentLess))
	return machine.Up && machine.Linked && agent && s.registered(i)
}

// registered: the Node object of the machine's name shows this machine, and its agent has a token for it; a kubelet that runs sees to both.
func (s *State) registered(i int) bool {
	machine := s.Machine[i]
	node := s.Node[machine.Name]
	kept := s.Agent[i].Token == node.UID && node.Boot == machine.Boot && !node.Forged
	return node.UID != 0 && int(node.Machine) == i && (kept || machine.Running)
}

// unremoved: a stopped sandbox is listed by a runtime of which only absence counts, and no kubelet has it removed.
func (m *Model) unremoved(s *State) bool {
	for _, box := range s.Box {
		if m.Scenario.AbsenceOnly && box.Phase == BoxClosed && !s.Machine[box.Machine].Running {
			return true
		}
	}
	return false
}
