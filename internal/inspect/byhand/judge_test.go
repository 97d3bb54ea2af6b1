// SPDX-License-Identifier: Apache-2.0

package byhand

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/inspect/explain"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	uid     = "11111111-1111-1111-1111-111111111111"
	sandbox = "sandbox-1"
)

var (
	now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ref = ipam.PodRef{Namespace: "apps", Name: "web-0"}
)

func before(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func theEntry() ipam.Entry {
	return ipam.Entry{Key: ipam.Key{Backend: "whereabouts", Pool: "kube-system/p", IP: netip.MustParseAddr("10.0.0.1"), SandboxID: sandbox, PodRef: ref.String(), Interface: "net1"}, Owner: &ref}
}

// thePod is terminating, and its container runs as far as is known.
func thePod() *corev1.Pod {
	deleted := before(10 * time.Minute)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web-0", UID: uid, Finalizers: []string{v1alpha1.Finalizer}, DeletionTimestamp: &deleted,
		CreationTimestamp: before(2 * time.Hour), DeletionGracePeriodSeconds: new(int64(0)), Annotations: map[string]string{"k8s.v1.cni.cncf.io/network-status": `[{"name":"apps/net","interface":"net1","ips":["10.0.0.1"]}]`}},
		Spec:   corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
}

func theNode(status corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "n", CreationTimestamp: before(24 * time.Hour)},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "s", BootID: "b"}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
}

// heldFacts are those of an entry whose pod is terminating on a node that does not respond: what only a person can end.
func heldFacts() *Facts {
	record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: uid}, Spec: v1alpha1.IPAllocationSpec{PodNamespace: "apps", PodName: "web-0", NodeName: "node-1",
		Sandboxes: []v1alpha1.SandboxRecord{{ID: sandbox, ObservedTime: before(time.Hour), Attribution: v1alpha1.AttributionNetworkStatus,
			Node: &v1alpha1.NodeIdentity{UID: "n", MachineID: "m", SystemUUID: "s", BootID: "b"}}},
		Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/p", IP: "10.0.0.1", SandboxID: sandbox, PodRef: ref.String(), Interface: "net1", ObservedTime: before(time.Hour)}}}}
	pod := thePod()
	return &Facts{Entry: theEntry(), GuardedNodes: release.Known([]v1alpha1.GuardedNode{}), Named: pod, Showing: []corev1.Pod{*pod}, Queried: release.Absent[time.Time](), Owner: &explain.Facts{UID: uid, Ref: ref, Pod: release.Known(pod), Record: record,
		Records: release.Known([]v1alpha1.IPAllocation{}), Entries: release.Known(ipam.Snapshot{Entries: []ipam.Entry{theEntry()}}),
		Node: release.Known(theNode(corev1.ConditionUnknown)), Evidence: release.EvidenceKubelet, GuardedNodes: release.Known([]v1alpha1.GuardedNode{}),
		Settings: release.Settings{ReleaseDelay: time.Minute, SandboxCreationMax: 10 * time.Minute, NodeGoneDelay: 5 * time.Minute}}}
}

// otherRecord has the address for another sandbox.
func otherRecord() v1alpha1.IPAllocation {
	return v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "orphan-another"}, Spec: v1alpha1.IPAllocationSpec{
		Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/p", IP: "10.0.0.1", SandboxID: "another"}}}}
}

func responded(response v1alpha1.SandboxResponse) release.Fact[[]v1alpha1.GuardedNode] {
	return release.Known([]v1alpha1.GuardedNode{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1alpha1.GuardedNodeStatus{Responses: []v1alpha1.SandboxResponse{response}}}})
}

func ends(pod *corev1.Pod) {
	written := before(5 * time.Minute)
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodSucceeded, []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: written}}}}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status", Time: &written, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
}

// orphaned has the record of an orphan hold the entry. named is the pod that has the name in it by now, or nil.
func (f *Facts) orphaned(named *corev1.Pod) {
	f.Owner.UID = types.UID(v1alpha1.OrphanPrefix + sandbox)
	f.Owner.Record.Name = string(f.Owner.UID)
	f.Owner.Pod, f.Owner.SameName, f.Named, f.Showing = release.Absent[*corev1.Pod](), named, named, nil
}

// heir is another pod of the name, on a node.
func heir(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web-0", UID: "heir", Annotations: annotations}, Spec: corev1.PodSpec{NodeName: "node-1"}}
}

