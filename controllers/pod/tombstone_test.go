// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// takenOver are the entries of the pool once the next pod of the name has inherited the address.
func takenOver() []ipam.Entry {
	entries := onepod.HeldByOld()
	entries[0].SandboxID = "new-sandbox"
	return entries
}

func TestATombstoneThatCannotBeWrittenIsExplained(t *testing.T) {
	f := newWorld(t, onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1"))
	f.Pool.Refuses = true
	if _, err := f.r.Reconcile(t.Context(), "old"); err == nil {
		t.Error("no other try is due")
	}
	if last := meta.FindStatusCondition(f.Record().Status.Conditions, v1alpha1.ReleasedCondition); last == nil || last.Reason != string(v1alpha1.ReasonReleaseFailed) {
		t.Errorf("the condition of the record is %+v", last)
	}
}

// TestI1AVanishedPodObjectReleasesNothing: its finalizer was removed and it was force-deleted, or it was removed from etcd, without
// a report of its kubelet.
func TestI1AVanishedPodObjectReleasesNothing(t *testing.T) {
	const tombstone = "10.0.0.5 old-sandbox holdfast-releasing/old"
	for name, tc := range map[string]struct {
		entries   []ipam.Entry
		successor bool
		want      []string
		state     v1alpha1.AllocationState
	}{
		"its entry becomes a tombstone, which no successor inherits": {
			onepod.HeldByOld(), false, []string{tombstone}, v1alpha1.StateHeld},
		"its entry becomes a tombstone although the successor is there already": {
			onepod.HeldByOld(), true, []string{tombstone}, v1alpha1.StateHeld},
		"its entry that was removed by force stands again as a tombstone": {
			nil, false, []string{tombstone}, v1alpha1.StateHeld},
		"its entry that the successor inherited is a conflict, and the record stays": {
			takenOver(), true, []string{"10.0.0.5 new-sandbox default/web-1"}, v1alpha1.StateConflict},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1")}
			if tc.successor {
				objects = append(objects, onepod.PodOf("new", "10.0.0.6"))
			}
			f := newWorld(t, objects...)
			f.Pool.Entries = tc.entries
			f.holdsUntil(0, time.Second, time.Hour)
			var got []string
			for _, e := range f.Pool.Entries {
				got = append(got, fmt.Sprintf("%s %s %s", e.IP, e.SandboxID, e.PodRef))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the pool (-want +got):\n%s", diff)
			}
			var record v1alpha1.IPAllocation
			if err := f.Truth.Get(t.Context(), client.ObjectKey{Name: "old"}, &record); err != nil || record.Status.State != tc.state {
				t.Errorf("the record of a sandbox that may live: state %q, %v; expected %q", record.Status.State, err, tc.state)
			}
		})
	}
}

// TestI1AVanishedPodInAConflictKeepsItsAddressFromTheNextOneOfItsName: an earlier user of the address is not proven gone either.
func TestI1AVanishedPodInAConflictKeepsItsAddressFromTheNextOneOfItsName(t *testing.T) {
	for name, tc := range map[string]struct {
		entries []ipam.Entry
		next    string
		want    string
	}{
		"its entry stands":                      {onepod.HeldByOld(), "", "holdfast-releasing/old"},
		"its entry was removed":                 {nil, "", "holdfast-releasing/old"},
		"the next one shows another address":    {onepod.HeldByOld(), "10.0.0.6", "holdfast-releasing/old"},
		"the next one shows the address by now": {onepod.HeldByOld(), "10.0.0.5", "default/web-1"},
	} {
		t.Run(name, func(t *testing.T) {
			rival := onepod.RecordOfOld(onepod.OldMachine())
			rival.Name, rival.Spec.PodName, rival.Spec.Sandboxes[0].ID, rival.Spec.Addresses[0].SandboxID = "rival", "db-0", "third-sandbox", "third-sandbox"
			objects := []client.Object{onepod.RecordOfOld(onepod.OldMachine()), rival, onepod.Node("node", "node-1", "m1")}
			if tc.next != "" {
				objects = append(objects, onepod.PodOf("new", tc.next))
			}
			f := newWorld(t, objects...)
			f.Pool.Entries = tc.entries
			f.holdsUntil(0, time.Second, time.Hour)
			if len(f.Pool.Entries) != 1 || f.Pool.Entries[0].PodRef != tc.want {
				t.Errorf("the pool has %+v, expected %s", f.Pool.Entries, tc.want)
			}
		})
	}
}

