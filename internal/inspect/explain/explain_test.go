// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	uid     = types.UID("11111111-1111-1111-1111-111111111111")
	other   = types.UID("22222222-2222-2222-2222-222222222222")
	sandbox = "sandbox-1"
	pool    = "kube-system/10.0.0.0-24"
)

var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

var networkStatus = map[string]string{"k8s.v1.cni.cncf.io/network-status": `[{"name":"apps/net","interface":"net1","ips":["10.0.0.1"]}]`}

func thePod() *corev1.Pod {
	deleted := before(10 * time.Minute)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web-0", UID: uid, Finalizers: []string{v1alpha1.Finalizer}, DeletionTimestamp: &deleted,
			CreationTimestamp: before(2 * time.Hour), DeletionGracePeriodSeconds: new(int64(0)), Annotations: networkStatus},
		Spec:   corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// end writes a terminal phase under a name.
func end(pod *corev1.Pod, manager string) {
	written := before(5 * time.Minute)
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: written}}}}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Subresource: "status", Time: &written, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
}

func theNode(status corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "node-uid", CreationTimestamp: before(24 * time.Hour)},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "s", BootID: "b"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: before(time.Hour)}}},
	}
}

func theRecord() *v1alpha1.IPAllocation {
	return &v1alpha1.IPAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: string(uid)},
		Spec: v1alpha1.IPAllocationSpec{PodNamespace: "apps", PodName: "web-0", NodeName: "node-1",
			Sandboxes: []v1alpha1.SandboxRecord{{ID: sandbox, ObservedTime: before(time.Hour), Attribution: v1alpha1.AttributionNetworkStatus,
				Node: &v1alpha1.NodeIdentity{UID: "node-uid", MachineID: "m", SystemUUID: "s", BootID: "b"}}},
			Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: pool, IP: "10.0.0.1", Interface: "net1", PodRef: "apps/web-0", SandboxID: sandbox, ObservedTime: before(time.Hour)}}},
	}
}

func guarded(machine string, gone *v1alpha1.MachineGone) v1alpha1.GuardedNode {
	return v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: "node-uid"}, Spec: v1alpha1.GuardedNodeSpec{NodeName: "node-1",
		Machines: []v1alpha1.GuardedMachine{{MachineID: machine, SystemUUID: "s", BootID: machine, Gone: gone}}}}
}

func theEntry() ipam.Entry {
	return ipam.Entry{Key: ipam.Key{Backend: "whereabouts", Pool: pool, IP: netip.MustParseAddr("10.0.0.1"), SandboxID: sandbox, PodRef: "apps/web-0", Interface: "net1"},
		Owner: &ipam.PodRef{Namespace: "apps", Name: "web-0"}}
}

// held is a pod that is being deleted on a node that is not Ready.
func heldFacts() *Facts {
	return &Facts{
		UID: uid, Ref: ipam.PodRef{Namespace: "apps", Name: "web-0"}, Pod: release.Known(thePod()), Record: theRecord(),
		Records: release.Known([]v1alpha1.IPAllocation{}), Entries: release.Known(ipam.Snapshot{Entries: []ipam.Entry{theEntry()}}),
		Node: release.Known(theNode(corev1.ConditionUnknown)), Evidence: release.EvidenceKubelet,
		GuardedNodes: release.Known([]v1alpha1.GuardedNode{}),
		Settings:     release.Settings{ReleaseDelay: time.Minute, GracePeriodSlack: 30 * time.Second, SandboxCreationMax: 10 * time.Minute, NodeGoneDelay: 5 * time.Minute, ResponseWithin: time.Minute},
	}
}

func rival() v1alpha1.IPAllocation {
	r := theRecord()
	r.Name, r.Spec.PodName = string(other), "db-0"
	r.Spec.Addresses[0].SandboxID, r.Spec.Sandboxes[0].ID = "sandbox-2", "sandbox-2"
	return *r
}