func TestJudge(t *testing.T) {
	cases := map[string]struct {
		change func(*Facts)
		// alive and needless are parts of what speaks against it; both empty: nothing does.
		alive, needless string
	}{
		"nothing speaks against it where a node does not respond and only a person can tell": {},
		"a node that is Ready, and whose kubelet reports a running container": {
			change: func(f *Facts) { f.Owner.Node = release.Known(theNode(corev1.ConditionTrue)) },
			alive:  "its kubelet, whose node is Ready, reports a running container",
		},
		"another record has the address for a sandbox that is not proven gone": {
			change:   func(f *Facts) { f.Records = []v1alpha1.IPAllocation{otherRecord()} },
			needless: "record orphan-another has the address for sandbox another too, which is not proven gone",
		},
		"another record has the address for a sandbox that its agent reports alive": {
			change: func(f *Facts) {
				f.Records = []v1alpha1.IPAllocation{otherRecord()}
				f.GuardedNodes = responded(v1alpha1.SandboxResponse{Record: "orphan-another", SandboxID: "another", Verdict: v1alpha1.VerdictDoNotRelease, Time: before(time.Minute)})
			},
			alive: "record orphan-another has the address for sandbox another too: the agent of its node reported DoNotRelease",
		},
		"another record had the address, until a person released it": {
			change: func(f *Facts) {
				r := otherRecord()
				r.Annotations = map[string]string{v1alpha1.ReleasedByHandAnnotation: `[{"address":"10.0.0.1","pool":"kube-system/p","sandboxID":"another"}]`}
				f.Records = []v1alpha1.IPAllocation{r}
			},
		},
		"a pod that is not being deleted": {
			change: func(f *Facts) {
				pod := thePod()
				pod.DeletionTimestamp = nil
				f.Owner.Pod, f.Showing = release.Known(pod), nil
			},
			alive: "is not being deleted",
		},
		"another pod that shows the address": {
			change: func(f *Facts) {
				pod := thePod()
				pod.Name, pod.UID, pod.DeletionTimestamp = "db-0", "x", nil
				f.Showing = append(f.Showing, *pod)
			},
			alive: "pod apps/db-0 (UID x) is not being deleted and shows the address",
		},
		"another pod that is terminating and shows the address": {
			change: func(f *Facts) {
				pod := thePod()
				pod.Name, pod.UID = "db-0", "x"
				f.Showing = append(f.Showing, *pod)
			},
			alive: "pod apps/db-0 (UID x) is terminating, has not ended, and shows the address",
		},
		"the address that a terminated pod shows is free": {
			change: func(f *Facts) {
				pod := thePod()
				pod.Name, pod.UID, pod.DeletionTimestamp, pod.Status.Phase = "job", "x", nil, corev1.PodSucceeded
				f.Showing = append(f.Showing, *pod)
			},
		},
		"an agent that reported DoNotRelease": {
			change: func(f *Facts) {
				f.Owner.GuardedNodes = responded(v1alpha1.SandboxResponse{Record: uid, SandboxID: sandbox, Verdict: v1alpha1.VerdictDoNotRelease, Reason: "SandboxReady"})
			},
			alive: "the agent of its node reported DoNotRelease (SandboxReady)",
		},
		"an agent that reported so of another sandbox": {
			change: func(f *Facts) {
				f.Owner.GuardedNodes = responded(v1alpha1.SandboxResponse{Record: uid, SandboxID: "sandbox-2", Verdict: v1alpha1.VerdictDoNotRelease})
			},
		},
		"an agent that reported so of another record": {
			change: func(f *Facts) {
				f.Owner.GuardedNodes = responded(v1alpha1.SandboxResponse{Record: "another", SandboxID: sandbox, Verdict: v1alpha1.VerdictDoNotRelease})
			},
		},
		"a node that claims it": {
			change: func(f *Facts) {
				f.Owner.GuardedNodes = responded(v1alpha1.SandboxResponse{})
				f.Owner.GuardedNodes.Get()[0].Spec.NodeName = "node-7"
				f.Owner.GuardedNodes.Get()[0].Status.AllNodes = &v1alpha1.AllNodesResponse{Claims: []v1alpha1.SandboxClaim{{SandboxID: sandbox, Reason: "SandboxReady"}}}
			},
			alive: "the agent of node node-7 claims the sandbox (SandboxReady)",
		},
		"a report that could not be read may be one of DoNotRelease": {
			change: func(f *Facts) { f.Owner.GuardedNodes = release.Unknown[[]v1alpha1.GuardedNode]("no right") },
			alive:  "the last report of the agent of its node could not be read: no right",
		},
		"time that ends it": {
			change: func(f *Facts) {
				f.Owner.Node = release.Absent[*corev1.Node]()
				f.Owner.GuardedNodes = release.Known([]v1alpha1.GuardedNode{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GuardedNodeSpec{NodeName: "node-1",
					Machines: []v1alpha1.GuardedMachine{{MachineID: "m", SystemUUID: "s", BootID: "b", Gone: &v1alpha1.MachineGone{Since: before(time.Minute)}}}}}})
			},
			needless: "time alone changes it: in 4m0s, NodeGone",
		},
		"a manager that releases it by itself": {
			change: func(f *Facts) {
				pod := thePod()
				ends(pod)
				f.Owner.Pod, f.Owner.Node, f.Showing = release.Known(pod), release.Known(theNode(corev1.ConditionTrue)), nil
			},
			needless: "the manager releases it by itself: KubeletFinished",
		},
		"an agent that is being queried": {
			change: func(f *Facts) {
				f.Owner.Evidence = release.EvidenceAgent
				pod := thePod()
				pod.Status.ContainerStatuses = nil
				f.Owner.Pod, f.Owner.Node = release.Known(pod), release.Known(theNode(corev1.ConditionTrue))
			},
			needless: "the node's agent is being queried",
		},
		"an orphan, and a pod of its name that shows no address yet": {
			change: func(f *Facts) { f.orphaned(heir(nil)) },
			alive:  "pod apps/web-0 (UID heir) has the name in the record and shows no address yet",
		},
		"an orphan, and a pod of its name that shows another address": {
			change: func(f *Facts) {
				f.orphaned(heir(map[string]string{"k8s.v1.cni.cncf.io/network-status": `[{"name":"apps/net","interface":"net1","ips":["10.0.0.9"]}]`}))
			},
		},
		"an orphan, and a pod of its name that has no node": {
			change: func(f *Facts) {
				pod := heir(nil)
				pod.Spec.NodeName = ""
				f.orphaned(pod)
			},
		},
		"an orphan under its tombstone, and a pod of its name that shows no address yet": {
			change: func(f *Facts) {
				f.orphaned(heir(nil))
				f.Entry.Releasing, f.Entry.Owner = f.Owner.Record.Name, nil
			},
		},
		"an orphan, and no pod of its name": {
			change: func(f *Facts) { f.orphaned(nil) },
		},
		"an orphan, about which every node is queried": {
			change: func(f *Facts) { f.orphaned(nil); f.Queried = release.Known(now.Add(-time.Hour)) },
		},
		"an orphan, about which every node was queried just now": {
			change:   func(f *Facts) { f.orphaned(nil); f.Queried = release.Known(now.Add(-time.Minute)) },
			needless: "the responses of their agents are due by",
		},
		"an orphan, about which no node was queried": {
			change:   func(f *Facts) { f.orphaned(nil); f.Queried = release.Known(time.Time{}) },
			needless: "no node has been queried about its sandbox",
		},
		"an orphan, of which that could not be read": {
			change:   func(f *Facts) { f.orphaned(nil); f.Queried = release.Unknown[time.Time]("forbidden") },
			needless: "whether the nodes are queried about its sandbox could not be read: forbidden",
		},
		"no record, and no pod of the name": {
			change: func(f *Facts) { f.Owner, f.Named, f.Showing = nil, nil, nil },
		},
		"no record, and a pod of the name lives": {
			change: func(f *Facts) {
				pod := thePod()
				pod.DeletionTimestamp = nil
				f.Owner, f.Named, f.Showing = nil, pod, nil
			},
			alive: "has the name in the entry and is not being deleted",
		},
		"no record, and a pod of the name is terminating": {
			change:   func(f *Facts) { f.Owner = nil },
			needless: "is terminating; no record tells its sandbox from this one: wait until it is gone",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := heldFacts()
			if tc.change != nil {
				tc.change(f)
			}
			c := Judge(f, now)
			var alive, needless []string
			for _, o := range c.Objections {
				if o.Alive {
					alive = append(alive, o.What)
				} else {
					needless = append(needless, o.What)
				}
			}
			if got := strings.Join(alive, "\n"); (got == "") != (tc.alive == "") || !strings.Contains(got, tc.alive) {
				t.Errorf("alive: %q, want %q", got, tc.alive)
			}
			if got := strings.Join(needless, "\n"); (got == "") != (tc.needless == "") || !strings.Contains(got, tc.needless) {
				t.Errorf("needless: %q, want %q", got, tc.needless)
			}
			if c.Alive() != (tc.alive != "") || c.Attention() != (tc.alive+tc.needless != "") {
				t.Errorf("alive is %t, attention %t", c.Alive(), c.Attention())
			}
		})
	}
}

