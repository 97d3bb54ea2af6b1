// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// endedBy is an ending that the kubelet of a machine wrote.
func endedBy(e Ending, writer Machine) func(*Observation) {
	return pod(func(p *Pod) { p.Ending, p.EndedSince, p.EndedBy = e, longAgo, Known(writer) })
}

// endedSomehow is an ending without a recorded writer, of a pod that began at the time.
func endedSomehow(e Ending, begun time.Time, change ...func(*Pod)) func(*Observation) {
	return pod(func(p *Pod) {
		p.Ending, p.EndedSince, p.Begun, p.EndedBy = e, longAgo, begun, Absent[Machine]()
		for _, c := range change {
			c(p)
		}
	})
}

// back is the sandbox's machine, which has registered again: the Node object is younger than pods that began longAgo.
func back(change ...func(*Node)) func(*Observation) {
	n := Node{Machine: registered, Ready: true, Registered: longAgo.Add(time.Hour)}
	for _, c := range change {
		c(&n)
	}
	return node(n)
}

func aliveUnder(uid types.UID) func(*Pod) { return func(p *Pod) { p.AliveNodeUID = uid } }

func TestI1I3ATerminationCountsOnlyFromTheSandboxsOwnMachine(t *testing.T) {
	type want struct {
		row    Row
		action Action
		reason v1alpha1.Reason
	}
	unready := func(n *Node) { n.Ready = false }
	declaredDead := func(n *Node) { n.Ready, n.OutOfService = false, true }
	tornDownAt := func(at time.Time) func(*Pod) {
		return func(p *Pod) { p.DeletionRequested, p.TornDown = longAgo.Add(time.Minute), at }
	}
	waits := want{RowAwaitKubeletReport, Wait, v1alpha1.ReasonKubeletNotFinished}
	finished := want{RowTerminatedAfterDeletion, Release, v1alpha1.ReasonKubeletFinished}
	bare := Machine{NodeUID: "node-1"}
	for name, tc := range map[string]struct {
		observed Observation
		want     want
	}{
		"TerminatedAfterDeletion: a replacement ended the pod, and the old machine registered again with its sandbox": {
			terminating(endedBy(EndingFinished, replaced), back()), waits},
		"TerminatedAfterDeletion: the same, without a recorded writer": {
			terminating(endedSomehow(EndingFinished, longAgo), back()), waits},
		"TerminatedAfterDeletion: the same once the pod object is deleted": {
			terminating(podGone(Pod{Deleting: true, Bound: true, Ending: EndingFinished, EndedBy: Known(replaced)}), back()), waits},
		"TerminatedAfterDeletion: in a record of an earlier version, of a deleted pod without a recorded binding": {
			terminating(podGone(Pod{Deleting: true, Bound: true, Ending: EndingFinished}), back()), waits},
		"TerminatedAfterDeletion: a report of an earlier version, of a pod that began on today's Node object": {
			terminating(podGone(Pod{Deleting: true, Bound: true, Ending: EndingFinished, Begun: longAgo}), node(Node{Machine: machine, Ready: true, Registered: longAgo})), finished},
		"TerminatedAfterDeletion: a machine took the Node object over, ended the pod, and gave the object back": {
			terminating(endedBy(EndingFinished, Machine{NodeUID: machine.NodeUID, MachineID: "machine-2", SystemUUID: "system-2", BootID: "boot-9"}), node(Node{Machine: machine, Ready: true})), waits},
		"TerminatedAfterDeletion: agents are queried instead": {
			terminating(agent, endedBy(EndingFinished, replaced), back()), want{RowAwaitRuntimeReport, Confirm, v1alpha1.ReasonAwaitingNodeResponse}},
		"TerminatedAfterDeletion: and their reports count": {
			terminating(agent, endedBy(EndingFinished, replaced), node(Node{Machine: machine, Ready: true}), queriedAll(newQuery(), Known(responded(gone)))), want{RowAwaitRuntimeReport, Release, v1alpha1.ReasonSandboxGone}},
		"TerminatedAfterDeletion: within the grace period no agent is queried": {
			terminating(agent, endedBy(EndingFinished, replaced), back(), pod(func(p *Pod) { p.Deadline = now.Add(time.Hour) })), want{RowGracePeriod, Wait, v1alpha1.ReasonGracePeriod}},
		"TerminatedAfterDeletion: the old machine ended it before it registered again": {
			terminating(endedBy(EndingFinished, machine), back()), finished},
		"TerminatedAfterDeletion: the old machine ended it after it had registered again": {
			terminating(endedBy(EndingFinished, registered), back()), finished},
		"TerminatedAfterDeletion: the record was re-addressed since, and the report was not": {
			terminating(endedBy(EndingFinished, machine), back(), sandboxes(sandbox("s1", func(s *Sandbox) { s.Machine = Known(registered) }))), finished},
		"TerminatedAfterDeletion: the machine ended it after a reboot": {
			terminating(endedBy(EndingFinished, rebooted), node(Node{Machine: rebooted, Ready: true})), finished},
		"TerminatedAfterDeletion: the machine booted again since": {
			terminating(endedBy(EndingFinished, machine), node(Node{Machine: rebooted, Ready: true})), finished},
		"TerminatedAfterDeletion: the pod was alive when the machine had registered again": {
			terminating(endedSomehow(EndingFinished, longAgo, aliveUnder(registered.NodeUID)), back()), finished},
		"TerminatedAfterDeletion: that is no evidence for the next Node object": {
			terminating(endedSomehow(EndingFinished, longAgo, aliveUnder(registered.NodeUID)), back(func(n *Node) { n.NodeUID = "node-3" })), waits},
		"TerminatedAfterDeletion: a Node object of the very second in which the pod was bound was there": {
			terminating(endedSomehow(EndingFinished, longAgo), node(Node{Machine: machine, Ready: true, Registered: longAgo})), finished},
		"TerminatedAfterDeletion: one of the next second was not": {
			terminating(endedSomehow(EndingFinished, longAgo), node(Node{Machine: machine, Ready: true, Registered: longAgo.Add(time.Second)})), waits},
		"TerminatedAfterDeletion: when the pod began is not known": {
			terminating(endedSomehow(EndingFinished, time.Time{}), node(Node{Machine: machine, Ready: true, Registered: longAgo})), waits},
		"TerminatedAfterDeletion: when the Node registered is not known": {
			terminating(endedSomehow(EndingFinished, longAgo), node(Node{Machine: machine, Ready: true})), waits},
		"TerminatedAfterDeletion: a Node without a UID is no evidence": {
			terminating(endedSomehow(EndingFinished, longAgo), node(Node{Machine: Machine{MachineID: "machine-1", SystemUUID: "system-1", BootID: "boot-1"}, Ready: true, Registered: longAgo})), waits},
		"TerminatedAfterDeletion: without machine IDs the Node UID alone decides": {
			terminating(endedBy(EndingFinished, bare), node(Node{Machine: bare, Ready: true}), sandboxes(sandbox("s1", func(s *Sandbox) { s.Machine = Known(bare) }))), finished},
		"TerminatedAfterDeletion: and another Node UID is another machine": {
			terminating(endedBy(EndingFinished, Machine{NodeUID: "node-2"}), node(Node{Machine: bare, Ready: true}), sandboxes(sandbox("s1", func(s *Sandbox) { s.Machine = Known(bare) }))), waits},
		"TerminatedAfterDeletion: machine IDs on one side only": {
			terminating(endedBy(EndingFinished, bare), node(Node{Machine: machine, Ready: true})), waits},
		"NodeNotReady: a node that is not Ready": {
			terminating(endedBy(EndingFinished, replaced), back(unready)), want{RowNodeNotReady, Wait, v1alpha1.ReasonNodeUnreachable}},
		"NodeOutOfService: the taint ends the wait": {
			terminating(endedBy(EndingFinished, replaced), back(declaredDead)), want{RowNodeOutOfService, Release, v1alpha1.ReasonNodeOutOfService}},
		"NodeOutOfService: with agents the tainted node is queried": {
			terminating(agent, endedBy(EndingFinished, replaced), back(declaredDead)), want{RowNodeOutOfService, Confirm, v1alpha1.ReasonAwaitingNodeResponse}},
		"NodeOutOfService: also if its own kubelet terminated the pod": {
			terminating(agent, endedBy(EndingFinished, registered), back(declaredDead)), want{RowNodeOutOfService, Confirm, v1alpha1.ReasonAwaitingNodeResponse}},
		"NodeDeleted: a Node that was deleted long ago ends the wait": {
			terminating(endedBy(EndingFinished, replaced), func(o *Observation) { o.Node, o.NodeGoneSince = Absent[Node](), Known(longAgo) }), want{RowNodeDeleted, Release, v1alpha1.ReasonNodeGone}},
		"NodeReplaced: while the replacement has the name": {
			terminating(endedBy(EndingFinished, replaced), node(Node{Machine: replaced, Ready: true})), want{RowNodeReplaced, Wait, v1alpha1.ReasonNodeReplaced}},
		"NoAddresses: what holds nothing has nothing to give away": {
			terminating(noEntries, endedBy(EndingFinished, replaced), back()), want{RowNoAddresses, Unprotect, v1alpha1.ReasonNoIPsHeld}},
		"PodCompleted: a Job that another machine completed": {
			terminating(notDeleting, endedBy(EndingCompleted, replaced), back()), want{RowPodCompleted, Wait, v1alpha1.ReasonKubeletNotFinished}},
		"PodCompleted: a Job that its own machine completed": {
			terminating(notDeleting, endedBy(EndingCompleted, machine), back()), want{RowPodCompleted, Release, v1alpha1.ReasonPodCompleted}},
		"PodCompleted: agents are queried in any case": {
			terminating(agent, notDeleting, endedBy(EndingCompleted, replaced), back()), want{RowPodCompleted, Confirm, v1alpha1.ReasonAwaitingNodeResponse}},
		"TerminatedBeforeDeletion: a pod that another machine completed": {
			terminating(endedBy(EndingCompleted, replaced), back()), waits},
		"TerminatedBeforeDeletion: a pod that another machine rejected": {
			terminating(endedBy(EndingRejected, replaced), back()), waits},
		"TerminatedBeforeDeletion: a pod that its own machine rejected, which stopped nothing": {
			terminating(endedBy(EndingRejected, machine), back()), want{RowTerminatedBeforeDeletion, Wait, v1alpha1.ReasonKubeletNotFinished}},
		"TerminatedBeforeDeletion: the old machine's kubelet reports that there is no sandbox": {
			terminating(endedBy(EndingFinished, replaced), back(), pod(tornDownAt(longAgo.Add(2*time.Hour)))), want{RowTerminatedBeforeDeletion, Release, v1alpha1.ReasonPodCompleted}},
		"TerminatedBeforeDeletion: and that has not stood for long": {
			terminating(endedBy(EndingFinished, replaced), back(), pod(tornDownAt(now))), want{RowTerminatedBeforeDeletion, Wait, v1alpha1.ReasonReleaseDelay}},
		"TerminatedBeforeDeletion: a report from before it registered may be the replacement's": {
			terminating(endedBy(EndingFinished, replaced), back(), pod(tornDownAt(longAgo.Add(time.Hour)))), waits},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(tc.observed, now)
			if diff := cmp.Diff(tc.want, want{d.Row, d.Action, d.Reason}, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("Decide (-want +got):\n%s\nmessage: %s", diff, d.Message)
			}
		})
	}
}

