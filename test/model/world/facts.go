// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// The pure code is told times. In the model each of them is either a moment ago or longer ago than any delay.
const delay = 10 * time.Minute

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func since(long bool) time.Time {
	if long {
		return now.Add(-2 * delay)
	}
	return now
}

// observe puts what a pass has read into the terms of the decision table.
func (m *Model) observe(s *State, v sight) release.Observation {
	o := release.Observation{
		Evidence: m.evidence(), Live: v.live, Recorded: s.Rec.Slot != [boxes]Slot{}, UID: s.recordUID(),
		Pod: release.Absent[release.Pod](), Last: release.Pod{Deleting: true, Bound: true, Ending: release.EndingNone},
		Sandboxes: m.sandboxes(s, v), Node: release.Absent[release.Node](), NodeGoneSince: release.Absent[time.Time](),
		Any:      m.asked(v, anyMark),
		Settings: release.Settings{ReleaseDelay: delay, SandboxCreationMax: delay, NodeGoneDelay: delay, ResponseWithin: delay},
	}
	if node := v.node[s.Rec.At]; node.UID != 0 {
		o.Node = release.Known(m.nodeFacts(s, v, node))
	}
	if v.pod.There && s.Rec.Kind != RecordOrphan {
		facts := s.podFacts(v.pod)
		facts.Ending = m.ending(v.pod)
		if m.Off == WriterIgnored {
			facts.EndedBy = release.Known(o.Node.Get().Machine)
		}
		o.Pod = release.Known(facts)
	}
	if s.Rec.Kind == RecordOrphan {
		o.UID = reportedUID(o.Sandboxes.Get())
	}
	if s.Rec.Gone {
		o.NodeGoneSince = release.Known(since(true))
	}
	o.PoliciesSince = m.judgedSince(ForgedMachine)
	o.Last.Begun = begun
	if m.Off == ReportIgnored && v.pod.Finished {
		o.Evidence = release.EvidenceKubelet // the kubelet's report is enough
	}
	if m.Off == FenceNotAsked {
		m.trustTaintAlone(&o)
	}
	return o
}

// reportedUID is the pod UID that the node of an orphan reports; no other object has it.
func reportedUID(sandboxes []release.Sandbox) (uid types.UID) {
	for i := range sandboxes {
		if sandboxes[i].Response.IsKnown() && sandboxes[i].Response.Get().PodUID != "" {
			uid = sandboxes[i].Response.Get().PodUID
		}
	}
	return uid
}

// evidence is whose word shows that a sandbox is gone.
func (m *Model) evidence() release.Evidence {
	if m.Scenario.NoAgents {
		return release.EvidenceKubelet
	}
	return release.EvidenceAgent
}

// begun is when the pods were bound: the first Node objects were there, and all others came later.
var begun = now.Add(-4 * delay)

// registered is when a Node object was made.
func registered(uid, name uint8) time.Time {
	if uid == boundUID(name) {
		return begun.Add(-delay)
	}
	return begun.Add(delay)
}

func (s *State) podFacts(pod Pod) release.Pod {
	facts := release.Pod{Deleting: pod.Deleting, Bound: true, Ending: release.EndingNone, Begun: begun, EndedBy: release.Absent[release.Machine](),
		AliveNodeUID: nodeUID(s.Rec.Alive)}
	if pod.Empty != 0 {
		facts.TornDown = begun
	}
	if s.Rec.At != noName && pod.Empty == s.Node[s.Rec.At].UID && pod.Empty != 0 {
		facts.TornDown = registered(pod.Empty, s.Rec.At).Add(time.Second)
	}
	if s.Rec.End.UID != 0 {
		facts.EndedBy = release.Known(machineOf(s.Rec.End))
	}
	if pod.Deleting {
		facts.Deadline, facts.DeletionRequested = now, now.Add(-3*delay)
		if pod.Over {
			facts.Deadline = since(true)
		}
	}
	if !pod.Over && pod.Deleting {
		facts.Deadline = now.Add(delay)
	}
	if pod.Finished {
		facts.Ending = release.EndingFinished
	}
	return facts
}

// ending is how the pod ended, as far as what shows it can be trusted.
func (m *Model) ending(pod Pod) release.Ending {
	switch {
	case !pod.Finished:
		return release.EndingNone
	case m.Scenario.NoAgents || release.Authentic(begun, now.Add(-3*delay), false, m.judgedSince(ForgedEnd)):
		return release.EndingFinished
	}
	return release.EndingForeign
}

