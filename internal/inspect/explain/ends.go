// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// End is a change that would end the wait, by the decision of the table on the changed facts.
type End struct {
	// What would have to happen.
	What string `json:"what"`
	// Then is what follows: the table's action and reason.
	Then string `json:"then"`
	// Caution is what has to be true before a person does it.
	Caution string `json:"caution,omitempty"`
}

// alter changes a copy of the observation; false where the change makes no sense.
type alter func(o *release.Observation, now *time.Time) bool

// both makes changes one after the other.
func both(first, second alter) alter {
	return func(o *release.Observation, now *time.Time) bool { return first(o, now) && second(o, now) }
}

// change is a change of facts that could come.
type change struct {
	what, caution string
	// unless is another change: if that one alone is enough, this one is not reported.
	unless string
	apply  alter
}

// ends asks the table about every change, each by itself, and keeps those after which it releases or unprotects.
func ends(o release.Observation, now time.Time) []End {
	base := release.Decide(o, now)
	if givesAway(base) {
		return []End{{What: "nothing more is needed: a manager that runs does it on its next look (kubectl holdfast doctor says whether one does)", Then: then(base)}}
	}
	changes := append([]change{{what: "time: in " + base.After.Round(time.Second).String() + ", if nothing else changes", apply: func(_ *release.Observation, now *time.Time) bool {
		*now = now.Add(base.After)
		return base.After > 0
	}}}, changes...)
	var found []End
	seen := map[string]bool{}
	for _, c := range changes {
		changed, at := o, now
		if seen[c.unless] || !c.apply(&changed, &at) {
			continue
		}
		if d := release.Decide(changed, at); givesAway(d) {
			seen[c.what] = true
			found = append(found, End{What: c.what, Then: then(d), Caution: c.caution})
		}
	}
	return found
}

func givesAway(d release.Decision) bool {
	return d.Action == release.Release || d.Action == release.Unprotect
}

func then(d release.Decision) string {
	return fmt.Sprintf("%s (%s, row %s)", d.Action, d.Reason, d.Row)
}

const (
	kubeletReports  = "the kubelet reports the end of the pod"
	entriesDeleted  = "the IPAM's entries go by themselves (CNI DEL on the node)"
	isTainted       = "the node is tainted node.kubernetes.io/out-of-service and is not Ready"
	isNotResponding = isTainted + ", and its agent, queried once more, does not respond for delays.releaseDelay"
	otherGone       = ", and the other user of the address is proven gone"
	reallyOff       = "only once the machine is really off"
)

// changes are those beside time; the last six of them need an administrator.
var changes = []change{
	{what: kubeletReports, apply: kubeletEnds},
	{what: entriesDeleted + ", and " + kubeletReports, unless: kubeletReports, apply: both(deleteEntries, kubeletEnds)},
	{what: entriesDeleted, apply: deleteEntries},
	{what: "the node's agent reports that the sandbox is gone", apply: agentsRespond},
	{what: "the other user of the address is proven gone", apply: conflictEnds},
	{what: "the node comes back, and " + kubeletReports, apply: both(nodeReady, kubeletEnds)},
	{what: isTainted, caution: reallyOff + ": nothing is checked after it", apply: taint},
	{what: isNotResponding, unless: isTainted, caution: reallyOff + "; an agent that still responds overrules the taint", apply: taintWithoutResponse},
	{what: "the Node object is deleted and nothing shows that its machine is alive for delays.nodeGoneDelay", caution: "only once the machine is really gone", apply: deleteNode},
	{what: "an address's other user is proven gone, and the kubelet reports the end of the pod", apply: both(conflictEnds, kubeletEnds)},
	{what: isTainted + otherGone, caution: reallyOff, apply: both(conflictEnds, taint)},
	{what: isNotResponding + otherGone, unless: isTainted + otherGone, caution: reallyOff, apply: both(conflictEnds, taintWithoutResponse)},
}

// kubeletEnds does nothing where the object is gone: no kubelet will report it.
func kubeletEnds(o *release.Observation, now *time.Time) bool {
	pod := o.Pod.Get()
	if !o.Node.IsKnown() || !o.Node.Get().Ready || !o.Pod.IsKnown() || !pod.Deleting || pod.Ending.ByKubelet() {
		return false
	}
	pod.Ending, pod.EndedSince, pod.EndedBy = release.EndingFinished, *now, release.Known(o.Node.Get().Machine)
	o.Pod = release.Known(pod)
	if o.Evidence == release.EvidenceKubelet {
		*now = now.Add(o.Settings.SandboxCreationMax + time.Second) // until then the kubelet may not have known the sandbox; records have whole seconds
	}
	return true
}

// lostNode changes a Node that is not Ready.
func lostNode(o *release.Observation, to func(*release.Node)) bool {
	if !o.Node.IsKnown() || o.Node.Get().Ready {
		return false
	}
	node := o.Node.Get()
	to(&node)
	o.Node = release.Known(node)
	return true
}

func nodeReady(o *release.Observation, _ *time.Time) bool {
	return lostNode(o, func(n *release.Node) { n.Ready = true })
}

func deleteEntries(o *release.Observation, _ *time.Time) bool {
	had := o.Sandboxes.IsKnown()
	o.Sandboxes, o.Recorded = release.Absent[[]release.Sandbox](), true
	return had
}

// agentsRespond responds to every query as for a sandbox that is gone, also to those that are not made yet.
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
	return !o.Node.Get().OutOfService && lostNode(o, func(n *release.Node) { n.OutOfService = true })
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