// queried has the agent of the node queried about the sandbox, with the response to the query of an epoch if there is a verdict.
func queried(f *Facts, verdict v1alpha1.Verdict, epoch int64) {
	f.Evidence = release.EvidenceAgent
	f.Node = release.Known(theNode(corev1.ConditionTrue))
	object := guarded("m", nil)
	object.Spec.Queries = []v1alpha1.SandboxQuery{{Record: string(uid), SandboxID: sandbox, BootID: "b", Epoch: 3, Purpose: v1alpha1.PurposeRelease, Time: before(10 * time.Second)}}
	if verdict != "" {
		object.Status.Responses = []v1alpha1.SandboxResponse{{Record: string(uid), SandboxID: sandbox, BootID: "b", Epoch: epoch, Verdict: verdict, Reason: "SandboxReady"}}
	}
	f.GuardedNodes = release.Known([]v1alpha1.GuardedNode{object})
}

// underTaint makes the query one that was made after the out-of-service taint.
func underTaint(f *Facts) { f.GuardedNodes.Get()[0].Spec.Queries[0].OutOfService = true }

func TestExplain(t *testing.T) {
	cases := map[string]struct {
		change   func(*Facts)
		row      release.Row
		action   release.Action
		reason   v1alpha1.Reason
		notHeld  bool
		standing string
		// ends are beginnings of what would end it; notes are parts of what is said besides.
		ends, notes []string
	}{
		"a node that is not Ready holds, until it is back, declared dead or deleted": {
			row: release.RowNodeNotReady, action: release.Wait, reason: v1alpha1.ReasonNodeUnreachable, standing: StandingInPool,
			ends: []string{"the node comes back, and the kubelet", "the node is tainted", "the Node object is deleted"},
		},
		"a pod that is not being deleted uses its addresses": {
			change: func(f *Facts) { p := thePod(); p.DeletionTimestamp = nil; f.Pod = release.Known(p) },
			row:    release.RowPodInUse, action: release.Keep, reason: v1alpha1.ReasonPodInUse, notHeld: true, standing: StandingInPool,
		},
		"a kubelet that has not finished the pod holds": {
			change: func(f *Facts) { f.Node = release.Known(theNode(corev1.ConditionTrue)) },
			row:    release.RowAwaitKubeletReport, action: release.Wait, reason: v1alpha1.ReasonKubeletNotFinished, standing: StandingInPool, ends: []string{"the kubelet reports the end"},
		},
		"a pod that its kubelet finished is released on the manager's next look": {
			change: func(f *Facts) {
				p := thePod()
				end(p, "kubelet")
				f.Pod, f.Node = release.Known(p), release.Known(theNode(corev1.ConditionTrue))
			},
			row: release.RowTerminatedAfterDeletion, action: release.Release, reason: v1alpha1.ReasonKubeletFinished, standing: StandingInPool, ends: []string{"nothing more is needed"},
		},
		"a phase that PodGC wrote proves nothing": {
			change: func(f *Facts) {
				p := thePod()
				end(p, "kube-controller-manager")
				f.Pod, f.Node = release.Known(p), release.Known(theNode(corev1.ConditionTrue))
			},
			row: release.RowAwaitKubeletReport, action: release.Wait, reason: v1alpha1.ReasonKubeletNotFinished, standing: StandingInPool, ends: []string{"the kubelet reports the end"},
		},
		"what the record proved stays proven once the object is gone": {
			change: func(f *Facts) {
				f.Pod, f.Node = release.Absent[*corev1.Pod](), release.Known(theNode(corev1.ConditionTrue))
				f.Record.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, ObservedTime: before(time.Minute), Node: f.Record.Spec.Sandboxes[0].Node}
			},
			row: release.RowTerminatedAfterDeletion, action: release.Release, reason: v1alpha1.ReasonKubeletFinished, standing: StandingInPool, ends: []string{"nothing more is needed"},
		},
		"an end that another machine's kubelet wrote proves nothing, also once the old machine is back": {
			change: func(f *Facts) {
				p := thePod()
				end(p, "kubelet")
				f.Pod, f.Node = release.Known(p), release.Known(theNode(corev1.ConditionTrue))
				f.Record.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, ObservedTime: before(time.Minute),
					Node: &v1alpha1.NodeIdentity{UID: "node-uid-2", MachineID: "m2", SystemUUID: "s2", BootID: "b2"}}
			},
			row: release.RowAwaitKubeletReport, action: release.Wait, reason: v1alpha1.ReasonKubeletNotFinished, standing: StandingInPool, ends: []string{"the IPAM's entries go by themselves"},
		},
		"a termination of an unknown writer proves nothing where the Node is younger than the pod": {
			change: func(f *Facts) {
				p, n := thePod(), theNode(corev1.ConditionTrue)
				end(p, "kubelet")
				n.CreationTimestamp = before(time.Hour)
				f.Pod, f.Node = release.Known(p), release.Known(n)
			},
			row: release.RowAwaitKubeletReport, action: release.Wait, reason: v1alpha1.ReasonKubeletNotFinished, standing: StandingInPool, ends: []string{"the IPAM's entries go by themselves"},
		},
		"a pod that cannot be read is not gone": {
			change: func(f *Facts) { f.Pod = release.Unknown[*corev1.Pod]("no right") },
			row:    release.RowObservationFailed, action: release.Wait, reason: v1alpha1.ReasonObservationFailed, standing: StandingInPool,
		},
		"pools that cannot be read are not empty": {
			change: func(f *Facts) { f.Entries = release.Unknown[ipam.Snapshot]("no right") },
			row:    release.RowObservationFailed, action: release.Wait, reason: v1alpha1.ReasonObservationFailed,
		},
		"records that cannot be read may hold the address too": {
			change: func(f *Facts) { f.Records = release.Unknown[[]v1alpha1.IPAllocation]("no right") },
			row:    release.RowObservationFailed, action: release.Wait, reason: v1alpha1.ReasonObservationFailed, standing: StandingInPool,
		},
		"a pool that is unreadable may still have the entry": {
			change: func(f *Facts) {
				f.Entries = release.Known(ipam.Snapshot{Problems: []ipam.Problem{{Backend: "whereabouts", Pool: pool, Message: "bad range"}}})
			},
			row: release.RowObservationFailed, action: release.Wait, reason: v1alpha1.ReasonObservationFailed,
		},
		"a node that cannot be read holds": {
			change: func(f *Facts) { f.Node = release.Unknown[*corev1.Node]("no right") },
			row:    release.RowObservationFailed, action: release.Wait, reason: v1alpha1.ReasonObservationFailed, standing: StandingInPool,
		},
		"a Node that is gone is waited for, and time ends it": {
			change: func(f *Facts) {
				f.Node = release.Absent[*corev1.Node]()
				f.GuardedNodes = release.Known([]v1alpha1.GuardedNode{guarded("m", &v1alpha1.MachineGone{Since: before(2 * time.Minute)})})
			},
			row: release.RowNodeDeleted, action: release.Wait, reason: v1alpha1.ReasonNodeGone, standing: StandingInPool, ends: []string{"time: in 3m0s"},
		},
		"a machine of which no object says that it is gone has the whole delay left": {
			change: func(f *Facts) {
				f.Node = release.Absent[*corev1.Node]()
				f.GuardedNodes = release.Known([]v1alpha1.GuardedNode{guarded("m", nil), guarded("other", &v1alpha1.MachineGone{Since: before(2 * time.Minute)})})
			},
			row: release.RowNodeDeleted, action: release.Wait, reason: v1alpha1.ReasonNodeGone, standing: StandingInPool, ends: []string{"time: in 5m0s"},
		},
		"GuardedNodes that cannot be read hold": {
			change: func(f *Facts) {
				f.Node, f.GuardedNodes = release.Absent[*corev1.Node](), release.Unknown[[]v1alpha1.GuardedNode]("no right")
			},
			row: release.RowObservationFailed, action: release.Wait, reason: v1alpha1.ReasonObservationFailed, standing: StandingInPool,
		},
		"queries that cannot be read hold": {
			change: func(f *Facts) {
				queried(f, v1alpha1.VerdictReadyForRelease, 3)
				f.GuardedNodes = release.Unknown[[]v1alpha1.GuardedNode]("no right")
			},
			row: release.RowObservationFailed, action: release.Wait, reason: v1alpha1.ReasonObservationFailed, standing: StandingInPool,
			ends: []string{"the node's agent reports"},
		},
		"an address in another record is in conflict": {
			change: func(f *Facts) { f.Records = release.Known([]v1alpha1.IPAllocation{rival()}) },
			row:    release.RowAddressConflict, action: release.Wait, reason: v1alpha1.ReasonConflict, standing: StandingInPool,
			ends: []string{"the node is tainted node.kubernetes.io/out-of-service and is not Ready, and the other"},
		},
		"an address that the pool has for another sandbox by now was taken over": {
			change: func(f *Facts) {
				e := theEntry()
				e.SandboxID, e.PodRef, e.Owner = "sandbox-2", "apps/db-0", &ipam.PodRef{Namespace: "apps", Name: "db-0"}
				f.Entries = release.Known(ipam.Snapshot{Entries: []ipam.Entry{e}})
			},
			row: release.RowNodeNotReady, action: release.Wait, reason: v1alpha1.ReasonNodeUnreachable, standing: StandingTakenOver,
			ends: []string{"the node comes back", "the node is tainted", "the Node object is deleted"},
		},
		"an entry under the record's own tombstone is being released": {
			change: func(f *Facts) {
				e := theEntry()
				e.PodRef, e.Owner, e.Releasing = "holdfast-releasing/"+string(uid), nil, string(uid)
				f.Entries = release.Known(ipam.Snapshot{Entries: []ipam.Entry{e}})
			},
			row: release.RowNodeNotReady, action: release.Wait, reason: v1alpha1.ReasonNodeUnreachable, standing: StandingReleasing,
			ends: []string{"the node comes back", "the node is tainted", "the Node object is deleted"},
		},
		"the name's next pod that shows the address is in conflict with the one before": {
			change: func(f *Facts) {
				next := thePod()
				next.UID, next.DeletionTimestamp = other, nil
				f.Pod, f.SameName = release.Absent[*corev1.Pod](), next
			},
			row: release.RowAddressConflict, action: release.Wait, reason: v1alpha1.ReasonConflict, standing: StandingInPool, notes: []string{"The name belongs to another pod now"},
			ends: []string{"the node is tainted node.kubernetes.io/out-of-service and is not Ready, and the other"},
		},
		"a sandbox without a recorded machine is held": {
			change: func(f *Facts) {
				f.Record.Spec.Sandboxes[0].Node, f.Node = nil, release.Known(theNode(corev1.ConditionTrue))
			},
			row: release.RowMachineUnknown, action: release.Wait, reason: v1alpha1.ReasonMachineUnknown, standing: StandingInPool, ends: []string{"the IPAM's entries go"},
		},
		"no entries, and it may be starting": {
			change: func(f *Facts) {
				f.Entries, f.Record = release.Known(ipam.Snapshot{}), nil
				f.Node = release.Known(theNode(corev1.ConditionTrue))
			},
			row: release.RowMayBeStarting, action: release.Wait, reason: v1alpha1.ReasonMayBeStarting, ends: []string{"the kubelet reports the end"},
		},
		"a pod without our finalizer is not held by Holdfast": {
			change: func(f *Facts) {
				p := thePod()
				p.Finalizers = []string{"example.com/x"}
				f.Pod, f.Record, f.Entries = release.Known(p), nil, release.Known(ipam.Snapshot{})
			},
			row: release.RowNodeNotReady, action: release.Wait, reason: v1alpha1.ReasonNodeUnreachable, notHeld: true, notes: []string{"Holdfast does not keep this object", "example.com/x"},
		},
		"without Holdfast, a pod without our finalizer is not held, in spite of what the pools have": {
			change: func(f *Facts) {
				p := thePod()
				p.Finalizers = nil
				f.Pod, f.Record, f.Unserved.Records = release.Known(p), nil, true
			},
			row: release.RowMachineUnknown, action: release.Wait, reason: v1alpha1.ReasonMachineUnknown, notHeld: true, standing: StandingInPool,
			notes: []string{"Holdfast is not installed (the API server serves no ipallocations.holdfast.dev): there are no records"},
		},
		"without Holdfast, our finalizer holds until it is removed": {
			change: func(f *Facts) { f.Record, f.Unserved.Records, f.Unserved.Pools = nil, true, true },
			row:    release.RowMachineUnknown, action: release.Wait, reason: v1alpha1.ReasonMachineUnknown, standing: StandingInPool,
			ends: []string{"Holdfast is installed again", "kubectl holdfast uninstall takes"}, notes: []string{"whereabouts is not installed"},
		},
		"without Holdfast, a running pod with our finalizer uses its addresses": {
			change: func(f *Facts) {
				p := thePod()
				p.DeletionTimestamp = nil
				f.Pod, f.Record, f.Unserved.Records = release.Known(p), nil, true
			},
			row: release.RowPodInUse, action: release.Keep, reason: v1alpha1.ReasonPodInUse, notHeld: true, standing: StandingInPool,
		},
		"an agent that was queried is waited for": {
			change: func(f *Facts) { queried(f, "", 0) },
			row:    release.RowAwaitRuntimeReport, action: release.Wait, reason: v1alpha1.ReasonAwaitingNodeResponse, standing: StandingInPool,
			ends: []string{"the IPAM's entries go by themselves", "the node's agent reports"},
		},
		"an agent's DoNotRelease holds": {
			change: func(f *Facts) { queried(f, v1alpha1.VerdictDoNotRelease, 3) },
			row:    release.RowAwaitRuntimeReport, action: release.Wait, reason: v1alpha1.ReasonSandboxRunning, standing: StandingInPool, ends: []string{"the IPAM's entries go by themselves", "the node's agent reports"},
		},
		"an agent's ReadyForRelease to an earlier query is no response to this one": {
			change: func(f *Facts) { queried(f, v1alpha1.VerdictReadyForRelease, 2) },
			row:    release.RowAwaitRuntimeReport, action: release.Wait, reason: v1alpha1.ReasonAwaitingNodeResponse, standing: StandingInPool, ends: []string{"the IPAM's entries go by themselves", "the node's agent reports"},
		},
		"an agent's ReadyForRelease releases": {
			change: func(f *Facts) { queried(f, v1alpha1.VerdictReadyForRelease, 3) },
			row:    release.RowAwaitRuntimeReport, action: release.Release, reason: v1alpha1.ReasonSandboxGone, standing: StandingInPool, ends: []string{"nothing more is needed"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := heldFacts()
			if tc.change != nil {
				tc.change(f)
			}
			got := Explain(f, now)
			if d := got.Decision; d.Row != tc.row || d.Action != tc.action || d.Reason != tc.reason {
				t.Errorf("decided %+v, want row %s, %s, %s", d, tc.row, tc.action, tc.reason)
			}
			if got.Held == tc.notHeld || got.Attention() != got.Held {
				t.Errorf("held is %t", got.Held)
			}
			standing := ""
			if len(got.Addresses) > 0 {
				standing = got.Addresses[0].Standing
			}
			if standing != tc.standing {
				t.Errorf("the address is %q, want %q", standing, tc.standing)
			}
			checkEnds(t, got.Ends, tc.ends)
			for _, note := range tc.notes {
				if !strings.Contains(strings.Join(got.Notes, "\n"), note) {
					t.Errorf("%q is not among the notes %q", note, got.Notes)
				}
			}
		})
	}
}

