// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// End is a change that would end the wait, as the decision table itself says when it is asked about the changed facts.
type End struct {
	// What would have to happen.
	What string `json:"what"`
	// Then is what follows: the table's action and reason.
	Then string `json:"then"`
	// Caution says what has to be true before anybody does it.
	Caution string `json:"caution,omitempty"`
}

// change is a change of facts that could come.
type change struct {
	what, caution string
	// unless is another change: where that one alone is enough, this is not told.
	unless string
	// apply changes a copy of the observation; false where it makes no sense.
	apply func(o *release.Observation, now *time.Time) bool
}

// ends asks the table about every change, each by itself, and keeps those that give something away.
func ends(o release.Observation, now time.Time) []End {
	base := release.Decide(o, now)
	if base.Action == release.Release || base.Action == release.Unprotect {
		return []End{{What: "nothing more is needed: a manager that runs does it on its next look (kubectl holdfast doctor says whether one does)", Then: then(base)}}
	}
	var found []End
	seen := map[string]bool{}
	for _, c := range changes(base) {
		changed, at := o, now
		if seen[c.unless] || !c.apply(&changed, &at) {
			continue
		}
		d := release.Decide(changed, at)
		if (d.Action != release.Release && d.Action != release.Unprotect) || seen[c.what] {
			continue
		}
		seen[c.what] = true
		found = append(found, End{What: c.what, Then: then(d), Caution: c.caution})
	}
	return found
}

func then(d release.Decision) string {
	return fmt.Sprintf("%s (%s, row %s)", d.Action, d.Reason, d.Row)
}

const kubeletReports = "the kubelet reports the end of the pod"

func changes(base release.Decision) []change {
	return append([]change{
		{what: "time: in " + base.After.Round(time.Second).String() + ", if nothing else changes", apply: func(_ *release.Observation, now *time.Time) bool {
			*now = now.Add(base.After)
			return base.After > 0
		}},
		{what: kubeletReports, apply: kubeletEnds},
		{what: "the IPAM's entries go by themselves (CNI DEL on the node), and " + kubeletReports, unless: kubeletReports, apply: func(o *release.Observation, now *time.Time) bool {
			return entriesGo(o, now) && kubeletEnds(o, now)
		}},
		{what: "the IPAM's entries go by themselves (CNI DEL on the node)", apply: entriesGo},
		{what: "the node's agent reports that the sandbox is gone", apply: agentsRespond},
		{what: "the other user of the address is proven gone", apply: conflictEnds},
		{what: "the node comes back, and " + kubeletReports, apply: func(o *release.Observation, now *time.Time) bool {
			return nodeReady(o) && kubeletEnds(o, now)
		}},
	}, administratorChanges...)
}

const (
	isTainted       = "the node is tainted node.kubernetes.io/out-of-service and is not Ready"
	isNotResponding = isTainted + ", and its agent, queried once more, does not respond for delays.releaseDelay"
	otherGone       = ", and the other user of the address is proven gone"
	reallyOff       = "only once the machine is really off"
)

// administratorChanges are those that a person makes.
var administratorChanges = []change{
	{what: isTainted, caution: reallyOff + ": nothing is checked after it", apply: taint},
	{what: isNotResponding, unless: isTainted, caution: reallyOff + "; an agent that still responds overrules the taint", apply: taintWithoutResponse},
	{what: "the Node object is deleted and nothing shows that its machine is alive for delays.nodeGoneDelay", caution: "only once the machine is really gone", apply: deleteNode},
	{what: "an address's other user is proven gone, and the kubelet reports the end of the pod", apply: func(o *release.Observation, now *time.Time) bool {
		return conflictEnds(o, now) && kubeletEnds(o, now)
	}},
	{what: isTainted + otherGone, caution: reallyOff, apply: func(o *release.Observation, now *time.Time) bool {
		return conflictEnds(o, now) && taint(o, now)
	}},
	{what: isNotResponding + otherGone, unless: isTainted + otherGone, caution: reallyOff, apply: func(o *release.Observation, now *time.Time) bool {
		return conflictEnds(o, now) && taintWithoutResponse(o, now)
	}},
}

