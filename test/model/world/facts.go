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

// The pure code compares times. In the model each time is either a moment ago or longer ago than any delay.
const delay = 10 * time.Minute

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func since(long bool) time.Time {
	if long {
		return now.Add(-2 * delay)
	}
	return now
}

// observe converts what a pass has read for the decision table.
func (m *Model) observe(s *State, v sight) release.Observation {
	o := release.Observation{
		Evidence: m.evidence(), Live: v.live, Recorded: s.Rec.Slot != [boxes]Slot{}, UID: s.recordUID(),
		Pod: release.Absent[release.Pod](), Last: release.Pod{Deleting: true, Bound: true, Ending: release.EndingNone},
		Sandboxes: m.sandboxes(s, v), Node: release.Absent[release.Node](), NodeGoneSince: release.Absent[time.Time](),
		Any:      m.exchange(v, anyQuery),
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
	if m.Off == TaintNotQueried {
		m.trustTaintAlone(&o)
	}
	return o
}

// reportedUID is the pod UID that the node of an orphan reports; it is in no other object.
func reportedUID(sandboxes []release.Sandbox) (uid types.UID) {
	for i := range sandboxes {
		if sandboxes[i].Response.IsKnown() && sandboxes[i].Response.Get().PodUID != "" {
			uid = sandboxes[i].Response.Get().PodUID
		}
	}
	return uid
}

// evidence is the kind of evidence of the scenario.
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

// ending is the ending of the pod that can be trusted.
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
		exchange := m.exchange(v, b)
		found = append(found, release.Sandbox{ID: boxID(b), Machine: m.machine(s, b), Attribution: m.owner(s, b),
			UnchangedSince: since(s.Rec.Slot[b].Long || m.Off == StatusCounted && s.shows(addr)), Query: exchange.Query, Response: exchange.Response, Shown: s.shows(addr)})
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

// nodeFacts is the Node for Decide.
func (m *Model) nodeFacts(s *State, v sight, node Node) release.Node {
	facts := m.node(s, node)
	if m.Off == ReplacementTrusted && v.pod.Finished {
		if ident := s.Rec.Slot[0].Ident; ident.UID != 0 {
			facts.Machine = machineOf(ident)
		}
	}
	return facts
}

// node converts a Node object. The taint is older than the queries that were made because of it, and younger than others.
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

// waited: releaseDelay has passed since a query that was made because of the taint.
func (s *State) waited(taint uint8) bool {
	for _, query := range s.Rec.Query {
		if query.Taint == taint && query.Waited {
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

// exchange is a query and the response to it, as they were read. With ResponseKept it is not remembered whether the pod lived when the query was
// made.
func (m *Model) exchange(v sight, k int) release.Exchange {
	exchange := release.Exchange{Query: release.Absent[release.Query](), Response: release.Absent[release.Response]()}
	query := v.query[k]
	if query.Epoch == 0 || query.All {
		return exchange
	}
	stands := release.Query{SandboxID: boxID(k), NodeUID: nodeUID(query.UID), BootID: bootID(query.Boot), Epoch: int64(query.Epoch), Time: now, OutOfService: query.Taint != 0,
		Rewrite: query.Living && m.Off != ResponseKept}
	if query.Taint != 0 {
		stands.Time = taintTime(query.Taint, query.Waited)
		if query.Early {
			stands.Time = stands.Time.Add(-time.Millisecond + early)
		}
	}
	exchange.Query = release.Known(stands)
	exchange.Response = m.responseTo(v, k, query.UID, stands)
	return exchange
}

// responseTo is the response of the queried Node UID; if only the sandbox ID is compared, of any.
func (m *Model) responseTo(v sight, k int, uid uint8, query release.Query) release.Fact[release.Response] {
	found := release.Absent[release.Response]()
	for n := range v.response[k] {
		given := &v.response[k][n]
		if given.Epoch == 0 || (given.UID != uid && m.Off != BySandboxAlone) {
			continue
		}
		if response := m.altered(releaseResponse(k, given), query); !found.IsKnown() || response.Verdict == v1alpha1.VerdictReadyForRelease {
			found = release.Known(response)
		}
	}
	return found
}

// altered is a response with the changes that a switch makes.
func (m *Model) altered(response release.Response, query release.Query) release.Response {
	switch m.Off {
	case ResponseKept:
		response.Epoch = query.Epoch
	case OtherBoot:
		response.BootID = query.BootID
	case BySandboxAlone:
		response.Epoch, response.NodeUID, response.BootID = query.Epoch, query.NodeUID, query.BootID
	default: // unchanged
	}
	return response
}

// trustTaintAlone is row NodeOutOfService without a query to the node: its agent counts as not responding.
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
			return v1alpha1.AttributionNetworkStatus // agents are queried, with any attribution; only a foreign sandbox is disowned
		}
		return v1alpha1.AttributionObservedAdd
	}
	if m.Off == ByName {
		return v1alpha1.AttributionNetworkStatus // the pod's name in the entry counts like its network-status
	}
	candidate := ownership.Candidate{UID: secondUID, BoundSeen: now.Add(-delay), Shown: []ownership.Shown{{IP: address(1)}}}
	return ownership.Of(ownership.Entry{IP: address(b), SandboxID: boxID(b), SeenSince: now.Add(-2 * delay)}, []ownership.Candidate{candidate}).Attribution
}

func address(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(n + 1)}) }