// checkEnds wants exactly the ends that begin so, but for "the IPAM's entries go", which ends most waits.
func checkEnds(t *testing.T, got []End, want []string) {
	t.Helper()
	for _, begin := range want {
		if !slices.ContainsFunc(got, func(e End) bool { return strings.HasPrefix(e.What, begin) }) {
			t.Errorf("nothing that ends it begins with %q: %v", begin, got)
		}
	}
	for _, e := range got {
		if !strings.HasPrefix(e.What, "the IPAM's entries go") && !slices.ContainsFunc(want, func(begin string) bool { return strings.HasPrefix(e.What, begin) }) {
			t.Errorf("%q was not expected to end it", e.What)
		}
	}
}

func TestUnreadFactsNeverLeadToARelease(t *testing.T) {
	unread := map[string]func(*Facts){
		"the pod":     func(f *Facts) { f.Pod = release.Unknown[*corev1.Pod]("x") },
		"the pools":   func(f *Facts) { f.Entries = release.Unknown[ipam.Snapshot]("x") },
		"the records": func(f *Facts) { f.Records = release.Unknown[[]v1alpha1.IPAllocation]("x") },
		"the node":    func(f *Facts) { f.Node = release.Unknown[*corev1.Node]("x") },
	}
	for name, forget := range unread {
		t.Run(name, func(t *testing.T) {
			f := heldFacts()
			p := thePod()
			end(p, "kubelet")
			f.Pod, f.Node = release.Known(p), release.Known(theNode(corev1.ConditionTrue))
			if d := Explain(f, now).Decision; d.Action != release.Release {
				t.Fatalf("the case proves nothing: %+v", d)
			}
			forget(f)
			if got := Explain(f, now); got.Decision.Action != release.Wait || !got.Held {
				t.Errorf("decided %+v", got.Decision)
			}
		})
	}
}

