// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func unasked() Exchange { return Exchange{Query: Absent[Query](), Response: Absent[Response]()} }

// ask is a question about s1 that was just asked of the machine.
func ask(change ...func(*Query)) Fact[Query] {
	m := Query{SandboxID: "s1", NodeUID: machine.NodeUID, BootID: machine.BootID, Epoch: 5, Time: now}
	for _, c := range change {
		c(&m)
	}
	return Known(m)
}

func longAsked(m *Query) { m.Time = longAgo }
func atFence(m *Query)   { m.OutOfService = true }

// said is an answer to it.
func said(change ...func(*Response)) Response {
	a := Response{SandboxID: "s1", NodeUID: machine.NodeUID, BootID: machine.BootID, Epoch: 5, Reason: "Test", Time: now, PodUID: "pod-1"}
	for _, c := range change {
		c(&a)
	}
	return a
}

func gone(a *Response)  { a.Verdict = v1alpha1.VerdictReadyForRelease }
func alive(a *Response) { a.Verdict = v1alpha1.VerdictDoNotRelease }
func followed(a *Response) {
	a.Reason, a.SuccessorID = string(v1alpha1.ReasonSandboxSucceeded), "s2"
}

func asked(mark Fact[Query], answer Fact[Response]) func(*Sandbox) {
	return func(s *Sandbox) { s.Query, s.Response = mark, answer }
}

// askedAll puts the same question about every sandbox there is, and about every sandbox of the pod.
func askedAll(mark Fact[Query], answer Fact[Response]) func(*Observation) {
	return func(o *Observation) {
		o.Any = Exchange{Query: mark, Response: answer}
		if !o.Sandboxes.IsKnown() {
			return
		}
		all := append([]Sandbox(nil), o.Sandboxes.Get()...)
		for i := range all {
			all[i].Query, all[i].Response = mark, answer
		}
		o.Sandboxes = Known(all)
	}
}

// saidGone is an independent statement of what a node's word is worth: it is about this very question, and node, boot and epoch agree.
func saidGone(mark Fact[Query], answer Fact[Response], n Node) bool {
	return counted(mark, answer, n) && answer.Get().Verdict == v1alpha1.VerdictReadyForRelease
}

func counted(mark Fact[Query], answer Fact[Response], n Node) bool {
	if !mark.IsKnown() || !answer.IsKnown() {
		return false
	}
	m, a := mark.Get(), answer.Get()
	same := m.SandboxID == a.SandboxID && m.Epoch == a.Epoch && m.NodeUID == a.NodeUID && m.BootID == a.BootID
	return same && n.NodeUID == m.NodeUID && n.BootID == m.BootID && n.BootID != ""
}

// overruled says what became of the question that a fenced node was asked: its agent's word, or its silence for releaseDelay.
func overruled(o Observation, s Sandbox) string {
	n := o.Node.Get()
	switch {
	case counted(s.Query, s.Response, n):
		return string(s.Response.Get().Verdict)
	case !s.Query.IsKnown() || !s.Query.Get().OutOfService || !s.Response.IsRead():
		return "unasked"
	case s.Query.Get().NodeUID != n.NodeUID || s.Query.Get().BootID != n.BootID || s.Query.Get().Time.Before(n.OutOfServiceSince):
		return "asked of another"
	case s.Query.Get().Time.Before(n.ReadySince):
		return "asked while it was Ready"
	case now.Sub(s.Query.Get().Time) < o.Settings.ReleaseDelay:
		return "waiting"
	}
	return "silent"
}

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

// TestI5OnlyTheAnswerToThisQuestionCounts changes one field of mark, answer or node at a time.
func TestI5OnlyTheAnswerToThisQuestionCounts(t *testing.T) {
	mark, answer := ask().Get(), said(gone)
	if !Counts(mark, answer, Node{Machine: machine}) {
		t.Fatal("an answer to the very question does not count")
	}
	tests := map[string]func(*Query, *Response, *Node){
		"about another sandbox":              func(_ *Query, a *Response, _ *Node) { a.SandboxID = "s2" },
		"to an earlier question":             func(_ *Query, a *Response, _ *Node) { a.Epoch-- },
		"to a later question":                func(_ *Query, a *Response, _ *Node) { a.Epoch++ },
		"of another Node":                    func(_ *Query, a *Response, _ *Node) { a.NodeUID = "node-2" },
		"of another boot":                    func(_ *Query, a *Response, _ *Node) { a.BootID = "boot-2" },
		"of a Node that has gone since":      func(_ *Query, _ *Response, n *Node) { n.NodeUID = "node-2" },
		"of a Node that booted since":        func(_ *Query, _ *Response, n *Node) { n.BootID = "boot-2" },
		"to a question for another Node":     func(m *Query, _ *Response, _ *Node) { m.NodeUID = "node-2" },
		"to a question for another boot":     func(m *Query, _ *Response, _ *Node) { m.BootID = "boot-2" },
		"to a question that asks all":        func(m *Query, a *Response, n *Node) { m.NodeUID, a.NodeUID, n.NodeUID = "", "", "" },
		"without a boot on any side":         func(m *Query, a *Response, n *Node) { m.BootID, a.BootID, n.BootID = "", "", "" },
		"to a question that nobody numbered": func(m *Query, a *Response, _ *Node) { m.Epoch, a.Epoch = 0, 0 },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			m, a, n := mark, answer, Node{Machine: machine}
			change(&m, &a, &n)
			if Counts(m, a, n) {
				t.Errorf("an answer %s counts: mark %+v, answer %+v, node %+v", name, m, a, n)
			}
		})
	}
}

// TestI1AgentsReleaseOnlyWhatTheyWereAskedAbout runs the words through a force-deleted pod, one at a time, with time going by.
func TestI1AgentsReleaseOnlyWhatTheyWereAskedAbout(t *testing.T) {
	released := 0
	for _, change := range words {
		for _, later := range []time.Duration{0, time.Minute, time.Hour, 24 * 365 * time.Hour} {
			o := terminating(agent)
			change(&o)
			d := Decide(o, now.Add(later))
			s := o.Sandboxes.Get()[0]
			if want := saidGone(s.Query, s.Response, o.Node.Get()) && s.Response.Get().PodUID == o.UID; (d.Action == Release) != want {
				t.Errorf("after %s: %+v, want released %t, for mark %+v, answer %+v", later, d, want, s.Query, s.Response)
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