func kubeletEnds(o *release.Observation, now *time.Time) bool {
	if !o.Node.IsKnown() || !o.Node.Get().Ready {
		return false
	}
	switch {
	case o.Pod.IsKnown() && o.Pod.Get().Deleting && !o.Pod.Get().Ending.ByKubelet():
		pod := o.Pod.Get()
		pod.Ending, pod.EndedSince, pod.EndedBy = release.EndingFinished, *now, release.Known(o.Node.Get().Machine)
		o.Pod = release.Known(pod)
	case o.Pod.IsAbsent() && o.Last.Ending == release.EndingNone:
		return false // its object is gone: no kubelet will report it
	default:
		return false
	}
	return true
}

func nodeReady(o *release.Observation) bool {
	if !o.Node.IsKnown() || o.Node.Get().Ready {
		return false
	}
	node := o.Node.Get()
	node.Ready = true
	o.Node = release.Known(node)
	return true
}

func entriesGo(o *release.Observation, _ *time.Time) bool {
	had := o.Sandboxes.IsKnown()
	o.Sandboxes, o.Recorded = release.Absent[[]release.Sandbox](), true
	return had
}

// agentsRespond responds to every query as for a sandbox that is gone; where none was made yet, to one that is made now.
func agentsRespond(o *release.Observation, now *time.Time) bool {
	if o.Evidence != release.EvidenceAgent || !o.Node.IsKnown() {
		return false
	}
	if !o.Sandboxes.IsKnown() {
		o.Any = responded(v1alpha1.AnySandbox, o.Any, o.Node.Get(), *now)
		return true
	}
	return eachSandbox(o, func(s *release.Sandbox) bool {
		exchange := responded(s.ID, release.Exchange{Query: s.Query, Response: s.Response}, o.Node.Get(), *now)
		s.Query, s.Response = exchange.Query, exchange.Response
		return true
	})
}

func responded(sandbox string, before release.Exchange, node release.Node, now time.Time) release.Exchange {
	query := release.Query{SandboxID: sandbox, NodeUID: node.NodeUID, BootID: node.BootID, Epoch: before.Query.Get().Epoch + 1, Time: now, OutOfService: node.OutOfService && !node.Ready}
	return release.Exchange{Query: release.Known(query), Response: release.Known(release.Response{SandboxID: sandbox, NodeUID: node.NodeUID, BootID: node.BootID,
		Epoch: query.Epoch, Verdict: v1alpha1.VerdictReadyForRelease, Reason: string(v1alpha1.ReasonSandboxAbsent), Time: now})}
}

func conflictEnds(o *release.Observation, _ *time.Time) bool {
	return eachSandbox(o, func(s *release.Sandbox) bool {
		had := s.Conflict
		s.Conflict = false
		return had
	})
}

// eachSandbox changes copies of the sandboxes; true where one of them was changed.
func eachSandbox(o *release.Observation, alter func(*release.Sandbox) bool) bool {
	all, changed := slices.Clone(o.Sandboxes.Get()), false
	for i := range all {
		changed = alter(&all[i]) || changed
	}
	if changed {
		o.Sandboxes = release.Known(all)
	}
	return changed
}

func taint(o *release.Observation, _ *time.Time) bool {
	if !o.Node.IsKnown() || o.Node.Get().Ready || o.Node.Get().OutOfService {
		return false
	}
	node := o.Node.Get()
	node.OutOfService = true
	o.Node = release.Known(node)
	return true
}

// taintWithoutResponse is the taint where agents are queried: each is queried once more, and the taint counts if it does not respond.
func taintWithoutResponse(o *release.Observation, now *time.Time) bool {
	if o.Evidence != release.EvidenceAgent || !taint(o, now) {
		return false
	}
	changed := eachSandbox(o, func(s *release.Sandbox) bool {
		s.Query = responded(s.ID, release.Exchange{Query: s.Query, Response: s.Response}, o.Node.Get(), *now).Query
		s.Response = release.Absent[release.Response]()
		return true
	})
	*now = now.Add(o.Settings.ReleaseDelay)
	return changed
}

func deleteNode(o *release.Observation, now *time.Time) bool {
	if !o.Node.IsKnown() || o.Node.Get().Ready {
		return false
	}
	o.Node, o.SignOfLife = release.Absent[release.Node](), ""
	o.NodeGoneSince = release.Known(now.Add(-o.Settings.NodeGoneDelay))
	return true
}