func TestTheEvidenceHasTheQueriesAndTheResponses(t *testing.T) {
	f := heldFacts()
	queried(f, v1alpha1.VerdictDoNotRelease, 3)
	object := &f.GuardedNodes.Get()[0]
	second := object.Spec.Queries[0]
	second.SandboxID = "sandbox-2"
	another := second
	another.Record = string(other)
	object.Spec.Queries = append(object.Spec.Queries, second, another)
	object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RespondingCondition, Status: metav1.ConditionFalse, Reason: "RuntimeUnreachable", Message: "no socket"}}
	const source = "GuardedNode node-uid"
	want := []Evidence{
		{"query about sandbox " + sandbox, known, "DoNotRelease, SandboxReady, at  (epoch 3)", source},
		{"query about sandbox sandbox-2", absent, "made at 2026-01-02T11:59:50Z (epoch 3), no response", source},
		{"agent not responding", known, "RuntimeUnreachable: no socket", source},
	}
	got := slices.DeleteFunc(Explain(f, now).Evidence, func(e Evidence) bool { return e.Source != source })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
}

func TestAnOrphanIsExplainedByItsRecord(t *testing.T) {
	f := heldFacts()
	f.Record.Name, f.UID = v1alpha1.OrphanPrefix+sandbox, v1alpha1.OrphanPrefix+sandbox
	f.Record.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReleasedCondition, Status: metav1.ConditionFalse, Reason: string(v1alpha1.ReasonConflict), Message: "taken over", LastTransitionTime: before(time.Hour)}}
	f.Pod = release.Absent[*corev1.Pod]()
	f.GuardedNodes = release.Known([]v1alpha1.GuardedNode{{ObjectMeta: metav1.ObjectMeta{Name: "node-uid"}, Spec: v1alpha1.GuardedNodeSpec{NodeName: "node-7"},
		Status: v1alpha1.GuardedNodeStatus{AllNodes: &v1alpha1.AllNodesResponse{Claims: []v1alpha1.SandboxClaim{{SandboxID: sandbox, Reason: "SandboxReady"}, {SandboxID: "other"}}}}}})
	got := Explain(f, now)
	last := got.Evidence[len(got.Evidence)-1]
	if last.Fact != "claim of node node-7" || !strings.HasPrefix(last.Value, "SandboxReady") || last.Source != "GuardedNode node-uid" {
		t.Errorf("the last evidence is %+v, expected the claim", last)
	}
	if got.Decision.Reason != v1alpha1.ReasonConflict || got.UID != "" || !got.Held || got.ReasonSince == nil || got.Addresses[0].Standing != StandingInPool {
		t.Errorf("got %+v", got)
	}
}

