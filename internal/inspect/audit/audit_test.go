// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

const pool = "kube-system/10.0.0.0-24"

var began = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

// entry is one of a pod "apps/NAME" for a sandbox.
func entry(address, name, sandbox string) ipam.Entry {
	return ipam.Entry{Key: ipam.Key{Backend: "whereabouts", Pool: pool, IP: ip(address), SandboxID: sandbox, PodRef: "apps/" + name, Interface: "net1"},
		Owner: &ipam.PodRef{Namespace: "apps", Name: name}}
}

// pod is a guarded one that runs and shows an address.
func pod(name string, uid types.UID, address string) Pod {
	return Pod{Ref: ipam.PodRef{Namespace: "apps", Name: name}, UID: uid, Node: "node-1", Guarded: true, Running: true,
		Shown: []podnetwork.StatusAddress{{Network: "apps/net", Interface: "net1", IP: ip(address)}}}
}

// record holds an address of a pod UID for a sandbox.
func record(name, podName, address, sandbox string) v1alpha1.IPAllocation {
	return v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.IPAllocationSpec{PodNamespace: "apps", PodName: podName, NodeName: "node-1",
		Sandboxes: []v1alpha1.SandboxRecord{{ID: sandbox, Node: &v1alpha1.NodeIdentity{UID: "node-uid", MachineID: "m", SystemUUID: "s", BootID: "b"}}},
		Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: pool, IP: address, SandboxID: sandbox, PodRef: "apps/" + podName, Interface: "net1"}}}}
}

func node(machine string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "node-uid"},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: machine, SystemUUID: "s", BootID: "b"}}}
}

// responded is a GuardedNode of which the agent responded about a sandbox of a record.
func responded(record, sandbox string, verdict v1alpha1.Verdict) []v1alpha1.GuardedNode {
	return []v1alpha1.GuardedNode{{ObjectMeta: metav1.ObjectMeta{Name: "node-uid"}, Status: v1alpha1.GuardedNodeStatus{
		Responses: []v1alpha1.SandboxResponse{{Record: record, SandboxID: sandbox, Verdict: verdict, Reason: "SandboxReady"}}}}}
}

// claimed is a GuardedNode of which the agent claims a sandbox.
func claimed(sandbox string) []v1alpha1.GuardedNode {
	return []v1alpha1.GuardedNode{{ObjectMeta: metav1.ObjectMeta{Name: "node-uid"}, Status: v1alpha1.GuardedNodeStatus{
		AllNodes: &v1alpha1.AllNodesResponse{Claims: []v1alpha1.SandboxClaim{{SandboxID: sandbox, Reason: "SandboxReady"}}}}}}
}

// sound is a cluster in which nothing contradicts anything: web-0 has 10.0.0.1.
func sound() *Facts {
	return &Facts{Cluster: "cluster", Time: began, Entries: []ipam.Entry{entry("10.0.0.1", "web-0", "s1")}, Pods: []Pod{pod("web-0", "u1", "10.0.0.1")},
		Records: []v1alpha1.IPAllocation{record("u1", "web-0", "10.0.0.1", "s1")}, Nodes: []corev1.Node{node("m")},
		Managed: sets.New("apps/net", "apps/other")}
}

type found struct {
	Class      Class
	Kind       string
	Address    string
	Releasable bool
}

func findings(r *Report) []found {
	var all []found
	for _, f := range r.Findings {
		all = append(all, found{f.Class, f.Kind, f.Address, f.Releasable})
	}
	return all
}

