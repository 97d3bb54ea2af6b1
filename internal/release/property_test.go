// SPDX-License-Identifier: Apache-2.0

package release

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// axis is one dimension of the cross product: each value changes an observation.
type axis []func(*Observation)

var axes = []axis{
	{func(*Observation) {}, cached},
	{func(*Observation) {}, agent, func(o *Observation) { o.Evidence = 0 }},
	{func(*Observation) {}, func(o *Observation) { o.Recorded = false }},
	{ended(EndingNone, time.Time{}), ended(EndingFinished, longAgo), ended(EndingFinished, time.Time{}), ended(EndingCompleted, longAgo),
		ended(EndingCompleted, now), ended(EndingRejected, longAgo), ended(EndingForeign, longAgo), ended(EndingShared, longAgo), ended(0, time.Time{}),
		endedBy(EndingFinished, replaced), endedBy(EndingCompleted, replaced), endedSomehow(EndingFinished, longAgo), endedSomehow(EndingRejected, longAgo, aliveUnder("node-1")),
		endedSomehow(EndingCompleted, longAgo.Add(-time.Second)), endedSomehow(EndingFinished, time.Time{}, aliveUnder("node-2"))},
	{func(*Observation) {}, notDeleting, pod(func(p *Pod) { p.DeletionRequested = longAgo.Add(-time.Second) }), pod(func(p *Pod) { p.DeletionRequested = longAgo }),
		pod(tornDown(longAgo.Add(time.Second))), pod(tornDown(longAgo)), pod(tornDown(now)), pod(func(p *Pod) { p.Deadline = now.Add(time.Hour) }), pod(func(p *Pod) { p.Bound = false }),
		func(o *Observation) { o.Last = o.Pod.Get(); o.Pod = Absent[Pod]() }, func(o *Observation) { o.Pod = Unknown[Pod]("x") },
		func(o *Observation) { o.Pod = Fact[Pod]{} }},
	{func(*Observation) {}, noEntries, func(o *Observation) { o.Sandboxes = Unknown[[]Sandbox]("x") }, func(o *Observation) { o.Sandboxes = Fact[[]Sandbox]{} },
		sandboxes(), sandboxes(sandbox("s1", func(s *Sandbox) { s.Machine = Unknown[Machine]("x") })),
		sandboxes(sandbox("s1", func(s *Sandbox) { s.Attribution, s.UnchangedSince = v1alpha1.AttributionObservedAdd, now })),
		sandboxes(sandbox("s1", func(s *Sandbox) { s.Conflict = true }))},
	{func(*Observation) {}, node(Node{Machine: machine}), node(Node{Machine: machine, OutOfService: true}),
		node(Node{Machine: machine, OutOfService: true, OutOfServiceSince: now.Add(-time.Minute)}),
		node(Node{Machine: machine, OutOfService: true, Ready: true}), node(Node{Machine: registered, Ready: true}), node(Node{Machine: rebooted, Ready: true}),
		node(Node{Machine: replaced, Ready: true}), node(Node{Machine: Machine{NodeUID: "node-1"}, Ready: true}), node(Node{Machine: renamed, Ready: true}),
		node(Node{Machine: machine, OutOfService: true, ReadySince: now.Add(-time.Minute)}),
		node(Node{Machine: replaced, Ready: true, Registered: longAgo}), node(Node{Machine: registered, Ready: true, Registered: longAgo}), node(Node{Machine: machine, Registered: longAgo}), node(Node{Machine: machine, Ready: true, Registered: now}),
		func(o *Observation) { o.Node = Absent[Node]() }, func(o *Observation) { o.Node = Unknown[Node]("x") }, func(o *Observation) { o.Node = Fact[Node]{} }},
	{func(*Observation) {}, func(o *Observation) { o.NodeGoneSince = Known(longAgo) }, func(o *Observation) { o.NodeGoneSince = Unknown[time.Time]("x") }},
	{func(*Observation) {}, func(o *Observation) { o.Settings.HoldGoneNodes = true }},
}