// TestAnOrphanWithoutItsEntryIsNotReleasedByAddress: the entry is another sandbox's by now.
func TestAnOrphanWithoutItsEntryIsNotReleasedByAddress(t *testing.T) {
	f := heldFacts()
	f.Record.Name, f.UID, f.Pod = v1alpha1.OrphanPrefix+sandbox, v1alpha1.OrphanPrefix+sandbox, release.Absent[*corev1.Pod]()
	snapshot := f.Entries.Get()
	snapshot.Entries = slices.Clone(snapshot.Entries)
	snapshot.Entries[0].SandboxID = "next"
	f.Entries = release.Known(snapshot)
	got := Explain(f, now)
	if got.Addresses[0].Standing != StandingTakenOver || len(got.Ends) != 1 || strings.Contains(got.Ends[0].What, "kubectl holdfast release") {
		t.Errorf("address %+v ends by %+v", got.Addresses[0], got.Ends)
	}
}

func TestTheReasonOfTheManagerIsCompared(t *testing.T) {
	f := heldFacts()
	said := metav1.Condition{Type: v1alpha1.ReleasedCondition, Status: metav1.ConditionFalse, Reason: string(v1alpha1.ReasonNodeUnreachable), LastTransitionTime: before(time.Hour)}
	f.Record.Status.Conditions = []metav1.Condition{said}
	if got := Explain(f, now); got.LastReason != "" || got.ReasonSince == nil || !got.ReasonSince.Time.Equal(said.LastTransitionTime.Time) {
		t.Errorf("said %q since %v", got.LastReason, got.ReasonSince)
	}
	f.Record.Status.Conditions[0].Reason = string(v1alpha1.ReasonKubeletNotFinished)
	if got := Explain(f, now); got.LastReason != string(v1alpha1.ReasonKubeletNotFinished) || got.ReasonSince != nil || !strings.Contains(strings.Join(got.Notes, ""), "another reason last, KubeletNotFinished") {
		t.Errorf("said %q since %v, notes %q", got.LastReason, got.ReasonSince, got.Notes)
	}
}