func TestEachSandboxHasAMachineOfItsOwnToEndIt(t *testing.T) {
	here := sandbox("here", func(s *Sandbox) { s.Machine = Known(replaced) })
	d := Decide(terminating(endedBy(EndingFinished, replaced), node(Node{Machine: replaced, Ready: true}), sandboxes(sandbox("there"), here)), now)
	if diff := cmp.Diff([]string{"here"}, d.Sandboxes); d.Action != Release || diff != "" {
		t.Errorf("%s (-want +got):\n%s", d.Action, diff)
	}
}

func TestAWaitForItsOwnKubeletNamesTheWriterAndTheRemedy(t *testing.T) {
	written := pod(func(p *Pod) { p.EndWritten = longAgo })
	for name, tc := range map[string]struct {
		observed Observation
		parts    []string
	}{
		"the writer is known": {terminating(endedBy(EndingFinished, replaced), written, back()), []string{"another machine", "node-2", "machine-2", "boot-9", "machine-1", "s1", "restart that kubelet", "out-of-service"}},
		"the writer is unknown": {terminating(endedSomehow(EndingFinished, longAgo), written, back()),
			[]string{longAgo.Format(time.RFC3339), longAgo.Add(time.Hour).Format(time.RFC3339), "another machine may have had the node's name", "s1"}},
		"the pod is not being deleted": {terminating(notDeleting, endedBy(EndingCompleted, replaced), back()), []string{"delete the pod and restart that kubelet"}},
		"the old machine is not Ready": {terminating(endedBy(EndingFinished, replaced), back(func(n *Node) { n.Ready = false })), []string{"machine-2", "bring the node back"}},
	} {
		t.Run(name, func(t *testing.T) {
			message := Decide(tc.observed, now).Message
			for _, part := range tc.parts {
				if !strings.Contains(message, part) {
					t.Errorf("%q is not in: %s", part, message)
				}
			}
			if len(message) > 900 {
				t.Errorf("the message has %d characters, too many for an event", len(message))
			}
		})
	}
}