// exchanges are queries about each sandbox and about any sandbox of the pod, with responses.
var exchanges = axis{func(*Observation) {}, queriedAll(newQuery(), Absent[Response]()), queriedAll(newQuery(madeLongAgo), Absent[Response]()), queriedAll(newQuery(madeLongAgo, underTaint), Absent[Response]()), queriedAll(newQuery(underTaint), Absent[Response]()),
	queriedAll(newQuery(), Unknown[Response]("x")), queriedAll(Unknown[Query]("x"), Known(responded(gone))), queriedAll(Fact[Query]{}, Known(responded(gone))), queriedAll(Absent[Query](), Known(responded(gone))),
	queriedAll(newQuery(), Known(responded(gone))), queriedAll(newQuery(), Known(responded(alive))), queriedAll(newQuery(underTaint), Known(responded(gone))), queriedAll(newQuery(underTaint, madeLongAgo), Known(responded(alive))),
	queriedAll(newQuery(), Known(responded(gone, func(r *Response) { r.Epoch-- }))), queriedAll(newQuery(), Known(responded(gone, func(r *Response) { r.Epoch++ }))),
	queriedAll(newQuery(), Known(responded(gone, func(r *Response) { r.BootID = "boot-2" }))), queriedAll(newQuery(), Known(responded(gone, func(r *Response) { r.NodeUID = "node-2" }))),
	queriedAll(newQuery(), Known(responded(gone, func(r *Response) { r.SandboxID = "another" }))), queriedAll(newQuery(), Known(responded(gone, func(r *Response) { r.PodUID = "pod-2" }))),
	queriedAll(newQuery(func(q *Query) { q.NodeUID = "node-2" }), Known(responded(gone, func(r *Response) { r.NodeUID = "node-2" }))),
	queriedAll(newQuery(func(q *Query) { q.BootID = "boot-2" }), Known(responded(gone, func(r *Response) { r.BootID = "boot-2" }))),
	queriedAll(newQuery(func(q *Query) { q.BootID = "" }), Known(responded(gone, func(r *Response) { r.BootID = "" }))),
	queriedAll(newQuery(), Known(responded(func(r *Response) { r.Verdict = "" }))), queriedAll(newQuery(), Known(responded(func(r *Response) { r.Verdict = "Gone" }))),
	queriedAll(newQuery(), Known(responded(alive, followed))),
}

// everyObservation runs the full cross product of all axes.
func everyObservation(visit func(Observation)) {
	var walk func(Observation, []axis)
	walk = func(o Observation, rest []axis) {
		if len(rest) == 0 {
			visitExchanges(o, visit)
			return
		}
		for _, change := range rest[0] {
			next := o
			change(&next)
			walk(next, rest[1:])
		}
	}
	walk(terminating(), axes)
}

// visitExchanges adds queries and responses where they can make a difference; the random draws add them everywhere.
func visitExchanges(o Observation, visit func(Observation)) {
	late := !o.NodeGoneSince.IsAbsent() && (o.NodeGoneSince.IsUnknown() || o.Node.Get().NodeUID == "node-1")
	if o.Evidence != EvidenceAgent || !o.Recorded || late || o.Settings.HoldGoneNodes {
		visit(o)
		return
	}
	for _, change := range exchanges {
		next := o
		change(&next)
		visit(next)
	}
}

// proofs is an independent statement of when an address may be released (I1, I5), written without the rows of the table.
func proofs(o Observation, s Sandbox) bool {
	switch {
	case !o.Live || s.Conflict || contradictedBy(o, s) || (o.Evidence == EvidenceAgent && s.Response.Get().PodUID == "pod-2"):
		return false
	case o.Node.IsAbsent():
		return goneProof(o) && s.Machine.IsKnown()
	case !o.Node.IsKnown() || !s.Machine.IsKnown():
		return false
	}
	n, m := o.Node.Get(), s.Machine.Get()
	if n.MachineID != m.MachineID || n.SystemUUID != m.SystemUUID {
		return goneProof(o)
	}
	return liveProof(o, s)
}

// goneProof says whether the machine has been gone for long enough.
func goneProof(o Observation) bool {
	return podOf(o).Deleting && o.NodeGoneSince.IsKnown() && !o.Settings.HoldGoneNodes
}

// liveProof says whether the machine that ran the sandbox is the one that reports, or is out of service.
func liveProof(o Observation, s Sandbox) bool {
	p := podOf(o)
	switch {
	case p.Deleting && taintProof(o, s), agentProof(o, s):
		return true
	case o.Evidence == EvidenceKubelet && p.Deleting && p.Ending == EndingFinished && ownEnd(o):
		return s.UnchangedSince.Equal(longAgo)
	}
	return o.Evidence == EvidenceKubelet && kubeletProof(o, p, o.Node.Get(), s)
}

