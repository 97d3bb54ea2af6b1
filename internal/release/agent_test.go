// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestDecideWithAgents(t *testing.T) {
	type want struct {
		row    int
		action Action
		reason v1alpha1.Reason
		after  time.Duration
	}
	one := func(change ...func(*Sandbox)) func(*Observation) { return sandboxes(sandbox("s1", change...)) }
	notReady := node(Node{Machine: machine})
	fence := node(Node{Machine: machine, OutOfService: true})
	anyAsked := func(mark Fact[Mark], answer Fact[Answer]) func(*Observation) {
		return func(o *Observation) { o.Any = Asked{Mark: mark, Answer: answer} }
	}
	bootedSince := node(Node{Machine: rebooted, Ready: true, ReadySince: longAgo})
	living := func(m *Mark) { m.Living = true }
	atBoot2 := func(m *Mark) { m.BootID = "boot-2" }
	ofBoot2 := func(a *Answer) { a.BootID = "boot-2" }
	shown := func(s *Sandbox) { s.Shown = true }
	second := sandbox("s2")
	nodeDeleted := func(o *Observation) { o.Node, o.NodeGoneSince = Absent[Node](), Known(longAgo) }
	tests := map[string]struct {
		observed Observation
		want     want
	}{
		"row 1: a completed Job is asked about once its end stood for the delay": {
			terminating(agent, notDeleting, ended(EndingCompleted, longAgo)), want{1, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 1: before that nobody is asked": {
			terminating(agent, notDeleting, ended(EndingCompleted, now.Add(-time.Minute))), want{1, Wait, v1alpha1.ReasonReleaseDelay, 2 * time.Minute}},
		"row 1: its node says that the sandbox is gone": {
			terminating(agent, notDeleting, ended(EndingCompleted, longAgo), one(asked(ask(), Known(said(gone))))), want{1, Release, v1alpha1.ReasonSandboxGone, 0}},
		"row 1: its node says that the sandbox is not gone": {
			terminating(agent, notDeleting, ended(EndingCompleted, longAgo), one(asked(ask(), Known(said(alive))))), want{1, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"row 1: what was said while the pod used its addresses is asked again": {
			terminating(agent, notDeleting, ended(EndingCompleted, longAgo), one(asked(ask(living), Known(said(gone))))), want{1, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 5: what was said while the pod used its addresses is asked again": {
			terminating(agent, fence, one(asked(ask(living, func(m *Mark) { m.Fence = true }), Known(said(gone))))), want{5, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 12: what was said while the pod used its addresses is asked again": {
			terminating(agent, one(asked(ask(living), Known(said(gone))))), want{12, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 2: what was asked after an end is asked again": {
			terminating(agent, notDeleting, bootedSince, one(shown, asked(ask(atBoot2), Known(said(alive, ofBoot2, followed))))),
			want{2, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 2: a pod that lives with one sandbox asks nobody": {
			terminating(agent, notDeleting), want{2, Keep, v1alpha1.ReasonPodInUse, 0}},
		"row 2: the second sandbox of a pod that lives asks about both": {
			terminating(agent, notDeleting, sandboxes(sandbox("s1"), second)), want{2, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 2: not while the first may be on its way out": {
			terminating(agent, notDeleting, sandboxes(sandbox("s1"), sandbox("s2", func(s *Sandbox) { s.UnchangedSince = now.Add(-time.Minute) }))),
			want{2, Keep, v1alpha1.ReasonPodInUse, 2 * time.Minute}},
		"row 2: a boot since the sandbox was recorded asks, once the node was Ready for the delay": {
			terminating(agent, notDeleting, bootedSince), want{2, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 2: but not at once": {
			terminating(agent, notDeleting, node(Node{Machine: rebooted, Ready: true, ReadySince: now.Add(-time.Minute)})), want{2, Keep, v1alpha1.ReasonPodInUse, 2 * time.Minute}},
		"row 2: nor in kubelet mode": {
			terminating(notDeleting, bootedSince), want{2, Keep, v1alpha1.ReasonPodInUse, 0}},
		"row 2: an entry whose place another sandbox took is rewritten if the pod shows the address": {
			terminating(agent, notDeleting, bootedSince, one(shown, asked(ask(living, atBoot2), Known(said(alive, ofBoot2, followed))))),
			want{2, Rewrite, v1alpha1.ReasonSandboxSucceeded, 0}},
		"row 2: and left alone if it does not": {
			terminating(agent, notDeleting, bootedSince, one(asked(ask(living, atBoot2), Known(said(alive, ofBoot2, followed))))), want{2, Keep, v1alpha1.ReasonPodInUse, 0}},
		"row 2: a successor that was named to an earlier question is none": {
			terminating(agent, notDeleting, bootedSince, one(shown, asked(ask(living, atBoot2), Known(said(alive, ofBoot2, followed, func(a *Answer) { a.Epoch = 1 }))))),
			want{2, Keep, v1alpha1.ReasonPodInUse, 0}},
		"row 2: an address of a pod that lives is never released, whatever its node says": {
			terminating(agent, notDeleting, bootedSince, one(shown, asked(ask(living, atBoot2), Known(said(gone, ofBoot2))))), want{2, Keep, v1alpha1.ReasonPodInUse, 0}},
		"row 5: a fenced node is asked once more": {
			terminating(agent, fence), want{5, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 5: also if it was asked before, whatever it said": {
			terminating(agent, fence, one(asked(ask(longAsked), Known(said(alive))))), want{5, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 5: also if it was asked at an earlier taint": {
			terminating(agent, node(Node{Machine: machine, OutOfService: true, OutOfServiceSince: now.Add(-time.Minute)}), one(asked(ask(longAsked, atFence), Absent[Answer]()))),
			want{5, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 5: its silence counts after the delay": {
			terminating(agent, fence, one(asked(ask(atFence, func(m *Mark) { m.Time = now.Add(-time.Minute) }), Absent[Answer]()))),
			want{5, Wait, v1alpha1.ReasonAwaitingNodeAnswer, 2 * time.Minute}},
		"row 5: and then releases": {
			terminating(agent, fence, one(asked(ask(longAsked, atFence), Absent[Answer]()))), want{5, Release, v1alpha1.ReasonNodeOutOfService, 0}},
		"row 5: an answer to an earlier question is silence": {
			terminating(agent, fence, one(asked(ask(longAsked, atFence), Known(said(alive, func(a *Answer) { a.Epoch-- }))))), want{5, Release, v1alpha1.ReasonNodeOutOfService, 0}},
		"row 5: its DoNotRelease overrules the taint, as long as it stands": {
			terminating(agent, fence, one(asked(ask(longAsked, atFence), Known(said(alive))))), want{5, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"row 5: its ReadyForRelease needs no delay": {
			terminating(agent, fence, one(asked(ask(atFence), Known(said(gone))))), want{5, Release, v1alpha1.ReasonSandboxGone, 0}},
		"row 5: an answer that could not be read is not silence": {
			terminating(agent, fence, one(asked(ask(longAsked, atFence), Unknown[Answer]("x")))), want{0, Wait, v1alpha1.ReasonObservationFailed, 0}},
		"row 5: a termination reported by the kubelet releases nothing without the agent": {
			terminating(agent, fence, ended(EndingFinished, longAgo)), want{5, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 5: its DoNotRelease wins over a termination reported by the kubelet": {
			terminating(agent, fence, ended(EndingFinished, longAgo), one(asked(ask(longAsked, atFence), Known(said(alive))))), want{5, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"row 5: no response counts only to a query that was made since the node is not Ready": {
			terminating(agent, node(Node{Machine: machine, OutOfService: true, ReadySince: now.Add(-time.Minute)}), one(asked(ask(longAsked, atFence), Absent[Answer]()))),
			want{5, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 5: a DoNotRelease that was given under the same taint while the node was Ready still counts": {
			terminating(agent, node(Node{Machine: machine, OutOfService: true, ReadySince: now.Add(-time.Minute)}), one(asked(ask(longAsked, atFence), Known(said(alive))))),
			want{5, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"row 12: a query to a tainted node that is Ready is one under the taint": {
			terminating(agent, node(Node{Machine: machine, OutOfService: true, Ready: true}), one(asked(ask(longAsked), Known(said(alive))))),
			want{12, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 12: and the report on it is kept while the taint stands": {
			terminating(agent, node(Node{Machine: machine, OutOfService: true, Ready: true}), one(asked(ask(longAsked, atFence), Known(said(alive))))),
			want{12, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"row 5: a taint that was lifted is asked about anew": {
			terminating(agent, one(asked(ask(atFence), Known(said(alive))))), want{12, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 7: a node that registered again is asked under its new UID": {
			terminating(agent, node(Node{Machine: registered, Ready: true}), one(asked(ask(), Known(said(gone))))), want{12, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 8: a node that booted is asked in its new boot": {
			terminating(agent, node(Node{Machine: rebooted, Ready: true}), one(asked(ask(), Known(said(gone))))), want{12, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 8: and believed then": {
			terminating(agent, node(Node{Machine: rebooted, Ready: true}), one(asked(ask(atBoot2), Known(said(gone, ofBoot2))))), want{12, Release, v1alpha1.ReasonSandboxGone, 0}},
		"row 9: another machine is asked nothing": {
			terminating(agent, node(Node{Machine: replaced, Ready: true})), want{9, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"row 9: a DoNotRelease of the same Node object and boot wins over machine IDs that have changed": {
			terminating(agent, node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince = Known(longAgo) }, one(asked(ask(longAsked), Known(said(alive))))),
			want{9, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"row 9: machine IDs that other accounts can write hold while the Node object is the same": {
			terminating(agent, node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince, o.PoliciesSince = Known(longAgo), time.Time{} }),
			want{9, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"row 9: also where the policies are younger than the pod": {
			terminating(agent, node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince, o.PoliciesSince = Known(longAgo), now }),
			want{9, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"row 9: where the policies judged every write, the other machine is believed": {
			terminating(agent, node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince = Known(longAgo) }), want{9, Release, v1alpha1.ReasonNodeReplaced, 0}},
		"row 9: of an orphan, whose pod nobody knows, every write since its entry was seen": {
			terminating(agent, podGone(Pod{Deleting: true, Bound: true, Ending: EndingNone}), node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince = Known(longAgo) }),
			want{9, Release, v1alpha1.ReasonNodeReplaced, 0}},
		"row 9: and not where its entry is older than the policies": {
			terminating(agent, podGone(Pod{Deleting: true, Bound: true, Ending: EndingNone}), node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince, o.PoliciesSince = Known(longAgo), now }),
			want{9, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"row 9: the same of another Node object is another machine's without any policy": {
			terminating(agent, node(Node{Machine: replaced, Ready: true}), func(o *Observation) { o.NodeGoneSince, o.PoliciesSince = Known(longAgo), time.Time{} }),
			want{9, Release, v1alpha1.ReasonNodeReplaced, 0}},
		"row 9: a DoNotRelease of the machine that was replaced wins over its replacement": {
			terminating(agent, node(Node{Machine: replaced, Ready: true}), func(o *Observation) { o.NodeGoneSince = Known(longAgo) }, one(asked(ask(longAsked), Known(said(alive))))),
			want{9, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"row 6: a DoNotRelease wins over the deletion of the Node": {
			terminating(agent, nodeDeleted, one(asked(ask(longAsked), Known(said(alive))))), want{6, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"row 6: one to an earlier query does not": {
			terminating(agent, nodeDeleted, one(asked(ask(longAsked), Known(said(alive, func(a *Answer) { a.Epoch-- }))))), want{6, Release, v1alpha1.ReasonNodeGone, 0}},
		"row 6: nor one of the time when the pod lived": {
			terminating(agent, nodeDeleted, one(asked(ask(longAsked, living), Known(said(alive))))), want{6, Release, v1alpha1.ReasonNodeGone, 0}},
		"row 6: an agent that never responded is declared dead with its Node": {
			terminating(agent, nodeDeleted, one(asked(ask(longAsked), Absent[Answer]()))), want{6, Release, v1alpha1.ReasonNodeGone, 0}},
		"row 4: a graceful termination with no entries left queries no agent": {
			terminating(agent, ended(EndingFinished, time.Time{}), noEntries), want{4, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"row 4: not while the agent reports a sandbox of the pod": {
			terminating(agent, ended(EndingFinished, longAgo), noEntries, anyAsked(ask(), Known(said(alive, func(a *Answer) { a.SuccessorID = "s1" })))),
			want{16, Wait, v1alpha1.ReasonMayBeStarting, 0}},
		"row 4: that no sandbox was listed for long enough yet is no such report": {
			terminating(agent, ended(EndingFinished, longAgo), noEntries, anyAsked(ask(), Known(said(alive)))), want{4, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"row 10: a termination reported by the kubelet with entries left queries the agent, without waiting for the grace period": {
			terminating(agent, ended(EndingFinished, time.Time{}), pod(func(p *Pod) { p.Deadline = now.Add(time.Hour) })), want{10, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 10: a DoNotRelease wins over a termination reported by the kubelet": {
			terminating(agent, ended(EndingFinished, longAgo), one(asked(ask(longAsked), Known(said(alive))))), want{10, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"row 10: ReadyForRelease releases": {
			terminating(agent, ended(EndingFinished, longAgo), one(asked(ask(), Known(said(gone))))), want{10, Release, v1alpha1.ReasonSandboxGone, 0}},
		"row 10: an agent that does not respond is waited for": {
			terminating(agent, ended(EndingFinished, longAgo), one(asked(ask(longAsked), Absent[Answer]()))), want{10, Wait, v1alpha1.ReasonAgentNotResponding, 0}},
		"row 11: nobody is asked within the grace period": {
			terminating(agent, pod(func(p *Pod) { p.Deadline = now })), want{11, Wait, v1alpha1.ReasonGracePeriod, 30 * time.Second}},
		"row 12: a force-deleted pod's node is asked": {
			terminating(agent), want{12, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 12: Ready or not": {
			terminating(agent, notReady), want{12, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 12: on live facts only": {
			terminating(agent, cached), want{12, Reread, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 12: its answer is awaited": {
			terminating(agent, one(asked(ask(), Absent[Answer]()))), want{12, Wait, v1alpha1.ReasonAwaitingNodeAnswer, time.Minute}},
		"row 12: a Ready node that says nothing has a silent agent": {
			terminating(agent, one(asked(ask(longAsked), Absent[Answer]()))), want{12, Wait, v1alpha1.ReasonAgentNotResponding, 0}},
		"row 12: an agent that says why it is silent is believed at once": {
			terminating(agent, one(asked(ask(), Absent[Answer]())), func(o *Observation) {
				o.Silence = Silence{Reason: v1alpha1.ReasonRuntimeUnreachable, Message: "no socket"}
			}), want{12, Wait, v1alpha1.ReasonAgentNotResponding, 0}},
		"row 12: a node that is not Ready is itself silent": {
			terminating(agent, notReady, one(asked(ask(longAsked), Absent[Answer]()))), want{12, Wait, v1alpha1.ReasonNodeUnreachable, 0}},
		"row 12: DoNotRelease holds": {
			terminating(agent, one(asked(ask(longAsked), Known(said(alive))))), want{12, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"row 12: DoNotRelease holds also where the kubelet is silent": {
			terminating(agent, notReady, one(asked(ask(longAsked), Known(said(alive))))), want{12, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"row 12: ReadyForRelease releases, also of a node that is not Ready any more": {
			terminating(agent, notReady, one(asked(ask(), Known(said(gone))))), want{12, Release, v1alpha1.ReasonSandboxGone, 0}},
		"row 12: a completed pod that is deleted is asked about, too": {
			terminating(agent, ended(EndingCompleted, longAgo)), want{12, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 12: a pod that PodGC ended, too": {
			terminating(agent, ended(EndingForeign, longAgo)), want{12, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 12: a pod whose object is gone, too": {
			terminating(agent, podGone(Pod{Deleting: true, Bound: true, Ending: EndingNone})), want{12, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 12: of two sandboxes the one that is gone goes first": {
			terminating(agent, sandboxes(sandbox("s1", asked(ask(), Known(said(gone)))), second)), want{12, Release, v1alpha1.ReasonSandboxGone, 0}},
		"row 16: nothing held, so that its node is asked for any sandbox": {
			terminating(agent, noEntries), want{16, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 16: which has none": {
			terminating(agent, noEntries, anyAsked(ask(), Known(said(gone)))), want{16, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"row 16: its word is read live": {
			terminating(agent, cached, noEntries, anyAsked(ask(), Known(said(gone)))), want{16, Reread, v1alpha1.ReasonNoIPsHeld, 0}},
		"row 16: which may have one": {
			terminating(agent, noEntries, anyAsked(ask(), Known(said(alive)))), want{16, Wait, v1alpha1.ReasonMayBeStarting, 0}},
		"row 16: which says nothing": {
			terminating(agent, noEntries, anyAsked(ask(longAsked), Absent[Answer]())), want{16, Wait, v1alpha1.ReasonAgentNotResponding, 0}},
		"row 16: which is not Ready": {
			terminating(agent, noEntries, notReady, anyAsked(ask(), Absent[Answer]())), want{16, Wait, v1alpha1.ReasonNodeUnreachable, 0}},
		"row 16: which said so before it booted": {
			terminating(agent, noEntries, node(Node{Machine: rebooted, Ready: true}), anyAsked(ask(), Known(said(gone)))), want{16, Confirm, v1alpha1.ReasonAwaitingNodeAnswer, 0}},
		"row 16: which is gone": {
			terminating(agent, noEntries, func(o *Observation) { o.Node = Absent[Node]() }), want{6, Wait, v1alpha1.ReasonNodeGone, 0}},
		"row 17: a sandbox that the agent saw with another pod UID is not released for this one": {
			terminating(agent, ended(EndingFinished, longAgo), one(asked(Absent[Mark](), Known(said(gone, func(a *Answer) { a.PodUID = "pod-2" }))))),
			want{17, Wait, v1alpha1.ReasonConflict, 0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := Decide(tc.observed, now)
			got := want{d.Row, d.Action, d.Reason, d.After}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("Decide (-want +got):\n%s\nmessage: %s", diff, d.Message)
			}
			if d.Message == "" {
				t.Error("a decision without a message explains nothing")
			}
		})
	}
}

func TestDecideSaysOfWhomAndWhat(t *testing.T) {
	d := Decide(terminating(agent, node(Node{Machine: machine, OutOfService: true}), sandboxes(sandbox("s1"), sandbox("s2"))), now)
	if !d.Fence || !cmp.Equal(d.Sandboxes, []string{"s1", "s2"}) {
		t.Errorf("a fenced node is to be asked about both sandboxes, because it is fenced: %+v", d)
	}
	d = Decide(terminating(agent, noEntries), now)
	if d.Fence || !cmp.Equal(d.Sandboxes, []string{v1alpha1.AnySandbox}) {
		t.Errorf("a node is to be asked for any sandbox: %+v", d)
	}
	d = Decide(terminating(agent, node(Node{Machine: registered, Ready: true})), now)
	if !d.Readdress || d.Row != 12 {
		t.Errorf("the record follows the machine before its node is asked: %+v", d)
	}
}

func TestDecideSaysWhatBecomesOfAPodThatLives(t *testing.T) {
	living := func(m *Mark) { m.Living = true }
	lives := sandbox("s1", func(s *Sandbox) { s.Shown = true }, asked(ask(living), Known(said(alive, followed))))
	d := Decide(terminating(agent, notDeleting, sandboxes(lives, sandbox("s2", asked(ask(living), Absent[Answer]())))), now)
	if d.Action != Rewrite || !cmp.Equal(d.Successors, map[string]string{"s1": "s2"}) || !cmp.Equal(d.Sandboxes, []string{"s1"}) {
		t.Errorf("the entry of s1 is to be given to s2: %+v", d)
	}
	d = Decide(terminating(agent, notDeleting, sandboxes(sandbox("s1", asked(ask(living), Absent[Answer]())), sandbox("s2", asked(ask(living), Absent[Answer]())))), now)
	if d.Action != Keep || !d.Asking {
		t.Errorf("marks that are open are kept: %+v", d)
	}
}

func TestDecideRepeatsWhyAnAgentIsSilent(t *testing.T) {
	d := Decide(terminating(agent, sandboxes(sandbox("s1", asked(ask(longAsked), Absent[Answer]()))), func(o *Observation) {
		o.Silence = Silence{Reason: v1alpha1.ReasonRuntimeUnreachable, Message: "no such socket"}
	}), now)
	if !strings.Contains(d.Message, "RuntimeUnreachable") || !strings.Contains(d.Message, "no such socket") {
		t.Errorf("the agent's own words are missing: %s", d.Message)
	}
}