// lateRecords is a cache that has not seen yet that a record was deleted.
type lateRecords struct {
	client.Client
	record *v1alpha1.IPAllocation
}

func (c lateRecords) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if record, is := into.(*v1alpha1.IPAllocation); is && key.Name == c.record.Name {
		c.record.DeepCopyInto(record)
		return nil
	}
	return c.Client.Get(ctx, key, into, options...)
}

// TestI2ARecordThatOnlyTheCacheHasRestoresNoEntry: the address was released with proof, pod and record were deleted, and the cache is late.
func TestI2ARecordThatOnlyTheCacheHasRestoresNoEntry(t *testing.T) {
	f := newWorld(t, onepod.Node("node", "node-1", "m1"))
	f.Pool.Entries = nil
	late := onepod.RecordOfOld(onepod.OldMachine())
	late.ResourceVersion, late.Spec.Addresses[0].PoolResourceVersion = "1", "99"
	f.r.client = lateRecords{f.r.client, late}
	if err := f.after(0); err != nil {
		t.Fatal(err)
	}
	if len(f.Pool.Entries) > 0 || len(f.Pool.Tombstoned) > 0 {
		t.Errorf("the pool has %v, which no pod and no record leads to; tombstones were asked for %v", f.Pool.Entries, f.Pool.Tombstoned)
	}
}

// TestI2AnAddressIsNotDroppedForAPodThatOnlyTheCacheHas: the pod vanished and its entry was removed, and the watch of pods is late.
func TestI2AnAddressIsNotDroppedForAPodThatOnlyTheCacheHas(t *testing.T) {
	record := onepod.RecordOfOld(onepod.OldMachine())
	record.Spec.Addresses[0].PoolResourceVersion = "99"
	f := newWorld(t, record, onepod.Node("node", "node-1", "m1"))
	f.Pool.Entries = nil
	attaching := onepod.PodOf("old", "")
	attaching.Annotations = nil
	f.r.client = interceptor.NewClient(f.Truth, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if pod, is := into.(*corev1.Pod); is {
				attaching.DeepCopyInto(pod)
				return nil
			}
			return c.Get(ctx, key, into, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if pods, is := into.(*corev1.PodList); is {
				pods.Items = []corev1.Pod{*attaching}
				return nil
			}
			return c.List(ctx, into, opts...)
		}})
	if err := f.after(0); err != nil {
		t.Fatal(err)
	}
	if addresses := f.Record().Spec.Addresses; len(addresses) != 1 || len(f.Pool.Tombstoned) != 1 {
		t.Errorf("the record has %v, and the pool got %d tombstones, expected one each", addresses, len(f.Pool.Tombstoned))
	}
}

// TestI10AnEntryForARecordThatWasDeletedMeanwhileIsRemovedAgain: another leader released the address, between the read of the record and the tombstone.
func TestI10AnEntryForARecordThatWasDeletedMeanwhileIsRemovedAgain(t *testing.T) {
	record := onepod.RecordOfOld(onepod.OldMachine())
	f := newWorld(t, record, onepod.Node("node", "node-1", "m1"))
	f.Pool.Entries = nil
	f.Pool.OnLive = func() { _ = f.Truth.Delete(t.Context(), record.DeepCopy()) }
	if err := f.after(0); err != nil {
		t.Fatal(err)
	}
	if len(f.Pool.Entries) > 0 {
		t.Errorf("the pool has %v, which no pod and no record leads to", f.Pool.Entries)
	}
}