// contradictedBy says whether the last report on the standing query is DoNotRelease, from the agent of the live Node, or of the recorded one that
// was deleted. Under a taint only a report under that taint is newer than the taint.
func contradictedBy(o Observation, s Sandbox) bool {
	if o.Evidence != EvidenceAgent || s.Response.Get().Verdict == v1alpha1.VerdictReadyForRelease || s.Query.Get().Rewrite {
		return false
	}
	n := o.Node.Get()
	there, recorded := counted(s.Query, s.Response, n), counted(s.Query, s.Response, Node{Machine: Machine{NodeUID: s.Machine.Get().NodeUID, BootID: s.Query.Get().BootID}})
	if there && n.OutOfService && !n.Ready {
		return s.Query.Get().OutOfService && !s.Query.Get().Time.Before(n.OutOfServiceSince)
	}
	return there || recorded
}

// ownEnd says whether the kubelet that reported termination ran on the sandbox's machine, or there was only one Node object since the pod began or
// was alive.
func ownEnd(o Observation) bool {
	p, n := podOf(o), o.Node.Get()
	if p.EndedBy.IsKnown() {
		return p.EndedBy.Get().MachineID == "machine-1"
	}
	return p.AliveNodeUID == n.NodeUID || (!n.Registered.IsZero() && !p.Begun.IsZero() && !p.Begun.Before(n.Registered))
}

// taintProof says whether the node is out of service, and its agent, queried since, did not contradict.
func taintProof(o Observation, s Sandbox) bool {
	n := o.Node.Get()
	return n.OutOfService && !n.Ready && (o.Evidence == EvidenceKubelet || overruled(o, s) == noResponse)
}

// agentProof says whether the agent reports that the sandbox is gone.
func agentProof(o Observation, s Sandbox) bool {
	return o.Evidence == EvidenceAgent && reportedGone(s.Query, s.Response, o.Node.Get()) && (podOf(o).Deleting || podOf(o).Ending.ByKubelet())
}

// kubeletProof says whether the kubelet of a live node reported, long enough ago, that the pod terminated or has no sandbox.
func kubeletProof(o Observation, p Pod, n Node, s Sandbox) bool {
	ran := p.Ending == EndingFinished || p.Ending == EndingCompleted
	return n.Ready && ((ran && p.EndedSince.Equal(longAgo) && ownEnd(o) && s.UnchangedSince.Equal(longAgo)) || backWithout(p, n))
}

// backWithout says whether the node registered after the deletion and reported, long enough ago, that it has no sandbox of the pod, whose phase another
// client wrote.
func backWithout(p Pod, n Node) bool {
	return p.Deleting && p.Ending != EndingNone && p.Ending != 0 && n.Registered.Equal(longAgo) && p.DeletionRequested.Before(longAgo) && p.TornDown.Equal(longAgo.Add(time.Second))
}

// tornDown is a pod that was deleted before its node registered, and was then reported to have no sandbox.
func tornDown(at time.Time) func(*Pod) {
	return func(p *Pod) { p.DeletionRequested, p.TornDown = longAgo.Add(-time.Second), at }
}

func podOf(o Observation) Pod {
	if o.Pod.IsKnown() {
		return o.Pod.Get()
	}
	return o.Last
}

// mayUnprotect is the same for the finalizer of a pod without entries: no sandbox of it is starting.
func mayUnprotect(o Observation) bool {
	quiet := o.Evidence == EvidenceAgent && o.Node.IsKnown() && reportedGone(o.Any.Query, o.Any.Response, o.Node.Get())
	switch {
	case o.Pod.IsKnown() && !o.Pod.Get().Bound:
		return true
	case o.Pod.IsAbsent() || countsWithoutEntries(o):
		return o.Live || o.Recorded
	case !o.Live:
		return false
	}
	return quiet || deadNode(o) || neverStarts(o)
}

// countsWithoutEntries says whether the termination is the kubelet's, or a shared one with agents.
func countsWithoutEntries(o Observation) bool {
	ending := o.Pod.Get().Ending
	return ending.ByKubelet() || (o.Evidence == EvidenceAgent && ending == EndingShared)
}