// sandboxes are those that have entries and belong to the record.
func (m *Model) sandboxes(s *State, v sight) release.Fact[[]release.Sandbox] {
	var found []release.Sandbox
	for addr := range v.entry {
		b := int(v.entry[addr].Holder) - 1
		if b < 0 || b >= boxes || (s.Box[b].Second && s.Rec.Kind != RecordOfSecond) || !s.Rec.Slot[b].Known {
			continue
		}
		asked := m.asked(v, b)
		found = append(found, release.Sandbox{ID: boxID(b), Machine: m.machine(s, b), Attribution: m.owner(s, b),
			UnchangedSince: since(s.Rec.Slot[b].Long), Query: asked.Query, Response: asked.Response, Shown: s.shows(addr)})
	}
	if len(found) == 0 {
		return release.Absent[[]release.Sandbox]()
	}
	return release.Known(found)
}

// shows: the network-status of the pod that lives has the address.
func (s *State) shows(addr int) bool {
	for _, box := range s.Box {
		if box.Shown && int(box.Addr) == addr && !box.Second {
			return true
		}
	}
	return false
}

// showed: it had the address before the pod was deleted.
func (s *State) showed(addr int) bool {
	for _, box := range s.Box {
		if box.Shown && !box.Late && int(box.Addr) == addr && !box.Second {
			return true
		}
	}
	return false
}

// machine is the recorded machine of a sandbox.
func (m *Model) machine(s *State, b int) release.Fact[release.Machine] {
	ident := s.Rec.Slot[b].Ident
	if m.Off == IdentityPerPod {
		for _, slot := range s.Rec.Slot {
			if slot.Ident.UID != 0 {
				ident = slot.Ident // the pod's last
			}
		}
	}
	if ident.UID == 0 {
		return release.Unknown[release.Machine]("no live read of the node has succeeded since its entry was seen")
	}
	return release.Known(machineOf(ident))
}

// nodeFacts is the Node as Decide is shown it.
func (m *Model) nodeFacts(s *State, v sight, node Node) release.Node {
	facts := m.node(s, node)
	if m.Off == ReplacementBelieved && v.pod.Finished {
		if ident := s.Rec.Slot[0].Ident; ident.UID != 0 {
			facts.Machine = machineOf(ident)
		}
	}
	return facts
}

// node puts a Node object into facts. The taint is older than the questions that were asked because of it, and younger than others.
func (m *Model) node(s *State, node Node) release.Node {
	facts := release.Node{Machine: machineOf(node.shown()), Registered: registered(node.UID, s.Rec.At), Ready: node.Ready, ReadySince: begun}
	if node.Taint == 0 {
		return facts
	}
	facts.OutOfService = true
	facts.OutOfServiceSince = taintTime(node.Taint, s.waited(node.Taint)).Add(-time.Millisecond)
	if !node.Ready {
		facts.ReadySince = facts.OutOfServiceSince.Add(2 * early)
	}
	if m.Off == TaintAlone {
		facts.Ready = false
	}
	return facts
}

// waited: releaseDelay has passed since a question that was asked because of the taint.
func (s *State) waited(taint uint8) bool {
	for _, mark := range s.Rec.Mark {
		if mark.Taint == taint && mark.Waited {
			return true
		}
	}
	return false
}

// early is the time between a taint, a query while the Node is Ready, and the Node being not Ready.
const early = 100 * time.Microsecond

func taintTime(taint uint8, long bool) time.Time {
	at := now.Add(-delay/2 + time.Duration(taint)*time.Second)
	if long {
		at = at.Add(-2 * delay)
	}
	return at
}

// asked is a question and the answer to it as they stand in what was read. With AnswerKept nobody remembers whether the pod lived
// when it was asked.
func (m *Model) asked(v sight, k int) release.Exchange {
	asked := release.Exchange{Query: release.Absent[release.Query](), Response: release.Absent[release.Response]()}
	mark := v.mark[k]
	if mark.Epoch == 0 || mark.All {
		return asked
	}
	stands := release.Query{SandboxID: boxID(k), NodeUID: nodeUID(mark.UID), BootID: bootID(mark.Boot), Epoch: int64(mark.Epoch), Time: now, OutOfService: mark.Taint != 0,
		Rewrite: mark.Living && m.Off != AnswerKept}
	if mark.Taint != 0 {
		stands.Time = taintTime(mark.Taint, mark.Waited)
		if mark.Early {
			stands.Time = stands.Time.Add(-time.Millisecond + early)
		}
	}
	asked.Query = release.Known(stands)
	asked.Response = m.answered(v, k, mark.UID, stands)
	return asked
}

