// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// agent is the agent on one machine.
func (t *turn) agent(i int) {
	machine, a := t.From.Machine[i], t.From.Agent[i]
	if !machine.Up || machine.AgentLess {
		return
	}
	if !a.Up {
		if machine.Running && machine.Linked {
			to := t.From
			to.Agent[i].Up = true
			t.Owed(to, t.Say("the agent on machine %d starts, and remembers nothing", i))
		}
		return
	}
	if t.May(AgentCrash) {
		to := t.From
		to.Agent[i].Up = false
		t.Chance(AgentCrash, to, t.Say("the agent on machine %d crashes", i))
	}
	if machine.Linked {
		t.token(i)
		t.deliver(i)
	}
	t.list(i)
	if machine.Linked && a.Listed {
		t.report(i)
	}
}

// token: the kubelet has the agent's token issued for the present Node object.
func (t *turn) token(i int) {
	node := t.From.Node[t.From.Machine[i].Name]
	if t.From.Machine[i].Running && node.UID != 0 && int(node.Machine) == i && t.From.Agent[i].Token != node.UID {
		to := t.From
		to.Agent[i].Token = node.UID
		t.Owed(to, t.Say("the agent on machine %d gets a token for Node UID %d", i, node.UID))
	}
}

// visible are the queries that the watch of an agent shows.
func (s *State) visible(i int) [queries]Query {
	if s.Rec.Kind == RecordNone || (s.Rec.At != noName && s.Rec.At != s.Machine[i].Name) {
		return [queries]Query{}
	}
	return s.Rec.Query
}

// deliver: the watch shows the present queries.
func (t *turn) deliver(i int) {
	now := t.From.visible(i)
	if now == t.From.Agent[i].View {
		return
	}
	to := t.From
	a := &to.Agent[i]
	for k := range now {
		if now[k].Epoch == a.View[k].Epoch && now[k].All == a.View[k].All && (now[k].CreationDone == a.View[k].CreationDone || t.m.Off == CreationDoneLate) {
			continue
		}
		a.Fresh[k] = false
		if now[k].Epoch == 0 && k != anyQuery {
			a.Absence[k] = AbsenceNone
		}
	}
	a.View = now
	if a.View == ([queries]Query{}) {
		a.drop(t.m.Off)
	}
	t.Owed(to, t.Say("the watch shows the agent on machine %d the present queries%s", i, describeQueries(now)))
}

// drop drops a list, unless lists are cached.
func (a *Agent) drop(off Switch) {
	a.Fresh = [queries]bool{}
	if off != CachedList {
		a.Listed, a.List = false, [boxes]Phase{}
	}
}

// list: the agent lists the runtime.
func (t *turn) list(i int) {
	to := t.From
	a := &to.Agent[i]
	cached := t.m.Off == CachedList && a.Listed
	if !cached {
		for b, box := range to.Box {
			a.List[b] = box.Phase.listed(int(box.Machine) == i)
		}
	}
	for b, phase := range a.List {
		if phase != BoxNone && phase != BoxUnloaded {
			a.Seen[b] = podOf(to.Box[b]) + 1
		}
	}
	isQueried := a.View != [queries]Query{}
	a.lengthen(&to)
	a.Listed = true
	if !isQueried {
		a.drop(t.m.Off)
	}
	t.Owed(to, t.Say("the agent on machine %d lists the runtime: %s", i, describeList(a.List)))
}

// lengthen adds the list to the sequences.
func (a *Agent) lengthen(s *State) {
	for k := range a.View {
		a.Fresh[k] = a.View[k].Epoch != 0
		switch {
		case a.shows(s, k) || (a.View[k].Epoch == 0 && k != anyQuery):
			a.Absence[k] = AbsenceNone
		case a.Absence[k] == AbsenceNone && a.begins(k):
			a.Absence[k] = AbsenceBegun
		}
	}
}

// begins says whether a query stands with which the sequence begins. That of any sandbox of the pod begins with a query about one of them after
// the pod's termination, and outlives it; here without a bound.
func (a *Agent) begins(k int) bool {
	if k != anyQuery || a.View[k].Epoch != 0 {
		return a.View[k].Epoch != 0
	}
	return slices.ContainsFunc(a.View[:anyQuery], func(m Query) bool { return m.Epoch != 0 && !m.All && !m.Living && m.Taint == 0 })
}

// listed is the phase in which the runtime of a sandbox's machine lists it.
func (p Phase) listed(here bool) Phase {
	if here && (p == BoxReady || p == BoxOpen || p == BoxClosed || p == BoxUnloaded) {
		return p
	}
	return BoxNone
}

// shows says whether the list has the subject of a query.
func (a *Agent) shows(s *State, k int) bool {
	if k != anyQuery {
		return a.List[k] != BoxNone
	}
	for b, phase := range a.List {
		if !s.Box[b].Second && phase.running() {
			return true
		}
	}
	return false
}

