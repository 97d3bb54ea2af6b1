// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var (
	bound   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ip      = netip.MustParseAddr("192.0.2.5")
	onNet1  = []Shown{{IP: ip, Interface: "net1"}}
	none    = Owner{Attribution: v1alpha1.AttributionNone}
	holding = map[string]v1alpha1.Attribution{"s1": v1alpha1.AttributionObservedAdd}
)

func entry(change ...func(*Entry)) Entry {
	e := Entry{IP: ip, Interface: "net1", SandboxID: "s1", AddObserved: true, SeenSince: bound.Add(time.Second)}
	for _, c := range change {
		c(&e)
	}
	return e
}

// TestI3NamesNeverIdentify: an entry carries a pod's name, which is no evidence of any kind.
func TestI3NamesNeverIdentify(t *testing.T) {
	tests := map[string]struct {
		entry      Entry
		candidates []Candidate
		want       Owner
	}{
		"a pod of the name alone owns nothing": {
			entry(func(e *Entry) { e.AddObserved = false }), []Candidate{{UID: "a", BoundSeen: bound}}, none},
		"the record that holds the sandbox owns it, even if another pod has the name now": {
			entry(), []Candidate{{UID: "new", BoundSeen: bound}, {UID: "old", Sandboxes: holding}}, Owner{"old", v1alpha1.AttributionObservedAdd}},
		"network-status shows address and interface": {
			entry(func(e *Entry) { e.AddObserved = false }), []Candidate{{UID: "a", Shown: onNet1}}, Owner{"a", v1alpha1.AttributionNetworkStatus}},
		"network-status of another interface shows nothing": {
			entry(func(e *Entry) { e.AddObserved, e.Interface = false, "net2" }), []Candidate{{UID: "a", Shown: onNet1}}, none},
		"an entry without an interface name matches by its address": {
			entry(func(e *Entry) { e.AddObserved, e.Interface = false, "" }), []Candidate{{UID: "a", Shown: onNet1}}, Owner{"a", v1alpha1.AttributionNetworkStatus}},
		"network-status from before the pod's end strengthens what was only watched": {
			entry(), []Candidate{{UID: "a", Sandboxes: holding, Ending: true, Shown: onNet1, ShownAlive: onNet1}}, Owner{"a", v1alpha1.AttributionNetworkStatus}},
		"one that is written after the pod's end began does not": {
			entry(), []Candidate{{UID: "a", Sandboxes: holding, Ending: true, Shown: onNet1}}, Owner{"a", v1alpha1.AttributionObservedAdd}},
		"network-status says nothing of a sandbox that succeeds another at the address": {
			entry(func(e *Entry) { e.SandboxID = "s2" }), []Candidate{{UID: "a", Sandboxes: holding, Addresses: map[netip.Addr]string{ip: "s1"}, Shown: onNet1}},
			Owner{"a", v1alpha1.AttributionUnconfirmed}},
		"nor of one without an interface name: that matches within one sandbox only": {
			entry(func(e *Entry) { e.SandboxID, e.Interface, e.AddObserved = "s2", "", false }),
			[]Candidate{{UID: "a", Sandboxes: holding, Addresses: map[netip.Addr]string{ip: "s1"}, Shown: onNet1}}, Owner{"a", v1alpha1.AttributionUnconfirmed}},
		"nor of one that was watched after the UID was bound": {
			entry(func(e *Entry) { e.SandboxID = "s2" }), []Candidate{{UID: "a", BoundSeen: bound, Addresses: map[netip.Addr]string{ip: "s1"}}},
			Owner{"a", v1alpha1.AttributionUnconfirmed}},
		"nor later, once the record has the successor": {
			entry(), []Candidate{{UID: "a", Sandboxes: map[string]v1alpha1.Attribution{"s1": v1alpha1.AttributionUnconfirmed}, Addresses: map[netip.Addr]string{ip: "s1"}, Shown: onNet1}},
			Owner{"a", v1alpha1.AttributionUnconfirmed}},
		"nor of one that is first seen while the pod is being deleted, or after it ended": {
			entry(), []Candidate{{UID: "a", BoundSeen: bound, Ending: true, Shown: onNet1}}, Owner{"a", v1alpha1.AttributionUnconfirmed}},
		"an ADD that was watched after the UID was bound": {
			entry(), []Candidate{{UID: "a", BoundSeen: bound}}, Owner{"a", v1alpha1.AttributionObservedAdd}},
		"an ADD that was seen before the UID was bound": {
			entry(func(e *Entry) { e.SeenSince = bound.Add(-time.Second) }), []Candidate{{UID: "a", BoundSeen: bound}}, none},
		"an ADD while the UID was never seen bound": {
			entry(), []Candidate{{UID: "a"}}, none},
		"an ADD that may be a predecessor's": {
			entry(), []Candidate{{UID: "a", BoundSeen: bound}, {UID: "old"}}, none},
		"an ADD after the record of the predecessor was released": {
			entry(), []Candidate{{UID: "a", BoundSeen: bound}, {UID: "old", Resolved: true}}, Owner{"a", v1alpha1.AttributionObservedAdd}},
		"two records that claim one sandbox own nothing": {
			entry(), []Candidate{{UID: "a", Sandboxes: holding}, {UID: "b", Sandboxes: holding}}, none},
		"two pods that show one address own nothing": {
			entry(), []Candidate{{UID: "a", Shown: onNet1}, {UID: "b", Shown: onNet1}}, none},
		"an entry of a ResourceClaim is no pod's, even if a pod was watched or shows it": {
			entry(func(e *Entry) { e.SandboxID = claimUID }), []Candidate{{UID: "a", BoundSeen: bound, Shown: onNet1}}, none},
		"a record that says None is no evidence": {
			entry(func(e *Entry) { e.AddObserved = false }),
			[]Candidate{{UID: "a", Sandboxes: map[string]v1alpha1.Attribution{"s1": v1alpha1.AttributionNone}}}, none},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(tc.entry, tc.candidates)); diff != "" {
				t.Errorf("Of (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOrderOfCandidatesDoesNotMatter: an owner is found by evidence, not by who was asked first.
func TestOrderOfCandidatesDoesNotMatter(t *testing.T) {
	candidates := []Candidate{{UID: "a", BoundSeen: bound, Shown: onNet1}, {UID: "b", Sandboxes: holding}, {UID: "c"}}
	want := Of(entry(), candidates)
	for _, order := range [][]int{{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		shuffled := make([]Candidate, 0, len(candidates))
		for _, i := range order {
			shuffled = append(shuffled, candidates[i])
		}
		if got := Of(entry(), shuffled); got != want {
			t.Errorf("order %v: owner %v, want %v", order, got, want)
		}
	}
	if want.UID != types.UID("b") {
		t.Errorf("owner %v, want the record's UID b", want)
	}
}
