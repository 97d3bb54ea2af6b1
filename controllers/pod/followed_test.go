// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// followedOnce is a pod with a termination reported by the kubelet. The record has the address of its first sandbox, and the pool's entry names the next one.
func followedOnce(t *testing.T) *world {
	t.Helper()
	pod := onepod.FinishedPod()
	pod.CreationTimestamp = metav1.NewTime(onepod.Now.Add(-20 * time.Minute))
	f := newWorld(t, pod, onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1"))
	f.r.options.Evidence = release.EvidenceAgent
	f.Pool.Entries[0].SandboxID, f.Pool.Entries[0].PoolResourceVersion = "next-sandbox", "101"
	f.Pool.Cached = "101"
	return f
}

// recordOfBoth has the address for a sandbox, and for the one that followed it.
func recordOfBoth() *v1alpha1.IPAllocation {
	record := onepod.RecordOfOld(onepod.OldMachine())
	sandbox, address := record.Spec.Sandboxes[0], record.Spec.Addresses[0]
	sandbox.ID, address.SandboxID, address.PoolResourceVersion = "next-sandbox", "next-sandbox", "101"
	record.Spec.Sandboxes, record.Spec.Addresses = append(record.Spec.Sandboxes, sandbox), append(record.Spec.Addresses, address)
	return record
}

// respond makes the agent of the node respond to the query about a sandbox.
func (f *world) respond(sandbox string, verdict v1alpha1.Verdict, reason v1alpha1.Reason, pod types.UID) {
	f.Helper()
	f.Respond("old", sandbox, verdict, reason, pod)
}

// TestI1ASandboxWhoseAddressALaterOneTookOver: the runtime failed to load the first sandbox, whose processes keep running; the IPAM gave its address to
// the next one, which is gone by now.
func TestI1ASandboxWhoseAddressALaterOneTookOver(t *testing.T) {
	f := followedOnce(t)
	f.holdsUntil(0, time.Second)
	f.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotLoaded, "old")
	f.respond("next-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.holdsUntil(2*time.Second, time.Hour)
	record := f.Record()
	var held []string
	for _, a := range record.Spec.Addresses {
		held = append(held, a.IP+" "+a.SandboxID)
	}
	if diff := cmp.Diff([]string{"10.0.0.5 old-sandbox", "10.0.0.5 next-sandbox"}, held); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
	if record.Status.State != v1alpha1.StateHeld {
		t.Errorf("state %q, expected Held: both sandboxes are the pod's", record.Status.State)
	}
}

// TestI1AFormerSandboxHoldsTheTombstoneOfALaterOne: the pod object vanished, and the later sandbox is gone.
func TestI1AFormerSandboxHoldsTheTombstoneOfALaterOne(t *testing.T) {
	f := newWorld(t, recordOfBoth(), onepod.Node("node", "node-1", "m1"))
	f.r.options.Evidence = release.EvidenceAgent
	f.Pool.Entries[0].SandboxID, f.Pool.Entries[0].PoolResourceVersion, f.Pool.Cached = "next-sandbox", "101", "101"
	f.holdsUntil(0, time.Second)
	if f.Pool.Entries[0].Releasing != "old" {
		t.Fatalf("the pool has %+v, expected a tombstone", f.Pool.Entries)
	}
	f.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotLoaded, "old")
	f.respond("next-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.holdsUntil(2*time.Second, time.Hour)
	if state := f.Record().Status.State; state != v1alpha1.StateHeld {
		t.Errorf("state %q, expected Held: both sandboxes are the pod's", state)
	}
	f.respond("old-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.releasesAfter(time.Hour + time.Second)
}

// TestI1ARemovedEntryIsMadeAgainForTheLatestSandbox: so the earlier one is still followed, and its proof releases nothing.
func TestI1ARemovedEntryIsMadeAgainForTheLatestSandbox(t *testing.T) {
	f := newWorld(t, recordOfBoth(), onepod.Node("node", "node-1", "m1"))
	f.r.options.Evidence = release.EvidenceAgent
	f.Pool.Entries, f.Pool.Cached, f.Pool.Version = nil, "102", "102"
	f.holdsUntil(0, time.Second)
	if len(f.Pool.Entries) != 1 || f.Pool.Entries[0].SandboxID != "next-sandbox" || f.Pool.Entries[0].Releasing != "old" || len(f.Pool.Tombstoned) != 1 {
		t.Fatalf("the pool has %+v by %v, expected a tombstone for the latest sandbox", f.Pool.Entries, f.Pool.Tombstoned)
	}
	f.respond("old-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.respond("next-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, "old")
	f.holdsUntil(2*time.Second, time.Hour)
}

// TestI1ASandboxThatALaterOneFollowedAtOneAddressHoldsIt: the later one's CNI ADD failed for the second network.
func TestI1ASandboxThatALaterOneFollowedAtOneAddressHoldsIt(t *testing.T) {
	record := recordOfBoth()
	second := record.Spec.Addresses[0]
	second.IP, second.Interface = "10.0.0.6", "net2"
	record.Spec.Addresses = append(record.Spec.Addresses, second)
	pod := onepod.FinishedPod()
	pod.CreationTimestamp = metav1.NewTime(onepod.Now.Add(-20 * time.Minute))
	f := newWorld(t, pod, record, onepod.Node("node", "node-1", "m1"))
	f.r.options.Evidence = release.EvidenceAgent
	other := f.Pool.Entries[0]
	other.IP, other.Interface = netip.MustParseAddr("10.0.0.6"), "net2"
	f.Pool.Entries[0].SandboxID, f.Pool.Entries[0].PoolResourceVersion, f.Pool.Cached = "next-sandbox", "101", "101"
	f.Pool.Entries = append(f.Pool.Entries, other)
	f.holdsUntil(0, time.Second)
	f.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotLoaded, "old")
	f.respond("next-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.holdsUntil(2*time.Second, time.Hour)
	f.respond("old-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.releasesAfter(time.Hour + time.Second)
}

// TestI1TheLaterSandboxStaysOnRecordUntilTheTombstoneStands: without it, nothing would show that the earlier one is followed.
func TestI1TheLaterSandboxStaysOnRecordUntilTheTombstoneStands(t *testing.T) {
	f := followedOnce(t)
	f.holdsUntil(0)
	f.Pool.Entries, f.Pool.Cached, f.Pool.Version, f.Pool.Refuses = nil, "102", "102", true
	if err := f.after(time.Second); err == nil {
		t.Error("the tombstone is refused, and there is no retry")
	}
	f.Pool.Refuses = false
	f.holdsUntil(2*time.Second, 3*time.Second)
	if len(f.Pool.Entries) != 1 || f.Pool.Entries[0].SandboxID != "old-sandbox" || f.Pool.Entries[0].Releasing != "old" {
		t.Fatalf("the pool has %+v, expected a tombstone for the sandbox that may live", f.Pool.Entries)
	}
	if held, state := f.Addresses()["old"], f.Record().Status.State; len(held) != 1 || state != v1alpha1.StateHeld {
		t.Errorf("in the end the record has %v in state %s", held, state)
	}
}

// TestI1OfThreeSandboxesTheLatestHoldsTheTombstone: the removal of its entry was seen while the pod exists, so the third one is forgotten.
func TestI1OfThreeSandboxesTheLatestHoldsTheTombstone(t *testing.T) {
	record := recordOfBoth()
	third := record.Spec.Addresses[1]
	third.SandboxID, third.PoolResourceVersion = "third-sandbox", "102"
	record.Spec.Sandboxes = append(record.Spec.Sandboxes, v1alpha1.SandboxRecord{ID: "third-sandbox", Attribution: v1alpha1.AttributionNetworkStatus, Node: onepod.OldMachine()})
	record.Spec.Addresses = append(record.Spec.Addresses, third)
	pod := onepod.FinishedPod()
	pod.CreationTimestamp = metav1.NewTime(onepod.Now.Add(-20 * time.Minute))
	f := newWorld(t, pod, record, onepod.Node("node", "node-1", "m1"))
	f.r.options.Evidence = release.EvidenceAgent
	f.Pool.Entries, f.Pool.Cached, f.Pool.Version = nil, "103", "103"
	f.holdsUntil(0, time.Second)
	if len(f.Pool.Entries) != 1 || f.Pool.Entries[0].SandboxID != "next-sandbox" {
		t.Fatalf("the pool has %+v, expected a tombstone for the later of the two that may live", f.Pool.Entries)
	}
	f.respond("old-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.respond("next-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, "old")
	f.holdsUntil(2*time.Second, time.Hour)
}

// TestI2AnAddressIsReleasedOnceEachSandboxThatHadItIsGone.
func TestI2AnAddressIsReleasedOnceEachSandboxThatHadItIsGone(t *testing.T) {
	f := followedOnce(t)
	f.holdsUntil(0, time.Second)
	f.respond("next-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.holdsUntil(2 * time.Second)
	f.respond("old-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.releasesAfter(3 * time.Second)
}

// TestI1AnEntryThatALaterSandboxsDELRemoved is created again as a tombstone: no replica of the webhook ran to refuse the DEL.
func TestI1AnEntryThatALaterSandboxsDELRemoved(t *testing.T) {
	f := followedOnce(t)
	f.holdsUntil(0)
	f.Pool.Entries, f.Pool.Cached, f.Pool.Version = nil, "102", "102"
	f.holdsUntil(time.Second)
	if len(f.Pool.Entries) != 1 || f.Pool.Entries[0].SandboxID != "old-sandbox" || f.Pool.Entries[0].Releasing != "old" {
		t.Fatalf("the pool has %v, expected a tombstone for the sandbox that may live", f.Pool.Entries)
	}
	var record v1alpha1.IPAllocation
	if err := f.Truth.Get(t.Context(), client.ObjectKey{Name: "old"}, &record); err != nil {
		t.Fatal(err)
	}
}

// TestAFollowedSandboxIsThePodsIfThePodShowedItsAddressBefore: an agent that was not queried meanwhile has not listed it. A later network-status
// may be of the next sandbox.
func TestAFollowedSandboxIsThePodsIfThePodShowedItsAddressBefore(t *testing.T) {
	for name, showed := range map[string]bool{"it showed it": true, "no manager saw that": false} {
		t.Run(name, func(t *testing.T) {
			record := onepod.RecordOfOld(onepod.OldMachine())
			record.Spec.Sandboxes[0].Attribution = v1alpha1.AttributionObservedAdd
			f := newWorld(t, onepod.PodOf("old", "10.0.0.5"), record, onepod.Node("node", "node-1", "m1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
			f.r.options.Evidence = release.EvidenceAgent
			if showed {
				f.holdsUntil(0)
			}
			f.Pool.Entries[0].SandboxID, f.Pool.Entries[0].PoolResourceVersion = "next-sandbox", "101"
			f.Pool.Cached = "101"
			f.holdsUntil(time.Second, time.Hour)
			f.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReplaced, "")
			if err := f.after(time.Hour + time.Second); err != nil {
				t.Fatal(err)
			}
			addresses := f.Addresses()
			if len(addresses["old"]) != 1 {
				t.Errorf("the pod's record has %v; expected the next sandbox's address alone", addresses["old"])
			}
			if _, orphaned := addresses[v1alpha1.OrphanPrefix+"old-sandbox"]; orphaned == showed {
				t.Errorf("records %v; an orphan: %t, expected %t", addresses, orphaned, !showed)
			}
		})
	}
}

// TestI2ASandboxWithARemovedEntryIsNotFollowed: repeated failing ADDs, each with its CNI DEL, leave no earlier sandboxes in the record.
func TestI2ASandboxWithARemovedEntryIsNotFollowed(t *testing.T) {
	for name, tc := range map[string]struct {
		removed []ipam.Removed
		want    []string
	}{
		"its own entry":                   {[]ipam.Removed{{Place: placeOfOld, SandboxID: "old-sandbox"}}, []string{"10.0.0.5 default/web-1"}},
		"its entry became the next one's": {nil, []string{"10.0.0.5 default/web-1", "10.0.0.5 default/web-1"}},
		"an entry of another address":     {[]ipam.Removed{{Place: ipam.Place{Pool: placeOfOld.Pool, IP: netip.MustParseAddr("10.0.0.6")}, SandboxID: "old-sandbox"}}, []string{"10.0.0.5 default/web-1", "10.0.0.5 default/web-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, onepod.PodOf("old", "10.0.0.5"), onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1"))
			f.r.options.Evidence = release.EvidenceAgent
			f.Pool.Entries[0].SandboxID, f.Pool.Entries[0].PoolResourceVersion = "next-sandbox", "101"
			f.Pool.Cached, f.Pool.Removed = "101", tc.removed
			f.holdsUntil(0, time.Second)
			if diff := cmp.Diff(tc.want, f.Addresses()["old"]); diff != "" {
				t.Errorf("the record (-want +got):\n%s", diff)
			}
		})
	}
}

// placeOfOld is the place of the address of recordOfOld in the pool.
var placeOfOld = ipam.Place{Pool: "kube-system/pool", IP: netip.MustParseAddr("10.0.0.5")}