func TestAPodBeginsWhenItIsBound(t *testing.T) {
	bound, onItsOwn := now, now.Add(time.Hour)
	scheduled := func(status corev1.ConditionStatus, at time.Time, owners ...func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(longAgo)},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: status, LastTransitionTime: metav1.NewTime(at)}}}}
		for _, add := range owners {
			add(pod)
		}
		return pod
	}
	const condition = `"f:status":{"f:phase":{},"f:conditions":{"k:{\"type\":\"PodScheduled\"}":{"f:lastTransitionTime":{}}}}`
	maker := owner("kubectl", "", `{"f:spec":{"f:containers":{},"f:nodeName":{}}}`, longAgo)
	for name, tc := range map[string]struct {
		pod          *corev1.Pod
		begun, bound time.Time
	}{
		"by the scheduler":                  {scheduled(corev1.ConditionTrue, bound, owner("kubectl", "", `{"f:spec":{"f:containers":{}}}`, longAgo)), bound, bound},
		"which has not found it a node yet": {scheduled(corev1.ConditionFalse, bound), longAgo, time.Time{}},
		"which had not found it a node at first, and wrote that down": {
			scheduled(corev1.ConditionTrue, bound, owner("kube-scheduler", "status", `{`+condition+`}`, longAgo)), bound, bound},
		"or when it is made": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(longAgo)}}, longAgo, time.Time{}},
		"when it is created with its nodeName, with any clock of its node": {
			scheduled(corev1.ConditionTrue, onItsOwn, maker, owner("kubelet", "status", `{`+condition+`}`, onItsOwn)), longAgo, longAgo},
		"when it is made with its nodeName, by a mirror pod's kubelet": {
			scheduled(corev1.ConditionTrue, onItsOwn, owner("kubelet", "", `{"f:spec":{"f:nodeName":{}}}`, longAgo)), longAgo, longAgo},
		"when one owner did all": {scheduled(corev1.ConditionTrue, onItsOwn, owner("all", "", `{"f:spec":{"f:nodeName":{}},`+condition+`}`, longAgo)), longAgo, longAgo},
		"when it is made, where who named the node cannot be read": {
			scheduled(corev1.ConditionTrue, onItsOwn, owner("kubelet", "status", `{"f:spec":`, longAgo)), longAgo, longAgo},
	} {
		t.Run(name, func(t *testing.T) {
			for _, reading := range []string{"whole", "after FieldOwnership"} {
				if got := Begun(tc.pod); !got.Equal(tc.begun) {
					t.Errorf("%s: Begun = %s, want %s", reading, got, tc.begun)
				}
				if got := Bound(tc.pod); !got.Equal(tc.bound) {
					t.Errorf("%s: Bound = %s, want %s", reading, got, tc.bound)
				}
				tc.pod.ManagedFields = FieldOwnership(tc.pod.ManagedFields)
			}
		})
	}
}