func TestAudit(t *testing.T) {
	cases := map[string]struct {
		change func(*Facts)
		want   []found
	}{
		"a sound cluster has no finding": {},
		"an entry of a pod that does not exist, and that no record has, is a leak that two reports may release": {
			change: func(f *Facts) { f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2")) },
			want:   []found{{Leak, "PodGone", "10.0.0.2", true}},
		},
		"so is one that is held as an orphan": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
				f.Records = append(f.Records, record("orphan-s2", "gone", "10.0.0.2", "s2"))
			},
			want: []found{{Leak, "PodGone", "10.0.0.2", true}},
		},
		"one that is held for a known UID is the manager's to release": {
			change: func(f *Facts) { f.Pods = nil },
			want:   []found{{Leak, "PodGone", "10.0.0.1", false}},
		},
		"a leak that an agent reports as alive is kept": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
				f.Records = append(f.Records, record("orphan-s2", "gone", "10.0.0.2", "s2"))
				f.GuardedNodes = responded("orphan-s2", "s2", v1alpha1.VerdictDoNotRelease)
			},
			want: []found{{Leak, "PodGone", "10.0.0.2", false}},
		},
		"and not where it reports that of another sandbox of the record": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
				f.Records = append(f.Records, record("orphan-s2", "gone", "10.0.0.2", "s2"))
				f.GuardedNodes = responded("orphan-s2", "s3", v1alpha1.VerdictDoNotRelease)
			},
			want: []found{{Leak, "PodGone", "10.0.0.2", true}},
		},
		"a leak that a node claims in response to the query to all nodes is kept": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
				f.Records = append(f.Records, record("orphan-s2", "gone", "10.0.0.2", "s2"))
				f.GuardedNodes = claimed("s2")
			},
			want: []found{{Leak, "PodGone", "10.0.0.2", false}},
		},
		"and not where it claims another": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
				f.Records = append(f.Records, record("orphan-s2", "gone", "10.0.0.2", "s2"))
				f.GuardedNodes = claimed("s3")
			},
			want: []found{{Leak, "PodGone", "10.0.0.2", true}},
		},
		"nor once it reports that the sandbox is gone, though it claimed it before": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
				f.Records = append(f.Records, record("orphan-s2", "gone", "10.0.0.2", "s2"))
				f.GuardedNodes = append(claimed("s2"), responded("orphan-s2", "s2", v1alpha1.VerdictReadyForRelease)...)
			},
			want: []found{{Leak, "PodGone", "10.0.0.2", true}},
		},
		"nor where it reports that the sandbox is gone": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
				f.Records = append(f.Records, record("orphan-s2", "gone", "10.0.0.2", "s2"))
				f.GuardedNodes = responded("orphan-s2", "s2", v1alpha1.VerdictReadyForRelease)
			},
			want: []found{{Leak, "PodGone", "10.0.0.2", true}},
		},
		"a leak whose address another pod shows is kept, and the address is in use without an entry of its own": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
				f.Pods[0].Shown = append(f.Pods[0].Shown, podnetwork.StatusAddress{Network: "apps/net", Interface: "net1", IP: ip("10.0.0.2")})
			},
			want: []found{{Leak, "PodGone", "10.0.0.2", false}},
		},
		"a pod that ended shows an address that is no longer in use": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
				job := pod("job", "u3", "10.0.0.2")
				job.Ended, job.Running = true, false
				f.Pods = append(f.Pods, job)
			},
			want: []found{{Leak, "PodGone", "10.0.0.2", true}},
		},
		"an entry of an earlier pod of the name is a leak that the manager releases": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "web-0", "s0"))
				f.Records = append(f.Records, record("u0", "web-0", "10.0.0.2", "s0"))
			},
			want: []found{{Leak, "OfEarlierPod", "10.0.0.2", false}},
		},
		"an address that a live pod shows while the record ties its sandbox to an earlier one is a conflict": {
			change: func(f *Facts) { f.Records[0].Name = "u0" },
			want:   []found{{Conflict, "RecordOfAnother", "10.0.0.1", false}},
		},
		"an entry that a running pod does not show is left by an earlier sandbox of it": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "web-0", "s0"))
				r := &f.Records[0]
				r.Spec.Sandboxes = append(r.Spec.Sandboxes, v1alpha1.SandboxRecord{ID: "s0"})
				r.Spec.Addresses = append(r.Spec.Addresses, record("", "web-0", "10.0.0.2", "s0").Spec.Addresses...)
			},
			want: []found{{Leak, "NotShown", "10.0.0.2", false}},
		},
		"a pod that is starting shows nothing yet, and that is nothing": {
			change: func(f *Facts) { f.Pods[0].Shown, f.Pods[0].Running = nil, false },
		},
		"a live pod without a record": {
			change: func(f *Facts) { f.Records = nil },
			want:   []found{{Unrecorded, "RecordMissing", "10.0.0.1", false}},
		},
		"a live pod that is not guarded": {
			change: func(f *Facts) { f.Records, f.Pods[0].Guarded = nil, false },
			want:   []found{{Unrecorded, "NotGuarded", "10.0.0.1", false}},
		},
		"two pods that show one address of one network are a duplicate": {
			change: func(f *Facts) { f.Pods = append(f.Pods, pod("web-1", "u2", "10.0.0.1")) },
			want:   []found{{Duplicate, "ShownTwice", "10.0.0.1", false}},
		},
		"the same address in another network is another address": {
			change: func(f *Facts) {
				other := pod("web-1", "u2", "10.0.0.1")
				other.Shown[0].Network = "apps/other"
				f.Pods = append(f.Pods, other)
			},
		},
		"two nodes may give one address of a network that no pool is of": {
			change: func(f *Facts) {
				f.Pods = append(f.Pods, pod("web-1", "u2", "10.0.0.1"))
				f.Managed = sets.New("apps/other")
			},
		},
		"one address in two records is a conflict": {
			change: func(f *Facts) {
				f.Records = append(f.Records, record("u2", "db-0", "10.0.0.1", "s2"))
				f.Pods = append(f.Pods, pod("db-0", "u2", "10.0.0.9"))
			},
			want: []found{{Conflict, "HeldTwice", "10.0.0.1", false}},
		},
		"a leak with an address that another record has is not released by two reports": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
				f.Records = append(f.Records, record("u2", "db-0", "10.0.0.2", "s1-of-db-0"))
			},
			want: []found{{Leak, "PodGone", "10.0.0.2", false}},
		},
		"a record that says so itself is a conflict too": {
			change: func(f *Facts) { f.Records[0].Status.State = v1alpha1.StateConflict },
			want:   []found{{Conflict, "StateConflict", "", false}},
		},
		"a live pod without its entry uses what can be handed out": {
			change: func(f *Facts) { f.Entries = nil },
			want:   []found{{Unrecorded, "RecordWithoutEntry", "10.0.0.1", false}},
		},
		"a record that outlived entry and pod is stale": {
			change: func(f *Facts) { f.Entries, f.Pods = nil, nil },
			want:   []found{{Stale, "RecordWithoutEntry", "10.0.0.1", false}},
		},
		"a record of a pod that is ending is not": {
			change: func(f *Facts) { f.Entries, f.Pods[0].Deleting = nil, true },
		},
		"a release that no controller completes is a leak that two reports may release": {
			change: func(f *Facts) {
				e := entry("10.0.0.2", "gone", "s2")
				e.Owner, e.PodRef, e.Releasing = nil, "holdfast-releasing/u9", "u9"
				f.Entries = append(f.Entries, e)
			},
			want: []found{{Leak, "ReleaseUnfinished", "10.0.0.2", true}},
		},
		"a release for a record that is gone, of a sandbox that another record has, is that record's": {
			change: func(f *Facts) {
				e := entry("10.0.0.2", "gone", "s1")
				e.Owner, e.PodRef, e.Releasing = nil, "holdfast-releasing/u9", "u9"
				f.Entries = append(f.Entries, e)
			},
			want: []found{{Leak, "ReleaseUnfinished", "10.0.0.2", false}},
		},
		"but not while a pod shows its address": {
			change: func(f *Facts) {
				e := &f.Entries[0]
				e.Owner, e.PodRef, e.Releasing = nil, "holdfast-releasing/u9", "u9"
				f.Records = nil
			},
			want: []found{{Leak, "ReleaseUnfinished", "10.0.0.1", false}},
		},
		"a release whose record is there is under way": {
			change: func(f *Facts) {
				e := &f.Entries[0]
				e.Owner, e.PodRef, e.Releasing = nil, "holdfast-releasing/u1", "u1"
			},
		},
		"a record of a node that is gone": {
			change: func(f *Facts) { f.Nodes = nil },
			want:   []found{{Stale, "NodeGone", "", false}},
		},
		"nodes that could not be read are not gone": {
			change: func(f *Facts) { f.Nodes, f.NodesUnread = nil, "no right" },
		},
		"a sandbox of another machine than the node's of today": {
			change: func(f *Facts) { f.Nodes = []corev1.Node{node("another")} },
			want:   []found{{Stale, "NodeReplaced", "", false}},
		},
		"what cannot be read is reported": {
			change: func(f *Facts) {
				f.Problems = []ipam.Problem{{Backend: "whereabouts", Pool: pool, Offset: "x", Message: "no number"}}
			},
			want: []found{{Unreadable, "MalformedPool", "", false}},
		},
		"what the manager's own audit finds is in it": {
			change: func(f *Facts) {
				f.Manager = ipamaudit.Facts{Pods: []ipamaudit.Pod{{Ref: "apps/web-1", UID: "u2", Shown: []ipamaudit.Shown{{IP: ip("10.0.0.7"), Interface: "net1", Managed: true}}}},
					Reservations: []ipamaudit.Reservation{{Name: "kube-system/10.0.0.8", PodRef: "apps/gone"}}}
			},
			want: []found{{Unrecorded, "EntryMissing", "10.0.0.7", false}, {Leak, "ReservationOrphaned", "", false}},
		},
		"what the sweeps of node-scoped objects found is in it": {
			change: func(f *Facts) {
				f.Policies = []v1alpha1.NodeResourcePolicy{{Status: v1alpha1.NodeResourcePolicyStatus{Sweep: &v1alpha1.SweepStatus{
					StaleObjects:     []v1alpha1.StaleObject{{Name: "node-9", NodeName: "node-9", Reason: v1alpha1.ReasonStaleNodeUID}},
					AddressConflicts: []v1alpha1.AddressConflict{{Addresses: []string{"10.1.0.0/24", "10.1.0.0/24"}, Objects: []string{"a", "b"}, NodeNames: []string{"a", "b"}}}}}}}
			},
			want: []found{{Conflict, "NodeAddressConflict", "10.1.0.0/24,10.1.0.0/24", false}, {Stale, "StaleNodeUID", "", false}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := sound()
			if tc.change != nil {
				tc.change(f)
			}
			r := Audit(f)
			if diff := cmp.Diff(tc.want, findings(r)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			for _, finding := range r.Findings {
				if finding.Message == "" || finding.Do == "" {
					t.Errorf("%s says neither what was found nor what to do: %+v", finding.Kind, finding)
				}
				if finding.Class == Leak && !finding.Releasable && finding.KeptBecause == "" {
					t.Errorf("%s does not say why it is kept", finding.Kind)
				}
			}
			if r.Attention() != (len(tc.want) > 0) {
				t.Errorf("attention is %t", r.Attention())
			}
		})
	}
}