// neverStarts says whether the kubelet registered after the deletion, and a sandbox of its predecessor exists or never will.
func neverStarts(o Observation) bool {
	p, n := podOf(o), o.Node.Get()
	return o.Evidence == EvidenceKubelet && p.Ending == EndingForeign && n.Ready && n.Registered.Equal(longAgo) && !p.DeletionRequested.IsZero() && p.DeletionRequested.Before(longAgo)
}

func deadNode(o Observation) bool {
	isTainted := o.Node.IsKnown() && o.Node.Get().OutOfService && !o.Node.Get().Ready
	return isTainted || (o.Node.IsAbsent() && o.NodeGoneSince.IsKnown() && !o.Settings.HoldGoneNodes)
}

func anyUnknown(o Observation) bool {
	return o.Pod.IsUnknown() || o.Sandboxes.IsUnknown() || o.Node.IsUnknown() || o.NodeGoneSince.IsUnknown()
}

// TestI1I5NothingIsReleasedWithoutProof checks the full cross product against the independent statement.
func TestI1I5NothingIsReleasedWithoutProof(t *testing.T) {
	count, released := 0, 0
	everyObservation(func(o Observation) {
		count++
		d := Decide(o, now)
		checkDecision(t, o, d)
		if d.Action == Release {
			released++
		}
	})
	t.Logf("%d observations, %d released", count, released)
	if released == 0 {
		t.Error("no observation was released: the product misses the good cases")
	}
}

func checkDecision(t *testing.T, o Observation, d Decision) {
	t.Helper()
	if d.Action == "" || d.Reason == "" || d.Message == "" || !slices.Contains(Rows, d.Row) {
		t.Errorf("an incomplete decision %+v for %+v", d, o)
	}
	if d.Action == Unprotect {
		checkUnprotect(t, o, d)
	}
	if d.Action == Release {
		checkRelease(t, o, d)
	}
	checkHandshake(t, o, d)
}

func checkUnprotect(t *testing.T, o Observation, d Decision) {
	t.Helper()
	switch {
	case anyUnknown(o):
		t.Errorf("let go with an Unknown fact: %+v for %+v", d, o)
	case !o.Sandboxes.IsAbsent():
		t.Errorf("let go while entries remain or may remain: %+v for %+v", d, o)
	case o.Pod.IsKnown() && !o.Pod.Get().Deleting:
		t.Errorf("let go a pod that is not deleting: %+v for %+v", d, o)
	case !mayUnprotect(o):
		t.Errorf("let go without proof: %+v for %+v", d, o)
	}
}

func checkRelease(t *testing.T, o Observation, d Decision) {
	t.Helper()
	for _, s := range o.Sandboxes.Get() {
		if contradictedBy(o, s) && slices.Contains(d.Sandboxes, s.ID) {
			t.Errorf("released sandbox %s, of which the agent reports that it is not gone: %+v for %+v", s.ID, d, o)
		}
	}
	if anyUnknown(o) {
		t.Errorf("released with an Unknown fact: %+v for %+v", d, o)
	}
	for _, s := range o.Sandboxes.Get() {
		if !proofs(o, s) {
			t.Errorf("released sandbox %s without proof: %+v for %+v", s.ID, d, o)
		}
	}
}

// TestI5UnknownNeverReleases draws observations with several sandboxes, makes one fact Unknown, and expects no release.
func TestI5UnknownNeverReleases(t *testing.T) {
	const draws = 200_000
	random := rand.New(rand.NewPCG(1, 2))
	blind := []func(*Observation){
		func(o *Observation) { o.Pod = Unknown[Pod]("x") },
		func(o *Observation) { o.Sandboxes = Unknown[[]Sandbox]("x") },
		func(o *Observation) { o.Node = Unknown[Node]("x") },
		func(o *Observation) { o.NodeGoneSince = Unknown[time.Time]("x") },
	}
	for range draws {
		o := terminating()
		for _, a := range axes {
			a[random.IntN(len(a))](&o)
		}
		exchanges[random.IntN(len(exchanges))](&o)
		checkDecision(t, o, Decide(o, now))
		blind[random.IntN(len(blind))](&o)
		if d := Decide(o, now); d.Action == Release || d.Action == Unprotect {
			t.Fatalf("%s with an Unknown fact: %+v for %+v", d.Action, d, o)
		}
	}
}
