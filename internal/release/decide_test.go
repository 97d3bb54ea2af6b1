// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var (
	now      = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	longAgo  = now.Add(-24 * time.Hour)
	settings = Settings{ReleaseDelay: 3 * time.Minute, GracePeriodSlack: 30 * time.Second, SandboxCreationMax: 10 * time.Minute, NodeGoneDelay: 5 * time.Minute, ResponseWithin: time.Minute}

	machine    = Machine{NodeUID: "node-1", MachineID: "machine-1", SystemUUID: "system-1", BootID: "boot-1"}
	registered = Machine{NodeUID: "node-2", MachineID: "machine-1", SystemUUID: "system-1", BootID: "boot-1"}
	rebooted   = Machine{NodeUID: "node-1", MachineID: "machine-1", SystemUUID: "system-1", BootID: "boot-2"}
	renamed    = Machine{NodeUID: "node-1", MachineID: "machine-1", SystemUUID: "system-2", BootID: "boot-1"}
	replaced   = Machine{NodeUID: "node-2", MachineID: "machine-2", SystemUUID: "system-2", BootID: "boot-9"}
)

// terminating is a pod past its grace period, with one sandbox that has an entry, on a Ready node, all read live.
func terminating(change ...func(*Observation)) Observation {
	o := Observation{
		Evidence:      EvidenceKubelet,
		Live:          true,
		Recorded:      true,
		Pod:           Known(Pod{Deleting: true, Deadline: now.Add(-time.Hour), Bound: true, Ending: EndingNone, Begun: longAgo.Add(-time.Hour)}),
		PoliciesSince: longAgo.Add(-2 * time.Hour),
		Sandboxes:     Known([]Sandbox{sandbox("s1")}),
		Node:          Known(Node{Machine: machine, Ready: true}),
		NodeGoneSince: Absent[time.Time](),
		UID:           "pod-1",
		Any:           notQueried(),
		Settings:      settings,
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func sandbox(id string, change ...func(*Sandbox)) Sandbox {
	s := Sandbox{ID: id, Machine: Known(machine), Attribution: v1alpha1.AttributionNetworkStatus, UnchangedSince: longAgo, Query: Absent[Query](), Response: Absent[Response]()}
	for _, c := range change {
		c(&s)
	}
	return s
}

func pod(change func(*Pod)) func(*Observation) {
	return func(o *Observation) {
		p := o.Pod.Get()
		change(&p)
		o.Pod = Known(p)
	}
}

// ended is an ending; one by a kubelet is by the kubelet of the sandbox's machine.
func ended(e Ending, since time.Time) func(*Observation) {
	return pod(func(p *Pod) { p.Ending, p.EndedSince, p.EndedBy = e, since, Known(machine) })
}

func node(n Node) func(*Observation) { return func(o *Observation) { o.Node = Known(n) } }

func sandboxes(s ...Sandbox) func(*Observation) {
	return func(o *Observation) { o.Sandboxes = Known(s) }
}

func noEntries(o *Observation) { o.Sandboxes = Absent[[]Sandbox]() }
func notDeleting(o *Observation) {
	pod(func(p *Pod) { p.Deleting, p.Deadline = false, time.Time{} })(o)
}
func agent(o *Observation)  { o.Evidence = EvidenceAgent }
func cached(o *Observation) { o.Live = false }
func podGone(last Pod) func(*Observation) {
	return func(o *Observation) { o.Pod, o.Last = Absent[Pod](), last }
}

type want struct {
	row    Row
	action Action
	reason v1alpha1.Reason
	after  time.Duration
}

type decideCase struct {
	observed Observation
	want     want
}

// decides compares decisions with the expected ones.
func decides(t *testing.T, tests map[string]decideCase) {
	t.Helper()
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

func TestDecide(t *testing.T) {
	decides(t, map[string]decideCase{
		"ObservationFailed: a pod that could not be read waits": {
			terminating(func(o *Observation) { o.Pod = Unknown[Pod]("timeout") }), want{RowObservationFailed, Wait, v1alpha1.ReasonObservationFailed, 0}},
		"ObservationFailed: entries that could not be read wait, after any report of the kubelet": {
			terminating(ended(EndingFinished, longAgo), func(o *Observation) { o.Sandboxes = Unknown[[]Sandbox]("timeout") }),
			want{RowObservationFailed, Wait, v1alpha1.ReasonObservationFailed, 0}},
		"ObservationFailed: a node that could not be read waits": {
			terminating(ended(EndingFinished, longAgo), func(o *Observation) { o.Node = Unknown[Node]("timeout") }),
			want{RowObservationFailed, Wait, v1alpha1.ReasonObservationFailed, 0}},
		"ObservationFailed: a node that was not read at all waits": {
			terminating(ended(EndingFinished, longAgo), func(o *Observation) { o.Node = Fact[Node]{} }),
			want{RowObservationFailed, Wait, v1alpha1.ReasonObservationFailed, 0}},
		"MachineUnknown: a sandbox whose machine was never recorded waits": {
			terminating(ended(EndingFinished, longAgo), sandboxes(sandbox("s1", func(s *Sandbox) { s.Machine = Unknown[Machine]("no read") }))),
			want{RowMachineUnknown, Wait, v1alpha1.ReasonMachineUnknown, 0}},
		"PodCompleted: a completed Job on a Ready node gives its address back after the delay": {
			terminating(notDeleting, ended(EndingCompleted, longAgo)), want{RowPodCompleted, Release, v1alpha1.ReasonPodCompleted, 0}},
		"PodCompleted: before the delay is over it waits for the rest of it": {
			terminating(notDeleting, ended(EndingCompleted, now.Add(-time.Minute))), want{RowPodCompleted, Wait, v1alpha1.ReasonReleaseDelay, 2 * time.Minute}},
		"PodCompleted: a delay that is not recorded has not begun": {
			terminating(notDeleting, ended(EndingCompleted, time.Time{})), want{RowPodCompleted, Wait, v1alpha1.ReasonReleaseDelay, 3 * time.Minute}},
		"PodCompleted: on a node that is not Ready it waits": {
			terminating(notDeleting, ended(EndingCompleted, longAgo), node(Node{Machine: machine})), want{RowNodeNotReady, Wait, v1alpha1.ReasonNodeUnreachable, 0}},
		"PodCompleted: another machine under the name proves nothing": {
			terminating(notDeleting, ended(EndingCompleted, longAgo), node(Node{Machine: replaced, Ready: true})), want{RowPodCompleted, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"PodCompleted: in agent mode the node is queried": {
			terminating(agent, notDeleting, ended(EndingCompleted, longAgo)), want{RowPodCompleted, Confirm, v1alpha1.ReasonAwaitingNodeResponse, 0}},
		"PodInUse: a running pod keeps its addresses": {
			terminating(notDeleting), want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 0}},
		"PodInUse: PodGC's faked end of a pod that is not deleting is no end": {
			terminating(notDeleting, ended(EndingForeign, longAgo)), want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 0}},
		"PodInUse: a completed pod without entries keeps its finalizer until it is deleted": {
			terminating(notDeleting, ended(EndingCompleted, longAgo), noEntries), want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 0}},
		"NeverScheduled: a pod that was never bound is let go, from any cache": {
			terminating(cached, noEntries, pod(func(p *Pod) { p.Bound = false })), want{RowNeverScheduled, Unprotect, v1alpha1.ReasonNeverScheduled, 0}},
		"NoAddresses: the ordinary end: finished, no entries": {
			terminating(cached, ended(EndingFinished, time.Time{}), noEntries), want{RowNoAddresses, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"NoAddresses: without a record a cache does not show that there are no entries": {
			terminating(cached, ended(EndingFinished, time.Time{}), noEntries, func(o *Observation) { o.Recorded = false }),
			want{RowNoAddresses, Reread, v1alpha1.ReasonNoIPsHeld, 0}},
		"NoAddresses: a rejected pod without entries is let go": {
			terminating(ended(EndingRejected, time.Time{}), noEntries), want{RowNoAddresses, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"NoAddresses: PodGC's faked end does not let a pod go": {
			terminating(ended(EndingForeign, longAgo), noEntries), want{RowMayBeStarting, Wait, v1alpha1.ReasonMayBeStarting, 0}},
		"NoAddresses: a deleted pod without entries leaves only its record": {
			terminating(podGone(Pod{Deleting: true, Bound: true, Ending: EndingNone}), noEntries), want{RowNoAddresses, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"NodeOutOfService: out-of-service and not Ready releases": {
			terminating(node(Node{Machine: machine, OutOfService: true})), want{RowNodeOutOfService, Release, v1alpha1.ReasonNodeOutOfService, 0}},
		"NodeOutOfService: even before the grace period is over": {
			terminating(node(Node{Machine: machine, OutOfService: true}), pod(func(p *Pod) { p.Deadline = now.Add(time.Hour) })),
			want{RowNodeOutOfService, Release, v1alpha1.ReasonNodeOutOfService, 0}},
		"NodeOutOfService: out-of-service but Ready declares nothing": {
			terminating(node(Node{Machine: machine, OutOfService: true, Ready: true})), want{RowAwaitKubeletReport, Wait, v1alpha1.ReasonKubeletNotFinished, 0}},
		"NodeOutOfService: a taint on another machine's Node declares nothing": {
			terminating(node(Node{Machine: replaced, OutOfService: true})), want{RowNodeReplaced, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"NodeOutOfService: what holds nothing more on a tainted node is unprotected": {
			terminating(noEntries, node(Node{Machine: machine, OutOfService: true})), want{RowNodeOutOfService, Unprotect, v1alpha1.ReasonNodeOutOfService, 0}},
		"NodeOutOfService: by a live read of the node only": {
			terminating(cached, noEntries, node(Node{Machine: machine, OutOfService: true})), want{RowNodeOutOfService, Reread, v1alpha1.ReasonNodeOutOfService, 0}},
		"NodeDeleted: a pod without entries is unprotected after the delay": {
			terminating(noEntries, func(o *Observation) { o.Node, o.NodeGoneSince = Absent[Node](), Known(longAgo) }), want{RowNodeDeleted, Unprotect, v1alpha1.ReasonNodeGone, 0}},
		"NodeDeleted: a Node that is gone is held until that is old enough": {
			terminating(func(o *Observation) { o.Node, o.NodeGoneSince = Absent[Node](), Known(now.Add(-time.Minute)) }),
			want{RowNodeDeleted, Wait, v1alpha1.ReasonNodeGone, 4 * time.Minute}},
		"NodeDeleted: and then released": {
			terminating(func(o *Observation) { o.Node, o.NodeGoneSince = Absent[Node](), Known(longAgo) }), want{RowNodeDeleted, Release, v1alpha1.ReasonNodeGone, 0}},
		"NodeDeleted: held for ever on Hold": {
			terminating(func(o *Observation) {
				o.Node, o.NodeGoneSince, o.Settings.HoldGoneNodes = Absent[Node](), Known(longAgo), true
			}), want{RowNodeDeleted, Wait, v1alpha1.ReasonNodeGone, 0}},
		"NodeDeleted: held until the time is recorded": {
			terminating(func(o *Observation) { o.Node = Absent[Node]() }), want{RowNodeDeleted, Wait, v1alpha1.ReasonNodeGone, 0}},
		"NodeDeleted: never passed on to row TerminatedAfterDeletion": {
			terminating(ended(EndingFinished, longAgo), func(o *Observation) { o.Node = Absent[Node]() }), want{RowNodeDeleted, Wait, v1alpha1.ReasonNodeGone, 0}},
		"a re-registered machine counts as live": {
			terminating(ended(EndingFinished, longAgo), node(Node{Machine: registered, Ready: true})), want{RowTerminatedAfterDeletion, Release, v1alpha1.ReasonKubeletFinished, 0}},
		"PossibleClone: a machine that booted again is as good as live: its kubelet ends what the old boot left": {
			terminating(ended(EndingFinished, longAgo), node(Node{Machine: rebooted, Ready: true})), want{RowTerminatedAfterDeletion, Release, v1alpha1.ReasonKubeletFinished, 0}},
		"PossibleClone: but a boot ID alone, which may have been read too early, gives nothing away": {
			terminating(node(Node{Machine: rebooted, Ready: true})), want{RowAwaitKubeletReport, Wait, v1alpha1.ReasonKubeletNotFinished, 0}},
		"NodeReplaced: a replacement kubelet's report is not believed": {
			terminating(ended(EndingFinished, longAgo), node(Node{Machine: replaced, Ready: true})), want{RowNodeReplaced, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"TerminatedAfterDeletion: kubelet-finished releases at once what stood long enough": {
			terminating(ended(EndingFinished, time.Time{}), pod(func(p *Pod) { p.Deadline = now.Add(time.Hour) })),
			want{RowTerminatedAfterDeletion, Release, v1alpha1.ReasonKubeletFinished, 0}},
		"TerminatedAfterDeletion: a sandbox that only the watch attributes waits until it stood unchanged": {
			terminating(ended(EndingFinished, longAgo), sandboxes(sandbox("s1", func(s *Sandbox) {
				s.Attribution, s.UnchangedSince = v1alpha1.AttributionObservedAdd, now.Add(-time.Minute)
			}))), want{RowTerminatedAfterDeletion, Wait, v1alpha1.ReasonSandboxUnconfirmed, 9 * time.Minute}},
		"I3: TerminatedAfterDeletion: so does one that network-status shows, which tenants may write": {
			terminating(ended(EndingFinished, longAgo), sandboxes(sandbox("s1", func(s *Sandbox) { s.UnchangedSince = now.Add(-time.Minute) }))),
			want{RowTerminatedAfterDeletion, Wait, v1alpha1.ReasonSandboxUnconfirmed, 9 * time.Minute}},
		"TerminatedAfterDeletion: and is released then": {
			terminating(ended(EndingFinished, longAgo), sandboxes(sandbox("s1", func(s *Sandbox) { s.Attribution = v1alpha1.AttributionObservedAdd }))),
			want{RowTerminatedAfterDeletion, Release, v1alpha1.ReasonKubeletFinished, 0}},
		"TerminatedAfterDeletion: so are those of a young entry, which CNI DEL may have taken out by now": {
			terminating(cached, ended(EndingFinished, longAgo), sandboxes(sandbox("s1", func(s *Sandbox) { s.UnchangedSince = now.Add(-time.Minute) }))),
			want{RowTerminatedAfterDeletion, Reread, v1alpha1.ReasonSandboxUnconfirmed, 9 * time.Minute}},
		"TerminatedAfterDeletion: cached facts are read again": {
			terminating(cached, ended(EndingFinished, longAgo)), want{RowTerminatedAfterDeletion, Reread, v1alpha1.ReasonKubeletFinished, 0}},
		"NodeDeleted: a sandbox without a recorded machine is held, since it may live under another name": {
			terminating(sandboxes(sandbox("s1", func(s *Sandbox) { s.Machine = Unknown[Machine]("x") })),
				func(o *Observation) { o.Node, o.NodeGoneSince = Absent[Node](), Known(longAgo) }), want{RowNodeDeleted, Wait, v1alpha1.ReasonNodeGone, 0}},
		"NodeDeleted: a pod without entries has the remaining wait": {
			terminating(noEntries, func(o *Observation) { o.Node, o.NodeGoneSince = Absent[Node](), Known(now.Add(-time.Minute)) }),
			want{RowNodeDeleted, Wait, v1alpha1.ReasonNodeGone, 4 * time.Minute}},
		"MayBeStarting: a kubelet that began after the deletion makes no sandbox": {
			terminating(noEntries, ended(EndingForeign, longAgo), pod(func(p *Pod) { p.DeletionRequested = longAgo.Add(-time.Second) }),
				node(Node{Machine: machine, Ready: true, Registered: longAgo})), want{RowMayBeStarting, Unprotect, v1alpha1.ReasonNoIPsHeld, 0}},
		"MayBeStarting: it is believed only once what its predecessor was starting is over": {
			terminating(noEntries, ended(EndingForeign, longAgo), pod(func(p *Pod) { p.DeletionRequested = longAgo }), node(Node{Machine: machine, Ready: true, Registered: now.Add(-time.Minute)})),
			want{RowMayBeStarting, Wait, v1alpha1.ReasonMayBeStarting, 9 * time.Minute}},
		"MayBeStarting: a Node of the deletion's very second may be the older one": {
			terminating(noEntries, ended(EndingForeign, longAgo), pod(func(p *Pod) { p.DeletionRequested = longAgo }), node(Node{Machine: machine, Ready: true, Registered: longAgo})),
			want{RowMayBeStarting, Wait, v1alpha1.ReasonMayBeStarting, 0}},
		"MayBeStarting: a kubelet that can still report the end is waited for": {
			terminating(noEntries, pod(func(p *Pod) { p.DeletionRequested = longAgo.Add(-time.Second) }), node(Node{Machine: machine, Ready: true, Registered: longAgo})),
			want{RowMayBeStarting, Wait, v1alpha1.ReasonMayBeStarting, 0}},
		"TerminatedAfterDeletion: a deleted pod is judged on the last facts": {
			terminating(podGone(Pod{Deleting: true, Bound: true, Ending: EndingFinished, EndedBy: Known(machine)})), want{RowTerminatedAfterDeletion, Release, v1alpha1.ReasonKubeletFinished, 0}},
		"GracePeriod: within the grace period nothing is suspected": {
			terminating(pod(func(p *Pod) { p.Deadline = now.Add(time.Second) })), want{RowGracePeriod, Wait, v1alpha1.ReasonGracePeriod, 31 * time.Second}},
		"TerminatedBeforeDeletion: terminal before its deletion, Ready node, delay over": {
			terminating(ended(EndingCompleted, longAgo)), want{RowTerminatedBeforeDeletion, Release, v1alpha1.ReasonPodCompleted, 0}},
		"TerminatedBeforeDeletion: a sandbox of which nothing shows that the kubelet knew it waits until it stood unchanged": {
			terminating(ended(EndingCompleted, longAgo), sandboxes(sandbox("s1", func(s *Sandbox) {
				s.Attribution, s.UnchangedSince = v1alpha1.AttributionUnconfirmed, now.Add(-time.Minute)
			}))), want{RowTerminatedBeforeDeletion, Wait, v1alpha1.ReasonSandboxUnconfirmed, 9 * time.Minute}},
		"TerminatedBeforeDeletion: a rejected pod's sandbox is never released by time alone: the kubelet stopped nothing": {
			terminating(ended(EndingRejected, longAgo)), want{RowTerminatedBeforeDeletion, Wait, v1alpha1.ReasonKubeletNotFinished, 0}},
		"TerminatedBeforeDeletion: but once the kubelet has reported for the delay that there is no sandbox": {
			terminating(ended(EndingRejected, longAgo), pod(tornDown(longAgo.Add(time.Second))), node(Node{Machine: machine, Ready: true, Registered: longAgo})),
			want{RowTerminatedBeforeDeletion, Release, v1alpha1.ReasonPodCompleted, 0}},
		"PodCompleted: a rejected pod that is not being deleted is never released by time alone": {
			terminating(notDeleting, ended(EndingRejected, longAgo)), want{RowPodCompleted, Wait, v1alpha1.ReasonKubeletNotFinished, 0}},
		"TerminatedBeforeDeletion: a node that came back without the pod that PodGC ended gives its address back after the delay": {
			terminating(ended(EndingForeign, time.Time{}), pod(tornDown(longAgo.Add(time.Second))), node(Node{Machine: registered, Ready: true, Registered: longAgo})),
			want{RowTerminatedBeforeDeletion, Release, v1alpha1.ReasonPodCompleted, 0}},
		"TerminatedBeforeDeletion: a sandbox that was being created when the kubelet reported none is held until it stood unchanged": {
			terminating(ended(EndingForeign, time.Time{}), pod(tornDown(longAgo.Add(time.Second))), node(Node{Machine: registered, Ready: true, Registered: longAgo}),
				sandboxes(sandbox("s1", func(s *Sandbox) {
					s.Attribution, s.UnchangedSince = v1alpha1.AttributionUnconfirmed, now.Add(-time.Minute)
				}))), want{RowTerminatedBeforeDeletion, Wait, v1alpha1.ReasonSandboxUnconfirmed, 9 * time.Minute}},
		"TerminatedBeforeDeletion: before the delay is over it waits for the rest of it": {
			terminating(ended(EndingForeign, time.Time{}), pod(tornDown(now.Add(-time.Minute))), node(Node{Machine: registered, Ready: true, Registered: longAgo})),
			want{RowTerminatedBeforeDeletion, Wait, v1alpha1.ReasonReleaseDelay, 2 * time.Minute}},
		"AwaitKubeletReport: a report from before the node registered may be another machine's": {
			terminating(ended(EndingForeign, time.Time{}), pod(tornDown(longAgo)), node(Node{Machine: registered, Ready: true, Registered: longAgo})),
			want{RowAwaitKubeletReport, Wait, v1alpha1.ReasonKubeletNotFinished, 0}},
		"AwaitKubeletReport: a node that was there all the time has not come back": {
			terminating(ended(EndingForeign, time.Time{}), pod(tornDown(now.Add(-time.Hour))), node(Node{Machine: machine, Ready: true, Registered: longAgo.Add(-time.Hour)})),
			want{RowAwaitKubeletReport, Wait, v1alpha1.ReasonKubeletNotFinished, 0}},
		"NodeNotReady: a node that came back and is not Ready is no evidence": {
			terminating(ended(EndingForeign, time.Time{}), pod(tornDown(longAgo.Add(time.Second))), node(Node{Machine: registered, Registered: longAgo})),
			want{RowNodeNotReady, Wait, v1alpha1.ReasonNodeUnreachable, 0}},
		"NodeNotReady: an unreachable node waits as long as it takes": {
			terminating(node(Node{Machine: machine})), want{RowNodeNotReady, Wait, v1alpha1.ReasonNodeUnreachable, 0}},
		"NodeNotReady: an unreachable node waits with a pod that holds nothing, too": {
			terminating(noEntries, node(Node{Machine: machine})), want{RowNodeNotReady, Wait, v1alpha1.ReasonNodeUnreachable, 0}},
		"PodInUse: a running pod is left alone although the pools cannot be read": {
			terminating(notDeleting, func(o *Observation) { o.Sandboxes = Unknown[[]Sandbox]("no CRD") }), want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 0}},
		"AwaitKubeletReport: kubelet mode waits for the kubelet": {
			terminating(), want{RowAwaitKubeletReport, Wait, v1alpha1.ReasonKubeletNotFinished, 0}},
		"AwaitKubeletReport: PodGC's faked end on a Ready node is not the kubelet's": {
			terminating(ended(EndingForeign, longAgo)), want{RowAwaitKubeletReport, Wait, v1alpha1.ReasonKubeletNotFinished, 0}},
		"MayBeStarting: nothing held, but it may be starting": {
			terminating(noEntries), want{RowMayBeStarting, Wait, v1alpha1.ReasonMayBeStarting, 0}},
		"Unclassified: an installation without a kind of evidence": {
			terminating(func(o *Observation) { o.Evidence = 0 }), want{RowUnclassified, Wait, v1alpha1.ReasonUnclassified, 0}},
		"Unclassified: an ending that is not set": {
			terminating(ended(0, longAgo)), want{RowUnclassified, Wait, v1alpha1.ReasonUnclassified, 0}},
		"AddressConflict: it is never released": {
			terminating(ended(EndingFinished, longAgo), sandboxes(sandbox("s1", func(s *Sandbox) { s.Conflict = true }))),
			want{RowAddressConflict, Wait, v1alpha1.ReasonConflict, 0}},
	})
}

// TestTheMessageOfAConflictHasTheRemedy: no event resolves it as long as the other pod lives.
func TestTheMessageOfAConflictHasTheRemedy(t *testing.T) {
	d := Decide(terminating(ended(EndingFinished, longAgo), sandboxes(sandbox("s1", func(s *Sandbox) { s.Conflict = true }))), now)
	for _, want := range []string{"is that of another sandbox too, in its pool or by a record", "if the pod of the other one lives, replace it", "kubectl holdfast who"} {
		if !strings.Contains(d.Message, want) {
			t.Errorf("the message does not have %q: %s", want, d.Message)
		}
	}
}

func TestDecideJudgesEachSandbox(t *testing.T) {
	held := sandbox("held", func(s *Sandbox) { s.Attribution, s.UnchangedSince = v1alpha1.AttributionObservedAdd, now })
	rival := sandbox("rival", func(s *Sandbox) { s.Conflict = true })
	elsewhere := sandbox("another machine's", func(s *Sandbox) { s.Machine = Known(replaced) })
	got := Decide(terminating(ended(EndingFinished, longAgo), sandboxes(rival, held, sandbox("free"), elsewhere, sandbox("free too"))), now)
	want := Decision{Row: RowTerminatedAfterDeletion, Action: Release, Reason: v1alpha1.ReasonKubeletFinished, After: 10 * time.Minute, Sandboxes: []string{"free", "free too"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Decision{}, "Message", "Then")); diff != "" {
		t.Errorf("Decide (-want +got):\n%s", diff)
	}
}

func TestDecideReaddressesAReregisteredMachine(t *testing.T) {
	if d := Decide(terminating(node(Node{Machine: registered, Ready: true})), now); !d.Readdress || d.Row != RowAwaitKubeletReport {
		t.Errorf("Decide = %+v, want row AwaitKubeletReport as for a live node, and Readdress", d)
	}
}
