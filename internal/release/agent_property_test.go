// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func notQueried() Exchange { return Exchange{Query: Absent[Query](), Response: Absent[Response]()} }

// newQuery is a new query about s1 to the machine.
func newQuery(change ...func(*Query)) Fact[Query] {
	q := Query{SandboxID: "s1", NodeUID: machine.NodeUID, BootID: machine.BootID, Epoch: 5, Time: now}
	for _, c := range change {
		c(&q)
	}
	return Known(q)
}

func madeLongAgo(q *Query) { q.Time = longAgo }
func underTaint(q *Query)  { q.OutOfService = true }

// responded is a response to it.
func responded(change ...func(*Response)) Response {
	r := Response{SandboxID: "s1", NodeUID: machine.NodeUID, BootID: machine.BootID, Epoch: 5, Reason: "Test", Time: now, PodUID: "pod-1"}
	for _, c := range change {
		c(&r)
	}
	return r
}

func gone(r *Response)  { r.Verdict = v1alpha1.VerdictReadyForRelease }
func alive(r *Response) { r.Verdict = v1alpha1.VerdictDoNotRelease }
func followed(r *Response) {
	r.Reason, r.SuccessorID = string(v1alpha1.ReasonSandboxReplaced), "s2"
}

func queried(query Fact[Query], response Fact[Response]) func(*Sandbox) {
	return func(s *Sandbox) { s.Query, s.Response = query, response }
}

// queriedAll makes the same query about each sandbox of the observation, and about any sandbox of the pod.
func queriedAll(query Fact[Query], response Fact[Response]) func(*Observation) {
	return func(o *Observation) {
		o.Any = Exchange{Query: query, Response: response}
		if !o.Sandboxes.IsKnown() {
			return
		}
		all := append([]Sandbox(nil), o.Sandboxes.Get()...)
		for i := range all {
			all[i].Query, all[i].Response = query, response
		}
		o.Sandboxes = Known(all)
	}
}

// reportedGone is an independent statement of when a report proves that a sandbox is gone: it is the response to this query, from the same Node, boot
// and epoch.
func reportedGone(query Fact[Query], response Fact[Response], n Node) bool {
	return counted(query, response, n) && response.Get().Verdict == v1alpha1.VerdictReadyForRelease
}

func counted(query Fact[Query], response Fact[Response], n Node) bool {
	if !query.IsKnown() || !response.IsKnown() {
		return false
	}
	q, r := query.Get(), response.Get()
	same := q.SandboxID == r.SandboxID && q.Epoch == r.Epoch && q.NodeUID == r.NodeUID && q.BootID == r.BootID
	return same && n.NodeUID == q.NodeUID && n.BootID == q.BootID && n.BootID != ""
}

// overruled is the result of the query to an out-of-service node: the verdict of its agent, or no response for releaseDelay.
func overruled(o Observation, s Sandbox) string {
	n := o.Node.Get()
	switch {
	case counted(s.Query, s.Response, n):
		return string(s.Response.Get().Verdict)
	case !s.Query.IsKnown() || !s.Query.Get().OutOfService || !s.Response.IsRead():
		return "not queried"
	case s.Query.Get().NodeUID != n.NodeUID || s.Query.Get().BootID != n.BootID || s.Query.Get().Time.Before(n.OutOfServiceSince):
		return "another was queried"
	case s.Query.Get().Time.Before(n.ReadySince):
		return "queried while it was Ready"
	case now.Sub(s.Query.Get().Time) < o.Settings.ReleaseDelay:
		return "waiting"
	}
	return noResponse
}

// noResponse is the result of overruled if a missing response counts.
const noResponse = "no response"