// TestATombstoneIsReportedOnce, by an event on the record, because the pod is deleted.
func TestATombstoneIsReportedOnce(t *testing.T) {
	f := newWorld(t, onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1"))
	f.holdsUntil(0, time.Second, time.Hour)
	reported := f.r.recorder.(*events.FakeRecorder).Events
	close(reported)
	count := 0
	for event := range reported {
		if strings.Contains(event, string(v1alpha1.ReasonAddressKept)) {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d events AddressKept, expected one", count)
	}
}

// TestI2ATombstoneIsRemovedOnceTheSandboxIsProvenGone, or once a user has released the address by hand; the record is deleted too.
func TestI2ATombstoneIsRemovedOnceTheSandboxIsProvenGone(t *testing.T) {
	proven := func(r *v1alpha1.IPAllocation) {
		r.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, Node: onepod.OldMachine()}
	}
	byHand := func(sandbox string) func(*v1alpha1.IPAllocation) {
		return func(r *v1alpha1.IPAllocation) {
			r.Annotations = map[string]string{v1alpha1.ReleasedByHandAnnotation: `[{"address":"10.0.0.5","pool":"kube-system/pool","sandboxID":"` + sandbox + `"}]`}
		}
	}
	for name, tc := range map[string]struct {
		entries  []ipam.Entry
		change   func(*v1alpha1.IPAllocation)
		released int
		stays    bool
	}{
		"its own kubelet reported the end; the entry stands":                   {onepod.HeldByOld(), proven, 1, false},
		"its own kubelet reported the end; the entry was removed by force":     {nil, proven, 0, false},
		"its own kubelet reported the end; the successor has the address":      {takenOver(), proven, 0, false},
		"a person released the address for this sandbox":                       {nil, byHand("old-sandbox"), 0, false},
		"a person released the address for this sandbox; the successor has it": {takenOver(), byHand("old-sandbox"), 0, false},
		"a person released the address for another sandbox, which is no proof": {nil, byHand("other-sandbox"), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			record := onepod.RecordOfOld(onepod.OldMachine())
			tc.change(record)
			f := newWorld(t, record, onepod.Node("node", "node-1", "m1"))
			f.Pool.Entries = tc.entries
			for _, later := range []time.Duration{0, time.Second, 2 * time.Second} {
				if err := f.after(later); err != nil {
					t.Fatal(err)
				}
			}
			if len(f.Pool.Released) != tc.released {
				t.Errorf("released %v, expected %d entries", f.Pool.Released, tc.released)
			}
			err := f.Truth.Get(t.Context(), client.ObjectKey{Name: "old"}, &v1alpha1.IPAllocation{})
			if stays := err == nil; stays != tc.stays {
				t.Errorf("the record stays: %t (%v), expected %t", stays, err, tc.stays)
			}
		})
	}
}

// TestI1TheReleaseOfOneSandboxKeepsTheOthersFromASuccessor: the release may have to wait for a cache, and the next pod of the name starts meanwhile.
func TestI1TheReleaseOfOneSandboxKeepsTheOthersFromASuccessor(t *testing.T) {
	held := func(ip, sandbox string) facts.Held {
		return facts.Held{Entry: ipam.Entry{Key: ipam.Key{Backend: "pools", IP: netip.MustParseAddr(ip), SandboxID: sandbox}}}
	}
	gone := &view{podFact: release.Absent[release.Pod](), held: []facts.Held{held("10.0.0.1", "gone"), held("10.0.0.2", "unproven")}}
	of := func(action release.Action) release.Decision {
		return release.Decision{Action: action, Sandboxes: []string{"gone"}}
	}
	withheld := of(release.Release)
	for name, tc := range map[string]struct {
		decision release.Decision
		want     []string
	}{
		"it waits":                           {of(release.Wait), []string{"10.0.0.1", "10.0.0.2"}},
		"one is released":                    {of(release.Release), []string{"10.0.0.2"}},
		"one is dropped":                     {of(release.Drop), []string{"10.0.0.2"}},
		"one is to be read live":             {release.Decision{Action: release.Reread, Intended: release.Release, Sandboxes: []string{"gone"}}, []string{"10.0.0.2"}},
		"the release of one is withheld":     {release.Decision{Action: release.Wait, Withheld: &withheld}, []string{"10.0.0.2"}},
		"one is disowned, and keeps its own": {of(release.Disown), []string{"10.0.0.1", "10.0.0.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, request := range gone.unproven("pools", tc.decision) {
				got = append(got, request.IP.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the addresses that get a tombstone (-want +got):\n%s", diff)
			}
		})
	}
}
