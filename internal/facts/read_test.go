// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// TestI5ANodeThatIsNotReadChangesNoDecision decides about pods without their Node, and with each state of it.
func TestI5ANodeThatIsNotReadChangesNoDecision(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	nodes := map[string]release.Fact[release.Node]{
		"absent":         release.Absent[release.Node](),
		"ready":          release.Known(release.Node{Machine: release.Machine{NodeUID: "node", BootID: "boot"}, Ready: true, Registered: now.Add(-time.Hour)}),
		"not ready":      release.Known(release.Node{Machine: release.Machine{NodeUID: "node", BootID: "boot"}, Registered: now}),
		"out of service": release.Known(release.Node{Machine: release.Machine{NodeUID: "node", BootID: "boot"}, OutOfService: true}),
	}
	unneeded := 0
	for name, read := range reads(now) {
		without := read.Observation()
		if read.NeedsNode() {
			continue
		}
		unneeded++
		for state, node := range nodes {
			read.Node = node
			if diff := cmp.Diff(release.Decide(without, now), release.Decide(read.Observation(), now)); diff != "" {
				t.Errorf("%s: without the Node and with one that is %s (-without +with):\n%s", name, state, diff)
			}
		}
	}
	if unneeded == 0 {
		t.Error("every read needed the Node")
	}
}

// reads are of pods that differ in all that says whether the Node is needed.
func reads(now time.Time) map[string]Read {
	all := map[string]Read{}
	endings := []release.Ending{release.EndingNone, release.EndingFinished, release.EndingCompleted, release.EndingRejected, release.EndingForeign, release.EndingShared}
	query := v1alpha1.SandboxQuery{Record: "uid", SandboxID: v1alpha1.AnySandbox, BootID: "boot", Epoch: 1}
	found := v1alpha1.SandboxResponse{Record: "uid", SandboxID: v1alpha1.AnySandbox, BootID: "boot", Epoch: 1, Verdict: v1alpha1.VerdictDoNotRelease, SuccessorID: "next"}
	agents := []v1alpha1.GuardedNode{{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: v1alpha1.GuardedNodeSpec{Queries: []v1alpha1.SandboxQuery{query}},
		Status: v1alpha1.GuardedNodeStatus{Responses: []v1alpha1.SandboxResponse{found}}}}
	for _, evidence := range []release.Evidence{release.EvidenceKubelet, release.EvidenceAgent} {
		for _, ending := range endings {
			for bits := range 1 << 6 {
				is := func(bit int) bool { return bits&(1<<bit) != 0 }
				r := Read{Evidence: evidence, UID: "uid", Live: is(0), HeldRead: release.Known(struct{}{}), Queries: Queries{Record: "uid"},
					Pod: release.Known(release.Pod{Deleting: is(1), Deadline: now.Add(-time.Hour), Bound: true, Ending: ending})}
				if is(2) {
					r.Held = []Held{{Entry: ipam.Entry{Key: ipam.Key{SandboxID: "sandbox"}}}}
				}
				if is(3) {
					r.Unowned = []Held{{Entry: ipam.Entry{Key: ipam.Key{SandboxID: "other"}}}}
				}
				if is(4) {
					r.Queries.Objects = agents
				}
				if is(5) {
					r.Queries.Unread = "no response"
				}
				all[fmt.Sprintf("evidence %d, ending %d, live %t, deleting %t, entries %t, unowned %t, queried %t, unread %t", evidence, ending, is(0), is(1), is(2), is(3), is(4), is(5))] = r
			}
		}
	}
	return all
}