// answered is the answer of the Node UID that is asked; where only the sandbox ID is looked at, anybody's.
func (m *Model) answered(v sight, k int, uid uint8, mark release.Query) release.Fact[release.Response] {
	answer := release.Absent[release.Response]()
	for n := range v.answer[k] {
		given := &v.answer[k][n]
		if given.Epoch == 0 || (given.UID != uid && m.Off != BySandboxAlone) {
			continue
		}
		if said := m.taken(wordOf(k, given), mark); !answer.IsKnown() || said.Verdict == v1alpha1.VerdictReadyForRelease {
			answer = release.Known(said)
		}
	}
	return answer
}

// taken is an answer as the switches let it be taken.
func (m *Model) taken(said release.Response, mark release.Query) release.Response {
	switch m.Off {
	case AnswerKept:
		said.Epoch = mark.Epoch
	case OtherBoot:
		said.BootID = mark.BootID
	case BySandboxAlone:
		said.Epoch, said.NodeUID, said.BootID = mark.Epoch, mark.NodeUID, mark.BootID
	default: // as it is
	}
	return said
}

// trustTaintAlone is row NodeOutOfService as it would be if the node of a fence were not asked: its silence is taken for granted.
func (m *Model) trustTaintAlone(o *release.Observation) {
	node := o.Node.Get()
	if !o.Sandboxes.IsKnown() || !node.OutOfService || node.Ready {
		return
	}
	sandboxes := append([]release.Sandbox(nil), o.Sandboxes.Get()...)
	for i := range sandboxes {
		sandboxes[i].Query = release.Known(release.Query{SandboxID: sandboxes[i].ID, NodeUID: node.NodeUID, BootID: node.BootID, Epoch: 1,
			Time: node.OutOfServiceSince.Add(time.Millisecond).Add(-2 * delay), OutOfService: true})
		sandboxes[i].Response = release.Absent[release.Response]()
	}
	node.OutOfServiceSince, node.ReadySince = time.Time{}, time.Time{}
	o.Node, o.Sandboxes = release.Known(node), release.Known(sandboxes)
}

// owner says whether an entry's sandbox belongs to the record's UID, by the evidence that there is.
func (m *Model) owner(s *State, b int) v1alpha1.Attribution {
	second := s.Second.There && (s.Box[b].Second || m.Scenario.Orphan)
	if !second {
		switch {
		case m.Scenario.Orphan:
			return v1alpha1.AttributionNone
		case !m.Scenario.NoAgents:
			return v1alpha1.AttributionNetworkStatus // agents are queried, whatever ties the sandbox to the pod; what is its own is not disowned
		}
		return m.confirmed(s, b)
	}
	if m.Off == ByName {
		return v1alpha1.AttributionNetworkStatus // the entry has the pod's name, and that is taken for as good as what the pod shows
	}
	candidate := ownership.Candidate{UID: secondUID, BoundSeen: now.Add(-delay), Shown: []ownership.Shown{{IP: address(1)}}}
	return ownership.Of(ownership.Entry{IP: address(b), SandboxID: boxID(b), SeenSince: now.Add(-2 * delay)}, []ownership.Candidate{candidate}).Attribution
}

// confirmed is what ties a sandbox to the pod where no agent is installed: network-status shows addresses, and not whose they are.
func (m *Model) confirmed(s *State, b int) v1alpha1.Attribution {
	addr := s.Box[b].Addr
	candidate := ownership.Candidate{UID: firstUID, BoundSeen: now.Add(-delay), Ending: s.Pod.Deleting && m.Off != StatusAfterEnd}
	shown := []ownership.Shown{{IP: address(int(addr))}}
	if s.shows(int(addr)) {
		candidate.Shown = shown
	}
	if s.showed(int(addr)) || (s.shows(int(addr)) && m.Off == StatusAfterEnd) {
		candidate.ShownAlive = shown
	}
	if other := 1 - b; m.Off != StatusOfPredecessor && s.Rec.Slot[other].Known && s.Box[other].Addr == addr {
		candidate.Addresses = map[netip.Addr]string{address(int(addr)): boxID(other)}
	}
	if slot := s.Rec.Slot[b]; slot.Known {
		recorded := v1alpha1.AttributionObservedAdd
		if slot.Later && m.Off != StatusOfPredecessor {
			recorded = v1alpha1.AttributionUnconfirmed
		}
		candidate.Sandboxes = map[string]v1alpha1.Attribution{boxID(b): recorded}
	}
	return ownership.Of(ownership.Entry{IP: address(int(addr)), SandboxID: boxID(b), AddObserved: true, SeenSince: now}, []ownership.Candidate{candidate}).Attribution
}

func address(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(n + 1)}) }