func TestAReadThatFailedIsNotPassedOver(t *testing.T) {
	f := sound()
	f.Unread = []string{"nodes"}
	if r := Audit(f); !r.Attention() {
		t.Error("a report of half of the cluster looks like a clean one")
	}
}

func TestAgree(t *testing.T) {
	const apart = 10 * time.Minute
	leaking := func() *Facts {
		f := sound()
		f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
		return f
	}
	cases := map[string]struct {
		// second changes the later facts, which are the first's otherwise.
		second func(*Facts)
		// later is when the second audit began, after the first.
		later   time.Duration
		want    int
		leftOut string
		err     string
	}{
		"an entry that both name in every field is agreed on":     {later: apart, want: 1},
		"less than the time apart, nothing is":                    {later: apart - time.Second, err: "expected 10m0s or more"},
		"reports of two clusters have nothing in common":          {later: apart, second: func(f *Facts) { f.Cluster = "other" }, err: "different clusters"},
		"a report without a cluster is of none":                   {later: apart, second: func(f *Facts) { f.Cluster = "" }, err: "different clusters"},
		"another sandbox is another entry":                        {later: apart, second: func(f *Facts) { f.Entries[1].SandboxID = "s3" }, leftOut: "does not have it in this form"},
		"another podref is another entry":                         {later: apart, second: func(f *Facts) { f.Entries[1].PodRef, f.Entries[1].Owner.Name = "apps/gone2", "gone2" }, leftOut: "does not have it in this form"},
		"another interface is another entry":                      {later: apart, second: func(f *Facts) { f.Entries[1].Interface = "net2" }, leftOut: "does not have it in this form"},
		"another pool is another entry":                           {later: apart, second: func(f *Facts) { f.Entries[1].Pool = "kube-system/other" }, leftOut: "does not have it in this form"},
		"another address is another entry":                        {later: apart, second: func(f *Facts) { f.Entries[1].IP = ip("10.0.0.3") }, leftOut: "does not have it in this form"},
		"a pod that is back takes it off the list":                {later: apart, second: func(f *Facts) { f.Pods = append(f.Pods, pod("gone", "u9", "10.0.0.2")) }},
		"an entry that went is not on it":                         {later: apart, second: func(f *Facts) { f.Entries = f.Entries[:1] }},
		"one that the manager holds for a UID by now is left out": {later: apart, second: func(f *Facts) { f.Records = append(f.Records, record("u9", "gone", "10.0.0.2", "s2")) }, leftOut: "Holdfast holds it"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			later := leaking()
			later.Time = began.Add(tc.later)
			if tc.second != nil {
				tc.second(later)
			}
			first, second := Audit(leaking()), Audit(later)
			for _, pair := range [][2]*Report{{first, second}, {second, first}} {
				got, err := Agree(pair[0], pair[1], apart)
				if (err != nil) != (tc.err != "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				if err != nil {
					continue
				}
				if len(got.Entries) != tc.want || !strings.Contains(strings.Join(got.LeftOut, "\n"), tc.leftOut) || (tc.leftOut == "" && len(got.LeftOut) > 0) {
					t.Errorf("agreed on %v, left out %q", got.Entries, got.LeftOut)
				}
			}
		})
	}
}

func TestAThirdLook(t *testing.T) {
	f := sound()
	f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
	leak := *EntryOf(&f.Entries[1])
	if still, why := Audit(f).Still(leak); !still {
		t.Errorf("it is a leak still, and was left out: %s", why)
	}
	f.Pods = append(f.Pods, pod("elsewhere", "u7", "10.0.0.2"))
	if still, why := Audit(f).Still(leak); still || !strings.Contains(why, "shows the address") {
		t.Errorf("a pod shows it by now: %t, %q", still, why)
	}
	f.Entries[1].SandboxID = "s3"
	if still, _ := Audit(f).Still(leak); still {
		t.Error("it is another entry by now")
	}
}
