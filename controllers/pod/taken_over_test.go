// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// rivalOfOld is the record of another pod, which has the address of the first sandbox by now.
func rivalOfOld(name string) *v1alpha1.IPAllocation {
	rival := onepod.RecordOfOld(onepod.OldMachine())
	rival.Name, rival.Spec.PodName, rival.Spec.Sandboxes[0].ID, rival.Spec.Addresses[0].SandboxID = name, "db-0", "third-sandbox", "third-sandbox"
	return rival
}

// TestI1AnAddressIsLeftToAnotherPodOnceTheSandboxBeforeIsGone: the node of a live pod rebooted, CNI DEL freed its address, another pod got it, and the
// pod's next sandbox has another one.
func TestI1AnAddressIsLeftToAnotherPodOnceTheSandboxBeforeIsGone(t *testing.T) {
	type setup struct {
		record *v1alpha1.IPAllocation
		node   *corev1.Node
		next   *ipam.Entry
		shown  string
		world  *world
	}
	none := func(*setup) {}
	replaced := func(s *setup) {
		s.world.Successor = "next-sandbox"
		s.world.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReplaced, "old")
	}
	watched := func(s *setup) { s.record.Spec.Sandboxes[0].Attribution = v1alpha1.AttributionObservedAdd }
	withoutAgents := func(s *setup) { s.world.r.options.Evidence = release.EvidenceKubelet }
	for name, tc := range map[string]struct {
		before, then func(*setup)
		tombstone    string
		left         bool
	}{
		"the agent reports that it is gone": {none, replaced, "", true},
		"it is not gone": {none, func(s *setup) {
			s.world.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotLoaded, "old")
		}, "", false},
		"the agent has not responded":                    {none, none, "", false},
		"the other pod has vanished":                     {none, replaced, "rival", true},
		"the other pod has vanished, and it is not gone": {none, none, "rival", false},
		"the other one is an orphan":                     {none, replaced, v1alpha1.OrphanPrefix + "third-sandbox", true},
		"the next sandbox has its address on another interface": {func(s *setup) {
			s.record.Spec.Addresses[1].Interface, s.next.Interface = "net2", "net2"
		}, replaced, "", false},
		"the next sandbox has its address from another pool": {func(s *setup) {
			s.record.Spec.Addresses[1].Pool, s.next.Pool = "kube-system/other", "kube-system/other"
		}, replaced, "", false},
		"the interface is not recorded": {func(s *setup) {
			s.record.Spec.Addresses[0].Interface, s.record.Spec.Addresses[1].Interface, s.next.Interface = "", "", ""
		}, replaced, "", false},
		"the pod shows the address": {func(s *setup) { s.shown = "10.0.0.5" }, replaced, "", false},
		"the agent reported that it is gone before there was another one": {none, func(s *setup) {
			s.world.respond("old-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxStopped, "old")
		}, "", true},
		"the agent reported that before, and a sandbox may be missing in the record": {func(s *setup) {
			s.record.Spec.SandboxesSeen = v1alpha1.SandboxesSeenSome
		}, func(s *setup) {
			s.world.respond("old-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxStopped, "old")
		}, "", false},
		"the agent reports several others": {none, func(s *setup) {
			s.world.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReplaced, "old")
		}, "", false},
		"the agent reports another one": {none, func(s *setup) {
			s.world.Successor = "lost-sandbox"
			s.world.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReplaced, "old")
		}, "", false},
		"a sandbox may be missing in the record, and the agent knows of none": {func(s *setup) {
			s.record.Spec.SandboxesSeen = v1alpha1.SandboxesSeenSome
		}, replaced, "", true},
		"a sandbox may be missing in the record, and may be on the machine of an earlier Node": {func(s *setup) {
			s.record.Spec.SandboxesSeen, s.node.CreationTimestamp = v1alpha1.SandboxesSeenSome, metav1.NewTime(onepod.Now.Add(-10*time.Minute))
		}, replaced, "", false},
		"the network-status cannot be read": {func(s *setup) { s.shown = "" }, replaced, "", false},
		"the other entry is a tombstone": {func(s *setup) {
			s.next.Releasing, s.next.PodRef, s.next.Owner = "old", v1alpha1.TombstonePrefix+"/old", nil
		}, replaced, "", false},
		"the address of the other sandbox is older": {func(s *setup) { s.record.Spec.Addresses[1].PoolResourceVersion = "99" }, replaced, "", false},
		"only its ADD was watched, and its node never listed it: it may run on another node": {watched, func(s *setup) {
			s.world.Successor = "next-sandbox"
			s.world.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReplaced, "")
		}, "", false},
		"only its ADD was watched, and its node listed it with this pod": {watched, replaced, "", true},
		"only its ADD was watched, and the pod has shown its address": {watched, func(s *setup) {
			s.world.Successor = "next-sandbox"
			s.world.r.options.Witness.Show("old", "old-sandbox")
			s.world.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReplaced, "")
		}, "", true},
		"without agents, a sandbox may be missing in the record": {func(s *setup) {
			s.record.Spec.SandboxesSeen = v1alpha1.SandboxesSeenSome
		}, withoutAgents, "", false},
		"without agents":                     {none, withoutAgents, "", true},
		"without agents, on another machine": {func(s *setup) { s.node = onepod.Node("node", "node-1", "m2") }, withoutAgents, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := setup{record: recordOfBoth(), node: onepod.Node("node", "node-1", "m1"), shown: "10.0.0.6"}
			s.record.Spec.Addresses[1].IP, s.record.Spec.SandboxesSeen = "10.0.0.6", v1alpha1.SandboxesSeenAll
			entries := slices.Concat(onepod.HeldByOld(), onepod.HeldByOld())
			s.next = &entries[1]
			s.next.IP, s.next.SandboxID, s.next.PoolResourceVersion = netip.MustParseAddr("10.0.0.6"), "next-sandbox", "101"
			taken := &entries[0]
			taken.SandboxID, taken.PodRef, taken.Owner = "third-sandbox", "default/db-0", &ipam.PodRef{Namespace: "default", Name: "db-0"}
			rival := rivalOfOld(cmp.Or(tc.tombstone, "rival"))
			if tc.tombstone != "" {
				taken.PodRef, taken.Owner, taken.Releasing = v1alpha1.TombstonePrefix+"/"+tc.tombstone, nil, tc.tombstone
			}
			tc.before(&s)
			pod := onepod.PodOf("old", s.shown)
			pod.CreationTimestamp = metav1.NewTime(onepod.Now.Add(-20 * time.Minute))
			if s.shown == "" {
				pod.Annotations[podnetwork.StatusAnnotation] = "{"
			}
			f := newWorld(t, pod, s.record, rival, s.node)
			s.world, f.r.options.Evidence = f, release.EvidenceAgent
			f.Pool.Entries, f.Pool.Cached, f.Pool.Version = entries, "102", "102"
			f.Pool.Removed = []ipam.Removed{{Place: placeOfOld, SandboxID: "old-sandbox"}}
			f.holdsUntil(0, onepod.Settings.ReleaseDelay)
			tc.then(&s)
			f.holdsUntil(onepod.Settings.ReleaseDelay+time.Second, time.Hour)
			record := f.Record()
			if held, conflict := f.Addresses()["old"], record.Status.State == v1alpha1.StateConflict; conflict == tc.left || (len(held) == 1) != tc.left {
				t.Errorf("in the end the record has %v in state %q", held, record.Status.State)
			}
		})
	}
}