// respondsFor is the Node UID for which the agent may respond, by a live read; 0 for none.
func (s *State) respondsFor(i int) uint8 {
	name := s.Machine[i].Name
	responder := handshake.Responder{NodeName: nodeName(name), Host: identity(Ident{Machine: uint8(i), Boot: s.Machine[i].Boot}),
		Token: handshake.Token{NodeName: nodeName(name), NodeUID: nodeUID(s.Agent[i].Token), PodUID: agentUID}}
	if node := s.Node[name]; node.UID != 0 {
		live := identity(node.shown())
		responder.Node = &live
	}
	if uid, _, _ := responder.RespondsFor(); uid == "" {
		return 0
	}
	return s.Agent[i].Token
}

// report: the agent judges its list and writes its responses.
func (t *turn) report(i int) {
	to := t.From
	a := &to.Agent[i]
	view := a.View
	me := to.respondsFor(i)
	var written []string
	for k := range view {
		if me == 0 || view[k].Epoch == 0 || to.visible(i)[k].Epoch == 0 {
			continue
		}
		outcome := t.m.outcome(&t.From, i, k, me)
		wrote := ""
		if view[k].All {
			wrote = t.respond(&to, i, me, view[k], outcome)
		} else {
			wrote = t.write(&to, i, k, me, outcome)
		}
		if wrote != "" {
			written = append(written, wrote)
		}
	}
	a.drop(t.m.Off)
	label := t.Say("the agent on machine %d responds: %s", i, strings.Join(written, "; "))
	if len(written) == 0 && to.Rec == t.From.Rec && to.Acknowledged == t.From.Acknowledged {
		label = t.Say("the agent on machine %d has no new response", i)
	}
	t.Owed(to, label)
}

// write writes a response into the record, unless the record has it or has a final one.
func (t *turn) write(to *State, i, k int, me uint8, outcome handshake.Outcome) string {
	query := to.Agent[i].View[k]
	given := to.Rec.response(k, me)
	if outcome.Kind != handshake.Decided || (given != nil && given.UID == query.UID && handshake.Final(queryOf(k, query), *responseOf(k, given))) {
		return ""
	}
	next := Response{Epoch: query.Epoch, UID: me, Boot: bootKey(uint8(i), to.Machine[i].Boot), Ready: outcome.Verdict == v1alpha1.VerdictReadyForRelease,
		Reason: reasonIndex(string(outcome.Reason)), Pod: podIndex(outcome.PodUID), Next: boxIndex(outcome.SuccessorID)}
	if given != nil && *given == next {
		return ""
	}
	to.Rec.put(k, next)
	if !t.Explain {
		return ""
	}
	return string(outcome.Verdict) + " about " + boxID(k) + " (" + string(outcome.Reason) + ")"
}

// response is the response of a Node UID in the record; nil without one.
func (r *Record) response(k int, uid uint8) *Response {
	for n := range r.Response[k] {
		if given := &r.Response[k][n]; given.Epoch != 0 && given.UID == uid {
			return given
		}
	}
	return nil
}

// put keeps one response for each Node UID; of more than two, that of the queried Node stays.
func (r *Record) put(k int, next Response) {
	at := 0
	for n := range r.Response[k] {
		switch given := r.Response[k][n]; {
		case given.Epoch != 0 && given.UID == next.UID:
			r.Response[k][n] = next
			return
		case given.Epoch == 0 || given.UID != r.Query[k].UID:
			at = n
		}
	}
	r.Response[k][at] = next
	if r.Response[k][0].Epoch == 0 {
		r.Response[k][0], r.Response[k][1] = r.Response[k][1], Response{}
	}
}

// respond writes the response of a node to the query to all nodes, with its claim, if that is due.
func (t *turn) respond(to *State, i int, me uint8, query Query, outcome handshake.Outcome) string {
	name, boot := to.Machine[i].Name, bootKey(uint8(i), to.Machine[i].Boot)
	standing := &v1alpha1.AllNodesResponse{}
	if last := to.Acknowledged[name]; last.UID == me {
		standing.UID, standing.BootID, standing.Generation = allUID, bootID(last.Boot), int64(last.Generation)
	}
	if given := to.Rec.response(0, me); given != nil {
		standing.Claims = []v1alpha1.SandboxClaim{{SandboxID: boxID(0), BootID: bootID(given.Boot), Reason: responseOf(0, given).Reason, PodUID: podUID(given.Pod)}}
	}
	all := handshake.AllNodesFindings{UID: allUID, Generation: int64(query.Epoch),
		Findings: []handshake.Finding{{SandboxID: boxID(0), Epoch: int64(query.Epoch), Outcome: outcome}}}
	next, due := all.Respond(standing, bootID(boot), now)
	if !due {
		return ""
	}
	to.Acknowledged[name] = Acknowledgment{UID: me, Boot: boot, Generation: uint8(next.Generation)}
	for _, claim := range next.Claims {
		if given := to.Rec.response(0, me); given == nil || claim.BootID == bootID(boot) {
			to.Rec.put(0, Response{Epoch: query.Epoch, UID: me, Boot: boot, Reason: reasonIndex(claim.Reason), Pod: podIndex(claim.PodUID)})
		}
	}
	if !t.Explain {
		return ""
	}
	return "it responds to the query to all nodes"
}