func TestNews(t *testing.T) {
	alive, needless := Objection{Alive: true, What: "it lives"}, Objection{What: "in 4m, NodeGone"}
	entry := *audit.EntryOf(new(theEntry()))
	changed := entry
	changed.Record = uid
	with := func(objections ...Objection) *Case { return &Case{Entry: entry, Objections: objections} }
	cases := map[string]struct {
		shown, later *Case
		overridden   bool
		want         int
	}{
		"nothing came":                                {with(), with(), false, 0},
		"a sandbox is known to be alive":              {with(), with(alive), false, 1},
		"one that was shown and overridden":           {with(alive), with(alive), true, 0},
		"another than was shown and overridden":       {with(needless), with(needless, alive), true, 1},
		"time ends it by now":                         {with(), with(needless), false, 1},
		"time that was overridden is worded anew":     {with(needless), with(Objection{What: "in 3m, NodeGone"}), true, 0},
		"the entry has a tombstone by now":            {with(), &Case{Entry: changed}, false, 1},
		"what was shown has passed, and nothing came": {with(alive), with(), true, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.shown.News(tc.later, tc.overridden); len(got) != tc.want {
				t.Errorf("news %q, want %d", got, tc.want)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	one, two := theEntry(), theEntry()
	two.Pool, two.SandboxID = "kube-system/q", "other-2"
	cases := map[string]struct {
		entries       []ipam.Entry
		pool, sandbox string
		want, err     string
	}{
		"the only one":                        {entries: []ipam.Entry{one}, want: sandbox},
		"none":                                {err: "there is nothing to release"},
		"two want a pool or a sandbox":        {entries: []ipam.Entry{one, two}, err: "2 entries have that address"},
		"by its pool":                         {entries: []ipam.Entry{one, two}, pool: "kube-system/q", want: "other-2"},
		"by the beginning of its sandbox":     {entries: []ipam.Entry{one, two}, sandbox: "other", want: "other-2"},
		"another pool than any":               {entries: []ipam.Entry{one}, pool: "kube-system/q", err: "there is nothing to release"},
		"another sandbox than the only one's": {entries: []ipam.Entry{one}, sandbox: "other", err: "there is nothing to release"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Select(tc.entries, tc.pool, tc.sandbox)
			if (err != nil) != (tc.err != "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if err == nil && got.SandboxID != tc.want {
				t.Errorf("selected %s, want %s", got.SandboxID, tc.want)
			}
		})
	}
}

func TestRequestRecord(t *testing.T) {
	cases := map[string]struct {
		entry        audit.Entry
		record, want string
	}{
		"the record that holds it":          {audit.Entry{SandboxID: "s"}, uid, uid},
		"the one that its tombstone names":  {audit.Entry{SandboxID: "s", Record: "orphan-s"}, uid, "orphan-s"},
		"none: the name that it would have": {audit.Entry{SandboxID: "s"}, "", "orphan-s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := RequestRecord(&tc.entry, tc.record); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// A release that stopped behind its first step goes on where it was: the reservation is found by the podref from before.
func TestATombstoneIsReleasedByThePodRefOfItsRecord(t *testing.T) {
	for name, tc := range map[string]struct{ record, want string }{
		"of the record that holds it": {uid, ref.String()},
		"of another record":           {"uid-2", "holdfast-releasing/uid-2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := heldFacts()
			f.Entry.PodRef, f.Entry.Owner, f.Entry.Releasing = "holdfast-releasing/"+tc.record, nil, tc.record
			if got := Judge(f, now).Entry.PodRef; got != tc.want {
				t.Errorf("podref %q, want %q", got, tc.want)
			}
		})
	}
}