// checkHandshake: no agent is queried on cached facts, in kubelet mode, or about a graceful termination that left no entries; and only
// entries of a live pod are rewritten.
func checkHandshake(t *testing.T, o Observation, d Decision) {
	t.Helper()
	if d.Action != Confirm && d.Action != Rewrite {
		return
	}
	if !o.Live || o.Evidence != EvidenceAgent || !o.Node.IsKnown() || len(d.Sandboxes) == 0 {
		t.Errorf("%s without live facts, without agents or without a sandbox: %+v for %+v", d.Action, d, o)
	}
	if pod := podOf(o); d.Action == Rewrite && (pod.Deleting || pod.Ending != EndingNone) {
		t.Errorf("an entry of a pod that does not live is rewritten: %+v for %+v", d, o)
	}
	if d.Action == Confirm && graceful(o) {
		t.Errorf("a pod that its kubelet terminated after its deletion and that holds nothing costs a query: %+v for %+v", d, o)
	}
}

func graceful(o Observation) bool {
	pod := podOf(o)
	return pod.Deleting && pod.Ending == EndingFinished && o.Sandboxes.IsAbsent()
}

// TestI5OnlyTheResponseToThisQueryCounts changes one field of query, response or node at a time.
func TestI5OnlyTheResponseToThisQueryCounts(t *testing.T) {
	query, response := newQuery().Get(), responded(gone)
	if !Counts(query, response, Node{Machine: machine}) {
		t.Fatal("a response to the very query does not count")
	}
	tests := map[string]func(*Query, *Response, *Node){
		"about another sandbox":             func(_ *Query, r *Response, _ *Node) { r.SandboxID = "s2" },
		"to an earlier query":               func(_ *Query, r *Response, _ *Node) { r.Epoch-- },
		"to a later query":                  func(_ *Query, r *Response, _ *Node) { r.Epoch++ },
		"of another Node":                   func(_ *Query, r *Response, _ *Node) { r.NodeUID = "node-2" },
		"of another boot":                   func(_ *Query, r *Response, _ *Node) { r.BootID = "boot-2" },
		"of a Node that was replaced since": func(_ *Query, _ *Response, n *Node) { n.NodeUID = "node-2" },
		"of a Node that booted since":       func(_ *Query, _ *Response, n *Node) { n.BootID = "boot-2" },
		"to a query to another Node":        func(q *Query, _ *Response, _ *Node) { q.NodeUID = "node-2" },
		"to a query to another boot":        func(q *Query, _ *Response, _ *Node) { q.BootID = "boot-2" },
		"to a query to all nodes":           func(q *Query, r *Response, n *Node) { q.NodeUID, r.NodeUID, n.NodeUID = "", "", "" },
		"without a boot on any side":        func(q *Query, r *Response, n *Node) { q.BootID, r.BootID, n.BootID = "", "", "" },
		"to a query without a number":       func(q *Query, r *Response, _ *Node) { q.Epoch, r.Epoch = 0, 0 },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			q, r, n := query, response, Node{Machine: machine}
			change(&q, &r, &n)
			if Counts(q, r, n) {
				t.Errorf("a response %s counts: query %+v, response %+v, node %+v", name, q, r, n)
			}
		})
	}
}

// TestI1AgentsReleaseOnlyWhatTheyWereQueriedAbout runs the exchanges through a force-deleted pod, one at a time, while time passes.
func TestI1AgentsReleaseOnlyWhatTheyWereQueriedAbout(t *testing.T) {
	released := 0
	for _, change := range exchanges {
		for _, later := range []time.Duration{0, time.Minute, time.Hour, 24 * 365 * time.Hour} {
			o := terminating(agent)
			change(&o)
			d := Decide(o, now.Add(later))
			s := o.Sandboxes.Get()[0]
			if want := reportedGone(s.Query, s.Response, o.Node.Get()) && s.Response.Get().PodUID == o.UID; (d.Action == Release) != want {
				t.Errorf("after %s: %+v, want released %t, for query %+v, response %+v", later, d, want, s.Query, s.Response)
			}
			if d.Action == Release {
				released++
			}
		}
	}
	if released == 0 {
		t.Error("nothing was ever released")
	}
}
