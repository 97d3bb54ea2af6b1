// SPDX-License-Identifier: Apache-2.0

package who

import (
	"net/netip"
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
)

var (
	at = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ip = netip.MustParseAddr("10.0.0.1")
	// sandboxS and sandboxT are IDs as container runtimes make them.
	sandboxS, sandboxT = strings.Repeat("5a", 32), strings.Repeat("7a", 32)
)

func entry(podRef, sandbox string) ipam.Entry {
	return ipam.Entry{Key: ipam.Key{Pool: "kube-system/p", IP: ip, SandboxID: sandbox, PodRef: podRef}}
}

func record(name, pod, sandbox string) v1alpha1.IPAllocation {
	return v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.IPAllocationSpec{PodNamespace: "apps", PodName: pod,
		Addresses: []v1alpha1.AddressRecord{{IP: ip.String(), Pool: "kube-system/p", SandboxID: sandbox}, {IP: "10.0.0.9", Pool: "kube-system/p", SandboxID: sandbox}}}}
}

func pod(name string, uid types.UID, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name, UID: uid}, Status: corev1.PodStatus{Phase: phase}}
}

func TestWho(t *testing.T) {
	type holder struct{ Pod, UID, State, Sources string }
	cases := map[string]struct {
		facts Facts
		want  []holder
		note  string
	}{
		"no holder": {},
		"one that all three sources show is one holder": {
			facts: Facts{Entries: []ipam.Entry{entry("apps/web", sandboxS)}, Records: []v1alpha1.IPAllocation{record("u", "web", sandboxS)}, Pods: []corev1.Pod{pod("web", "u", corev1.PodRunning)}},
			want:  []holder{{"apps/web", "u", "InUse", "Record,Pool,NetworkStatus"}},
		},
		"an entry without a record is known by name": {
			facts: Facts{Entries: []ipam.Entry{entry("apps/web", sandboxS)}},
			want:  []holder{{"apps/web", "", "Unknown", "Pool"}},
		},
		"and by UID once a pod of the name shows the address": {
			facts: Facts{Entries: []ipam.Entry{entry("apps/web", sandboxS)}, Pods: []corev1.Pod{pod("web", "u", corev1.PodPending)}},
			want:  []holder{{"apps/web", "u", "Starting", "Pool,NetworkStatus"}},
		},
		"a name never identifies: the record of another UID of the name is another holder": {
			facts: Facts{Records: []v1alpha1.IPAllocation{record("u", "web", sandboxS)}, Pods: []corev1.Pod{pod("web", "v", corev1.PodRunning)}},
			want:  []holder{{"apps/web", "v", "InUse", "NetworkStatus"}, {"apps/web", "u", "Unknown", "Record"}},
			note:  "More than one has the address",
		},
		"the pool has it for another sandbox than the record": {
			facts: Facts{Entries: []ipam.Entry{entry("apps/db", sandboxT)}, Records: []v1alpha1.IPAllocation{record("u", "web", sandboxS)}},
			want:  []holder{{"apps/db", "", "Unknown", "Pool"}, {"apps/web", "u", "Unknown", "Record"}},
			note:  "More than one has the address",
		},
		"an orphan has no UID": {
			facts: Facts{Records: []v1alpha1.IPAllocation{record("orphan-s", "web", sandboxS)}},
			want:  []holder{{"apps/web", "", "Orphaned", "Record"}},
		},
		"a pod that shows what no pool has": {
			facts: Facts{Pods: []corev1.Pod{pod("web", "u", corev1.PodRunning)}},
			want:  []holder{{"apps/web", "u", "InUse", "NetworkStatus"}},
			note:  "no pool has it",
		},
		"without Holdfast there are no records": {
			facts: Facts{Entries: []ipam.Entry{entry("apps/web", sandboxS)}, Unserved: inspect.Unserved{Records: true}},
			want:  []holder{{"apps/web", "", "Unknown", "Pool"}},
			note:  "Holdfast is not installed (the API server serves no ipallocations.holdfast.dev): there are no records",
		},
		"without whereabouts there are no pools": {
			facts: Facts{Unserved: inspect.Unserved{Pools: true}},
			note:  "whereabouts is not installed (the API server serves no ippools.whereabouts.cni.cncf.io): no pool has any address",
		},
		"a pool that cannot be read may have it too": {
			facts: Facts{Problems: []ipam.Problem{{Pool: "kube-system/q", Message: "bad range"}}},
			note:  "Pool kube-system/q cannot be read",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.facts.IP = ip
			got := Who(&tc.facts)
			var holders []holder
			for _, h := range got.Now {
				holders = append(holders, holder{h.Pod, string(h.UID), h.State, strings.Join(h.Sources, ",")})
			}
			if diff := cmp.Diff(tc.want, holders); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
			if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, tc.note) || (tc.note == "" && notes != "") {
				t.Errorf("notes %q, want %q", notes, tc.note)
			}
			if got.Attention() != (len(tc.want) > 1) {
				t.Errorf("attention is %t", got.Attention())
			}
		})
	}
}

func TestEventsNewestFirst(t *testing.T) {
	got := Who(&Facts{IP: ip, Events: []inspect.Event{{Last: at, Note: "a", Kind: "Pod", Namespace: "apps", Name: "web"}, {Last: at.Add(time.Minute), Note: "b", Kind: "IPAllocation", Name: "u"}}})
	if len(got.Before) != 2 || got.Before[0].Note != "b" || got.Before[0].About != "IPAllocation u" || got.Before[1].About != "Pod apps/web" {
		t.Errorf("got %+v", got.Before)
	}
}

func TestNames(t *testing.T) {
	cases := map[string]struct {
		text, ip string
		want     bool
	}{
		"alone":                                 {"10.0.0.1", "10.0.0.1", true},
		"in a sentence":                         {"released 10.0.0.1, 10.0.0.2: done", "10.0.0.2", true},
		"at the end of a sentence":              {"released 10.0.0.1.", "10.0.0.1", true},
		"before a colon":                        {"released 10.0.0.1: done", "10.0.0.1", true},
		"the beginning of another":              {"released 10.0.0.11", "10.0.0.1", false},
		"the beginning of another, after a dot": {"released 10.0.0.1.5", "10.0.0.1", false},
		"the end of another":                    {"released 110.0.0.1", "10.0.0.1", false},
		"in the name of a pool":                 {"in pool kube-system/10.0.0.0-24", "10.0.0.1", false},
		"an IPv6 address":                       {"released fd00::1: done", "fd00::1", true},
		"the beginning of an IPv6 address":      {"released fd00::1:2", "fd00::1", false},
		"the beginning of a longer group":       {"released fd00::12", "fd00::1", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Names(tc.text, netip.MustParseAddr(tc.ip)); got != tc.want {
				t.Errorf("%q names %s: %t", tc.text, tc.ip, got)
			}
		})
	}
}