// TestWhatTheManagerFailedAtIsShown: by its own reads the command would report that nothing more is needed.
func TestWhatTheManagerFailedAtIsShown(t *testing.T) {
	for _, reason := range []v1alpha1.Reason{v1alpha1.ReasonReleaseFailed, v1alpha1.ReasonUnprotectFailed, v1alpha1.ReasonObservationFailed} {
		f := heldFacts()
		queried(f, v1alpha1.VerdictReadyForRelease, 3)
		f.Record.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReleasedCondition, Status: metav1.ConditionFalse, Reason: string(reason), Message: "the webhook w refuses it", LastTransitionTime: before(time.Hour)}}
		pod := f.Pod.Get().DeepCopy() // with the condition of before
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: v1alpha1.IPsReleasedCondition, Status: corev1.ConditionFalse, Reason: string(v1alpha1.ReasonSandboxGone)})
		f.Pod = release.Known(pod)
		got := Explain(f, now)
		var shown strings.Builder
		if err := inspect.Write(&shown, got.Tables(now), false); err != nil {
			t.Fatal(err)
		}
		checkEnds(t, got.Ends, []string{"what the manager reports is put right"})
		if want := string(reason) + ": the webhook w refuses it"; !strings.Contains(shown.String(), want) || strings.Contains(shown.String(), "does not run") {
			t.Errorf("%q is not shown:\n%s", want, shown.String())
		}
	}
}