func TestARecordRemembersATermination(t *testing.T) {
	observed, written, bound := metav1.NewTime(now), metav1.NewTime(longAgo), metav1.NewTime(longAgo.Add(-time.Hour))
	record := func(report *v1alpha1.KubeletReport) *v1alpha1.IPAllocation {
		return &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{ScheduledTime: &bound, AliveNodeUID: "node-2", Kubelet: report}}
	}
	node := &v1alpha1.NodeIdentity{UID: "node-1", MachineID: "machine-1", SystemUUID: "system-1", BootID: "boot-1"}
	for name, tc := range map[string]struct {
		report    *v1alpha1.KubeletReport
		pod, want Pod
	}{
		"nothing yet": {nil, Pod{}, Pod{Begun: bound.Time, AliveNodeUID: "node-2"}},
		"all": {&v1alpha1.KubeletReport{ObservedTime: observed, WrittenTime: &written, Node: node}, Pod{},
			Pod{Begun: bound.Time, AliveNodeUID: "node-2", EndedSince: now, EndWritten: longAgo, EndedBy: Known(machine)}},
		"no writer": {&v1alpha1.KubeletReport{ObservedTime: observed}, Pod{EndWritten: now}, Pod{Begun: bound.Time, AliveNodeUID: "node-2", EndedSince: now, EndWritten: now}},
		"a later time in the pod, which others may write": {nil, Pod{Begun: longAgo}, Pod{Begun: bound.Time, AliveNodeUID: "node-2"}},
		"an earlier time in the pod":                      {nil, Pod{Begun: bound.Add(-time.Hour)}, Pod{Begun: bound.Add(-time.Hour), AliveNodeUID: "node-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.pod.Remember(record(tc.report))
			if diff := cmp.Diff(tc.want, tc.pod, cmp.AllowUnexported(Fact[Machine]{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
