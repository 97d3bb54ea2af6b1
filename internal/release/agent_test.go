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
	one := func(change ...func(*Sandbox)) func(*Observation) { return sandboxes(sandbox("s1", change...)) }
	notReady := node(Node{Machine: machine})
	outOfService := node(Node{Machine: machine, OutOfService: true})
	anyQueried := func(query Fact[Query], response Fact[Response]) func(*Observation) {
		return func(o *Observation) { o.Any = Exchange{Query: query, Response: response} }
	}
	bootedSince := node(Node{Machine: rebooted, Ready: true, ReadySince: longAgo})
	forRewrite := func(q *Query) { q.Rewrite = true }
	atBoot2 := func(q *Query) { q.BootID = "boot-2" }
	ofBoot2 := func(r *Response) { r.BootID = "boot-2" }
	shown := func(s *Sandbox) { s.Shown = true }
	second := sandbox("s2")
	nodeDeleted := func(o *Observation) { o.Node, o.NodeGoneSince = Absent[Node](), Known(longAgo) }
	decides(t, map[string]decideCase{
		"PodCompleted: the node of a completed Job is queried once its termination stood for the delay": {
			terminating(agent, notDeleting, ended(EndingCompleted, longAgo)), want{RowPodCompleted, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"PodCompleted: before that no agent is queried": {
			terminating(agent, notDeleting, ended(EndingCompleted, now.Add(-time.Minute))), want{RowPodCompleted, Wait, v1alpha1.ReasonReleaseDelay, 2 * time.Minute}},
		"PodCompleted: where another pod has its address the node is queried at once": {
			terminating(agent, notDeleting, ended(EndingCompleted, now.Add(-time.Minute)), one(func(s *Sandbox) { s.Superseded = true })), want{RowPodCompleted, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"PodCompleted: not where it is the pod's own next sandbox": {
			terminating(agent, notDeleting, ended(EndingCompleted, now.Add(-time.Minute)), one(func(s *Sandbox) { s.Superseded, s.Followed = true, true })), want{RowPodCompleted, Wait, v1alpha1.ReasonReleaseDelay, 2 * time.Minute}},
		"PodCompleted: its agent reports that the sandbox is gone": {
			terminating(agent, notDeleting, ended(EndingCompleted, longAgo), one(queried(newQuery(), Known(responded(gone))))), want{RowPodCompleted, Release, v1alpha1.ReasonSandboxGone, 0}},
		"PodCompleted: its agent reports that the sandbox is not gone": {
			terminating(agent, notDeleting, ended(EndingCompleted, longAgo), one(queried(newQuery(), Known(responded(alive))))), want{RowPodCompleted, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"PodCompleted: what was reported while the pod used its addresses is queried again": {
			terminating(agent, notDeleting, ended(EndingCompleted, longAgo), one(queried(newQuery(forRewrite), Known(responded(gone))))), want{RowPodCompleted, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"NodeOutOfService: what was reported while the pod used its addresses is queried again": {
			terminating(agent, outOfService, one(queried(newQuery(forRewrite, func(q *Query) { q.OutOfService = true }), Known(responded(gone))))), want{RowNodeOutOfService, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"AwaitRuntimeReport: what was reported while the pod used its addresses is queried again": {
			terminating(agent, one(queried(newQuery(forRewrite), Known(responded(gone))))), want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"PodInUse: what was queried after a termination is queried again": {
			terminating(agent, notDeleting, bootedSince, one(shown, queried(newQuery(atBoot2), Known(responded(alive, ofBoot2, followed))))),
			want{RowPodInUse, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"PodInUse: of a pod that lives with one sandbox no agent is queried": {
			terminating(agent, notDeleting), want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 0}},
		"PodInUse: with the second sandbox of a pod that lives its node is queried about both": {
			terminating(agent, notDeleting, sandboxes(sandbox("s1"), second)), want{RowPodInUse, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"PodInUse: not while the first may be on its way out": {
			terminating(agent, notDeleting, sandboxes(sandbox("s1"), sandbox("s2", func(s *Sandbox) { s.UnchangedSince = now.Add(-time.Minute) }))),
			want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 2 * time.Minute}},
		"PodInUse: after a boot since the sandbox was recorded its node is queried, once it was Ready for the delay": {
			terminating(agent, notDeleting, bootedSince), want{RowPodInUse, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"PodInUse: but not at once": {
			terminating(agent, notDeleting, node(Node{Machine: rebooted, Ready: true, ReadySince: now.Add(-time.Minute)})), want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 2 * time.Minute}},
		"PodInUse: nor in kubelet mode": {
			terminating(notDeleting, bootedSince), want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 0}},
		"PodInUse: an entry of a replaced sandbox is rewritten if the pod shows the address": {
			terminating(agent, notDeleting, bootedSince, one(shown, queried(newQuery(forRewrite, atBoot2), Known(responded(alive, ofBoot2, followed))))),
			want{RowPodInUse, Rewrite, v1alpha1.ReasonSandboxReplaced, 0}},
		"PodInUse: and left alone if it does not": {
			terminating(agent, notDeleting, bootedSince, one(queried(newQuery(forRewrite, atBoot2), Known(responded(alive, ofBoot2, followed))))), want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 0}},
		"PodInUse: a successor that was named in response to an earlier query is none": {
			terminating(agent, notDeleting, bootedSince, one(shown, queried(newQuery(forRewrite, atBoot2), Known(responded(alive, ofBoot2, followed, func(r *Response) { r.Epoch = 1 }))))),
			want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 0}},
		"PodInUse: an address of a live pod is never released, by any report of its agent": {
			terminating(agent, notDeleting, bootedSince, one(shown, queried(newQuery(forRewrite, atBoot2), Known(responded(gone, ofBoot2))))), want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 0}},
		"NodeOutOfService: a tainted node is queried once more": {
			terminating(agent, outOfService), want{RowNodeOutOfService, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"NodeOutOfService: also if it was queried before, with any response": {
			terminating(agent, outOfService, one(queried(newQuery(madeLongAgo), Known(responded(alive))))), want{RowNodeOutOfService, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"NodeOutOfService: also if it was queried under an earlier taint": {
			terminating(agent, node(Node{Machine: machine, OutOfService: true, OutOfServiceSince: now.Add(-time.Minute)}), one(queried(newQuery(madeLongAgo, underTaint), Absent[Response]()))),
			want{RowNodeOutOfService, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"NodeOutOfService: no response counts after the delay": {
			terminating(agent, outOfService, one(queried(newQuery(underTaint, func(q *Query) { q.Time = now.Add(-time.Minute) }), Absent[Response]()))),
			want{RowNodeOutOfService, Wait, v1alpha1.ReasonAwaitingNodeResponse, 2 * time.Minute}},
		"NodeOutOfService: and then releases": {
			terminating(agent, outOfService, one(queried(newQuery(madeLongAgo, underTaint), Absent[Response]()))), want{RowNodeOutOfService, Release, v1alpha1.ReasonNodeOutOfService, 0}},
		"NodeOutOfService: but not before the API server could be reached for as long": {
			terminating(agent, outOfService, func(o *Observation) { o.ReachedSince = now.Add(-time.Minute) }, one(queried(newQuery(madeLongAgo, underTaint), Absent[Response]()))),
			want{RowNodeOutOfService, Wait, v1alpha1.ReasonAwaitingNodeResponse, 2 * time.Minute}},
		"NodeOutOfService: a response to an earlier query is none": {
			terminating(agent, outOfService, one(queried(newQuery(madeLongAgo, underTaint), Known(responded(alive, func(r *Response) { r.Epoch-- }))))), want{RowNodeOutOfService, Release, v1alpha1.ReasonNodeOutOfService, 0}},
		"NodeOutOfService: its DoNotRelease overrules the taint, as long as it stands": {
			terminating(agent, outOfService, one(queried(newQuery(madeLongAgo, underTaint), Known(responded(alive))))), want{RowNodeOutOfService, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"NodeOutOfService: its ReadyForRelease needs no delay": {
			terminating(agent, outOfService, one(queried(newQuery(underTaint), Known(responded(gone))))), want{RowNodeOutOfService, Release, v1alpha1.ReasonSandboxGone, 0}},
		"NodeOutOfService: a response that could not be read is not absent": {
			terminating(agent, outOfService, one(queried(newQuery(madeLongAgo, underTaint), Unknown[Response]("x")))), want{RowObservationFailed, Wait, v1alpha1.ReasonObservationFailed, 0}},
		"NodeOutOfService: a termination reported by the kubelet releases nothing without the agent": {
			terminating(agent, outOfService, ended(EndingFinished, longAgo)), want{RowNodeOutOfService, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"NodeOutOfService: its DoNotRelease wins over a termination reported by the kubelet": {
			terminating(agent, outOfService, ended(EndingFinished, longAgo), one(queried(newQuery(madeLongAgo, underTaint), Known(responded(alive))))), want{RowNodeOutOfService, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"NodeOutOfService: no response counts only to a query that was made since the node is not Ready": {
			terminating(agent, node(Node{Machine: machine, OutOfService: true, ReadySince: now.Add(-time.Minute)}), one(queried(newQuery(madeLongAgo, underTaint), Absent[Response]()))),
			want{RowNodeOutOfService, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"NodeOutOfService: a DoNotRelease that was given under the same taint while the node was Ready still counts": {
			terminating(agent, node(Node{Machine: machine, OutOfService: true, ReadySince: now.Add(-time.Minute)}), one(queried(newQuery(madeLongAgo, underTaint), Known(responded(alive))))),
			want{RowNodeOutOfService, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"AwaitRuntimeReport: a query to a tainted node that is Ready is one under the taint": {
			terminating(agent, node(Node{Machine: machine, OutOfService: true, Ready: true}), one(queried(newQuery(madeLongAgo), Known(responded(alive))))),
			want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"AwaitRuntimeReport: and the report on it is kept while the taint stands": {
			terminating(agent, node(Node{Machine: machine, OutOfService: true, Ready: true}), one(queried(newQuery(madeLongAgo, underTaint), Known(responded(alive))))),
			want{RowAwaitRuntimeReport, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"NodeOutOfService: after a taint that was lifted the node is queried anew": {
			terminating(agent, one(queried(newQuery(underTaint), Known(responded(alive))))), want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"a node that registered again is queried under its new UID": {
			terminating(agent, node(Node{Machine: registered, Ready: true}), one(queried(newQuery(), Known(responded(gone))))), want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"PossibleClone: a node that booted is queried in its new boot": {
			terminating(agent, node(Node{Machine: rebooted, Ready: true}), one(queried(newQuery(), Known(responded(gone))))), want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"PossibleClone: and its report counts then": {
			terminating(agent, node(Node{Machine: rebooted, Ready: true}), one(queried(newQuery(atBoot2), Known(responded(gone, ofBoot2))))), want{RowAwaitRuntimeReport, Release, v1alpha1.ReasonSandboxGone, 0}},
		"NodeReplaced: another machine is not queried": {
			terminating(agent, node(Node{Machine: replaced, Ready: true})), want{RowNodeReplaced, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"NodeReplaced: a DoNotRelease of the same Node object and boot wins over machine IDs that have changed": {
			terminating(agent, node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince = Known(longAgo) }, one(queried(newQuery(madeLongAgo), Known(responded(alive))))),
			want{RowNodeReplaced, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"NodeReplaced: machine IDs that other accounts can write hold while the Node object is the same": {
			terminating(agent, node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince, o.PoliciesSince = Known(longAgo), time.Time{} }),
			want{RowNodeReplaced, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"NodeReplaced: also where the policies are younger than the pod": {
			terminating(agent, node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince, o.PoliciesSince = Known(longAgo), now }),
			want{RowNodeReplaced, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"NodeReplaced: where the policies judged every write, the other machine counts": {
			terminating(agent, node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince = Known(longAgo) }), want{RowNodeReplaced, Release, v1alpha1.ReasonNodeReplaced, 0}},
		"NodeReplaced: of an orphan, whose pod is unknown, every write since its entry was seen": {
			terminating(agent, podGone(Pod{Deleting: true, Bound: true, Ending: EndingNone}), node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince = Known(longAgo) }),
			want{RowNodeReplaced, Release, v1alpha1.ReasonNodeReplaced, 0}},
		"NodeReplaced: and not where its entry is older than the policies": {
			terminating(agent, podGone(Pod{Deleting: true, Bound: true, Ending: EndingNone}), node(Node{Machine: renamed, Ready: true}), func(o *Observation) { o.NodeGoneSince, o.PoliciesSince = Known(longAgo), now }),
			want{RowNodeReplaced, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"NodeReplaced: the same of another Node object is another machine's without any policy": {
			terminating(agent, node(Node{Machine: replaced, Ready: true}), func(o *Observation) { o.NodeGoneSince, o.PoliciesSince = Known(longAgo), time.Time{} }),
			want{RowNodeReplaced, Release, v1alpha1.ReasonNodeReplaced, 0}},
		"NodeReplaced: a DoNotRelease of the machine that was replaced wins over its replacement": {
			terminating(agent, node(Node{Machine: replaced, Ready: true}), func(o *Observation) { o.NodeGoneSince = Known(longAgo) }, one(queried(newQuery(madeLongAgo), Known(responded(alive))))),
			want{RowNodeReplaced, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"NodeDeleted: a DoNotRelease wins over the deletion of the Node": {
			terminating(agent, nodeDeleted, one(queried(newQuery(madeLongAgo), Known(responded(alive))))), want{RowNodeDeleted, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"NodeDeleted: so does one that has not seen the sandbox, which may overwrite one that had": {
			terminating(agent, nodeDeleted, one(queried(newQuery(madeLongAgo), Known(responded(alive, func(r *Response) { r.Reason, r.PodUID = string(v1alpha1.ReasonSandboxNotSeen), "" }))))),
			want{RowNodeDeleted, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"NodeDeleted: a last report that could not be read holds": {
			terminating(agent, nodeDeleted, one(queried(newQuery(madeLongAgo), Unknown[Response]("x")))), want{RowObservationFailed, Wait, v1alpha1.ReasonObservationFailed, 0}},
		"NodeDeleted: a query that could not be read holds": {
			terminating(agent, nodeDeleted, one(queried(Unknown[Query]("x"), Absent[Response]()))), want{RowObservationFailed, Wait, v1alpha1.ReasonObservationFailed, 0}},
		"NodeDeleted: one to an earlier query does not": {
			terminating(agent, nodeDeleted, one(queried(newQuery(madeLongAgo), Known(responded(alive, func(r *Response) { r.Epoch-- }))))), want{RowNodeDeleted, Release, v1alpha1.ReasonNodeGone, 0}},
		"NodeDeleted: nor one of the time when the pod lived": {
			terminating(agent, nodeDeleted, one(queried(newQuery(madeLongAgo, forRewrite), Known(responded(alive))))), want{RowNodeDeleted, Release, v1alpha1.ReasonNodeGone, 0}},
		"NodeDeleted: an agent that never responded is declared dead with its Node": {
			terminating(agent, nodeDeleted, one(queried(newQuery(madeLongAgo), Absent[Response]()))), want{RowNodeDeleted, Release, v1alpha1.ReasonNodeGone, 0}},
		"NoAddresses: a graceful termination with no entries left queries no agent": {
			terminating(agent, ended(EndingFinished, time.Time{}), noEntries), want{RowNoAddresses, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"NoAddresses: not while the agent reports a sandbox of the pod": {
			terminating(agent, ended(EndingFinished, longAgo), noEntries, anyQueried(newQuery(), Known(responded(alive, func(r *Response) { r.SuccessorID = "s1" })))),
			want{RowMayBeStarting, Wait, v1alpha1.ReasonMayBeStarting, 0}},
		"NoAddresses: that no sandbox was listed for long enough yet is no such report": {
			terminating(agent, ended(EndingFinished, longAgo), noEntries, anyQueried(newQuery(), Known(responded(alive)))), want{RowNoAddresses, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"NoAddresses: once the agent is queried about any sandbox, a cache does not show that it has reported none": {
			terminating(agent, cached, ended(EndingFinished, longAgo), noEntries, anyQueried(newQuery(), Absent[Response]())), want{RowNoAddresses, Reread, v1alpha1.ReasonNoIPsHeld, 0}},
		"NoAddresses: a report on any sandbox of the pod that could not be read holds": {
			terminating(agent, ended(EndingFinished, longAgo), noEntries, anyQueried(newQuery(), Unknown[Response]("x"))), want{RowObservationFailed, Wait, v1alpha1.ReasonObservationFailed, 0}},
		"NoAddresses: but not where the node is declared dead": {
			terminating(agent, outOfService, ended(EndingFinished, longAgo), noEntries, anyQueried(newQuery(), Unknown[Response]("x"))), want{RowNoAddresses, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"MayBeStarting: a query that could not be read holds": {
			terminating(agent, noEntries, anyQueried(Unknown[Query]("x"), Absent[Response]())), want{RowObservationFailed, Wait, v1alpha1.ReasonObservationFailed, 0}},
		"TerminatedAfterDeletion: a termination reported by the kubelet with entries left queries the agent, without waiting for the grace period": {
			terminating(agent, ended(EndingFinished, time.Time{}), pod(func(p *Pod) { p.Deadline = now.Add(time.Hour) })), want{RowTerminatedAfterDeletion, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"TerminatedAfterDeletion: a DoNotRelease wins over a termination reported by the kubelet": {
			terminating(agent, ended(EndingFinished, longAgo), one(queried(newQuery(madeLongAgo), Known(responded(alive))))), want{RowTerminatedAfterDeletion, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"TerminatedAfterDeletion: ReadyForRelease releases": {
			terminating(agent, ended(EndingFinished, longAgo), one(queried(newQuery(), Known(responded(gone))))), want{RowTerminatedAfterDeletion, Release, v1alpha1.ReasonSandboxGone, 0}},
		"TerminatedAfterDeletion: an agent that does not respond is waited for": {
			terminating(agent, ended(EndingFinished, longAgo), one(queried(newQuery(madeLongAgo), Absent[Response]()))), want{RowTerminatedAfterDeletion, Wait, v1alpha1.ReasonAgentNotResponding, 0}},
		"GracePeriod: no agent is queried within the grace period": {
			terminating(agent, pod(func(p *Pod) { p.Deadline = now })), want{RowGracePeriod, Wait, v1alpha1.ReasonGracePeriod, 30 * time.Second}},
		"AwaitRuntimeReport: a force-deleted pod's node is queried": {
			terminating(agent), want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"AwaitRuntimeReport: Ready or not": {
			terminating(agent, notReady), want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"AwaitRuntimeReport: on live facts only": {
			terminating(agent, cached), want{RowAwaitRuntimeReport, Reread, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"AwaitRuntimeReport: its response is awaited": {
			terminating(agent, one(queried(newQuery(), Absent[Response]()))), want{RowAwaitRuntimeReport, Wait, v1alpha1.ReasonAwaitingNodeResponse, time.Minute}},
		"AwaitRuntimeReport: a Ready node without a response has an agent that does not respond": {
			terminating(agent, one(queried(newQuery(madeLongAgo), Absent[Response]()))), want{RowAwaitRuntimeReport, Wait, v1alpha1.ReasonAgentNotResponding, 0}},
		"AwaitRuntimeReport: an agent that reports why it does not respond is not waited for": {
			terminating(agent, one(queried(newQuery(), Absent[Response]())), func(o *Observation) {
				o.NotResponding = NotResponding{Reason: v1alpha1.ReasonRuntimeUnreachable, Message: "no socket"}
			}), want{RowAwaitRuntimeReport, Wait, v1alpha1.ReasonAgentNotResponding, 0}},
		"AwaitRuntimeReport: of a node that is not Ready the node itself does not respond": {
			terminating(agent, notReady, one(queried(newQuery(madeLongAgo), Absent[Response]()))), want{RowAwaitRuntimeReport, Wait, v1alpha1.ReasonNodeUnreachable, 0}},
		"AwaitRuntimeReport: DoNotRelease holds": {
			terminating(agent, one(queried(newQuery(madeLongAgo), Known(responded(alive))))), want{RowAwaitRuntimeReport, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"AwaitRuntimeReport: DoNotRelease holds also where the kubelet does not report": {
			terminating(agent, notReady, one(queried(newQuery(madeLongAgo), Known(responded(alive))))), want{RowAwaitRuntimeReport, Wait, v1alpha1.ReasonSandboxRunning, 0}},
		"AwaitRuntimeReport: ReadyForRelease releases, also of a node that is not Ready any more": {
			terminating(agent, notReady, one(queried(newQuery(), Known(responded(gone))))), want{RowAwaitRuntimeReport, Release, v1alpha1.ReasonSandboxGone, 0}},
		"AwaitRuntimeReport: the node of a completed pod that is deleted is queried, too": {
			terminating(agent, ended(EndingCompleted, longAgo)), want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"AwaitRuntimeReport: a pod that PodGC ended, too": {
			terminating(agent, ended(EndingForeign, longAgo)), want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"AwaitRuntimeReport: a deleted pod, too": {
			terminating(agent, podGone(Pod{Deleting: true, Bound: true, Ending: EndingNone})), want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"AwaitRuntimeReport: of two sandboxes the one that is gone is released first": {
			terminating(agent, sandboxes(sandbox("s1", queried(newQuery(), Known(responded(gone)))), second)), want{RowAwaitRuntimeReport, Release, v1alpha1.ReasonSandboxGone, 0}},
		"MayBeStarting: nothing held, so that its node is queried about any sandbox": {
			terminating(agent, noEntries), want{RowMayBeStarting, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"MayBeStarting: which has none": {
			terminating(agent, noEntries, anyQueried(newQuery(), Known(responded(gone)))), want{RowMayBeStarting, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"MayBeStarting: its report is read live": {
			terminating(agent, cached, noEntries, anyQueried(newQuery(), Known(responded(gone)))), want{RowMayBeStarting, Reread, v1alpha1.ReasonNoIPsHeld, 0}},
		"MayBeStarting: which may have one": {
			terminating(agent, noEntries, anyQueried(newQuery(), Known(responded(alive)))), want{RowMayBeStarting, Wait, v1alpha1.ReasonMayBeStarting, 0}},
		"MayBeStarting: which does not respond": {
			terminating(agent, noEntries, anyQueried(newQuery(madeLongAgo), Absent[Response]())), want{RowMayBeStarting, Wait, v1alpha1.ReasonAgentNotResponding, 0}},
		"MayBeStarting: which is not Ready": {
			terminating(agent, noEntries, notReady, anyQueried(newQuery(), Absent[Response]())), want{RowMayBeStarting, Wait, v1alpha1.ReasonNodeUnreachable, 0}},
		"MayBeStarting: which reported so before it booted": {
			terminating(agent, noEntries, node(Node{Machine: rebooted, Ready: true}), anyQueried(newQuery(), Known(responded(gone)))), want{RowMayBeStarting, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"MayBeStarting: which is gone": {
			terminating(agent, noEntries, func(o *Observation) { o.Node = Absent[Node]() }), want{RowNodeDeleted, Wait, v1alpha1.ReasonNodeGone, 0}},
		"AddressConflict: a sandbox that the agent saw with another pod UID is not released for this one, and does not hold it": {
			terminating(agent, ended(EndingFinished, longAgo), one(queried(Absent[Query](), Known(responded(gone, func(r *Response) { r.PodUID = "pod-2" }))))),
			want{RowAddressConflict, Disown, v1alpha1.ReasonSandboxDisowned, 0}},
	})
}

func TestTheMessageOfAQueryNamesItsSubject(t *testing.T) {
	d := Decide(terminating(agent, node(Node{Machine: machine, OutOfService: true}), sandboxes(sandbox("s1"), sandbox("s2"))), now)
	if !d.OutOfService || !cmp.Equal(d.Sandboxes, []string{"s1", "s2"}) {
		t.Errorf("a tainted node is to be queried about both sandboxes, because it is tainted: %+v", d)
	}
	d = Decide(terminating(agent, noEntries), now)
	if d.OutOfService || !cmp.Equal(d.Sandboxes, []string{v1alpha1.AnySandbox}) {
		t.Errorf("a node is to be queried about any sandbox: %+v", d)
	}
	d = Decide(terminating(agent, node(Node{Machine: registered, Ready: true})), now)
	if !d.Readdress || d.Row != RowAwaitRuntimeReport {
		t.Errorf("the record follows the machine before its node is queried: %+v", d)
	}
}

func TestDecideQueriesAndRewritesForALivePod(t *testing.T) {
	forRewrite := func(q *Query) { q.Rewrite = true }
	lives := sandbox("s1", func(s *Sandbox) { s.Shown = true }, queried(newQuery(forRewrite), Known(responded(alive, followed))))
	d := Decide(terminating(agent, notDeleting, sandboxes(lives, sandbox("s2", queried(newQuery(forRewrite), Absent[Response]())))), now)
	if d.Action != Rewrite || !cmp.Equal(d.Successors, map[string]string{"s1": "s2"}) || !cmp.Equal(d.Sandboxes, []string{"s1"}) {
		t.Errorf("the entry of s1 is to be given to s2: %+v", d)
	}
	d = Decide(terminating(agent, notDeleting, sandboxes(sandbox("s1", queried(newQuery(forRewrite), Absent[Response]())), sandbox("s2", queried(newQuery(forRewrite), Absent[Response]())))), now)
	if d.Action != Keep || !d.Queried {
		t.Errorf("queries without a response are kept: %+v", d)
	}
}

func TestDecideRepeatsWhyAnAgentDoesNotRespond(t *testing.T) {
	d := Decide(terminating(agent, sandboxes(sandbox("s1", queried(newQuery(madeLongAgo), Absent[Response]()))), func(o *Observation) {
		o.NotResponding = NotResponding{Reason: v1alpha1.ReasonRuntimeUnreachable, Message: "no such socket"}
	}), now)
	if !strings.Contains(d.Message, "RuntimeUnreachable") || !strings.Contains(d.Message, "no such socket") {
		t.Errorf("what the agent itself reports is missing: %s", d.Message)
	}
}
