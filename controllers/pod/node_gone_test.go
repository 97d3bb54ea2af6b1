// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/nodegone"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// world is one deleted pod that holds an address, on a node with a lifecycle that the test plays.
type world struct {
	*onepod.World
	r *Reconciler
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := onepod.New(t, objects...)
	return &world{w, New(w.Client, w.Live, w.Recorder, w.Clock, Options{Backends: []ipam.Backend{w.Pool}, Evidence: release.EvidenceKubelet, Settings: onepod.Settings,
		PoliciesSince: w.PoliciesSince, Witness: witness.New(w.Clock), NodesGone: nodegone.New(w.Live, w.Clock, onepod.NodeGoneDelay, w.PoliciesSince)})}
}

// after moves the clock to that long after the beginning and reconciles.
func (f *world) after(d time.Duration) error { return f.After(d, f.r.Reconcile) }

func (f *world) holdsUntil(times ...time.Duration) {
	f.Helper()
	for _, d := range times {
		if err := f.after(d); err != nil {
			f.Fatalf("after %s: %v", d, err)
		}
		if len(f.Pool.Released) > 0 {
			f.Fatalf("released after %s, expected it to be held", d)
		}
	}
}

// holdsFrom looks as often as the reconciler asks to be woken, from one moment until just before another.
func (f *world) holdsFrom(from, to time.Duration) {
	f.Helper()
	for d := from; d < to; d += nodegone.Confirmed {
		f.holdsUntil(d)
	}
	f.holdsUntil(to - time.Second)
}

func (f *world) releasesAfter(d time.Duration) {
	f.Helper()
	if err := f.after(d); err != nil {
		f.Fatalf("after %s: %v", d, err)
	}
	if len(f.Pool.Released) == 0 {
		f.Fatalf("still held after %s", d)
	}
	var pod corev1.Pod
	if err := f.Truth.Get(f.Context(), client.ObjectKey{Namespace: "default", Name: "web-1"}, &pod); !apierrors.IsNotFound(err) {
		f.Fatalf("the pod is still there: %v, %v", pod.Finalizers, err)
	}
}

func TestADeletedNodeCountsAfterAPersistedDelay(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), onepod.Lease("node", onepod.Now.Add(-time.Hour)))
	f.holdsFrom(0, onepod.NodeGoneDelay)
	f.r.options.NodesGone = nodegone.New(f.r.live, f.Clock, onepod.NodeGoneDelay, f.r.options.PoliciesSince) // another process carries on
	f.releasesAfter(onepod.NodeGoneDelay)
}

func TestAnySignOfLifeStartsTheDelayAgain(t *testing.T) {
	signs := map[string]struct {
		show []client.Object
		say  string
	}{
		"the kubelet renews the node's Lease":              {[]client.Object{onepod.Lease("node", onepod.Now.Add(4*time.Minute))}, "renewed the node's Lease"},
		"the kubelet's clock is far behind":                {[]client.Object{onepod.Lease("node", onepod.Now.Add(-100*time.Hour))}, "renewed the node's Lease"},
		"the machine comes back under another name":        {[]client.Object{onepod.Node("other", "node-9", "m1")}, "registered as node other"},
		"the machine registers again under the same name":  {[]client.Object{onepod.Node("node", "node-2", "m1")}, ""},
		"the machine boots and registers under its name":   {[]client.Object{rebooted(onepod.Node("node", "node-2", "m1"))}, ""},
		"the old Node object turns out to be there at all": {[]client.Object{onepod.Node("node", "node-1", "m1")}, ""},
	}
	for name, sign := range signs {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), onepod.Lease("node", onepod.Now.Add(-time.Hour)), onepod.Node("bystander", "node-5", "m5"))
			f.holdsUntil(0, 4*time.Minute)
			f.Apply(sign.show...)
			f.holdsUntil(onepod.NodeGoneDelay, onepod.NodeGoneDelay+time.Minute)
			gone := f.NodeGone()
			if sign.say == "" {
				if gone != nil {
					t.Errorf("nodeGone is %+v while a Node of the name is there", gone)
				}
				return
			}
			if gone == nil || !strings.Contains(gone.SignOfLife, sign.say) {
				t.Errorf("nodeGone is %+v, want a liveness observation that says %q", gone, sign.say)
			}
		})
	}
}

func rebooted(node *corev1.Node) *corev1.Node {
	node.Status.NodeInfo.BootID = "m1-boot-2"
	return node
}

func TestAfterASignOfLifeTheWholeDelayRunsAgain(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), onepod.Lease("node", onepod.Now.Add(-time.Hour)))
	f.holdsUntil(0)
	f.Apply(onepod.Lease("node", onepod.Now.Add(time.Second)))
	f.holdsFrom(time.Minute, time.Minute+onepod.NodeGoneDelay)
	f.releasesAfter(time.Minute + onepod.NodeGoneDelay)
}

func TestWhatNobodyWatchedIsNotCounted(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.holdsFrom(0, 2*time.Minute)
	// Nobody looks for some minutes: a Node of the name may have come and gone.
	f.holdsFrom(onepod.NodeGoneDelay, 2*onepod.NodeGoneDelay)
	f.releasesAfter(2 * onepod.NodeGoneDelay)
}

// TestI2TheDelayDoesNotGrowWithTheNumberOfRecords: with many records the looks of one are far apart, and those of all are not.
func TestI2TheDelayDoesNotGrowWithTheNumberOfRecords(t *testing.T) {
	cases := map[string]struct {
		back  []client.Object
		holds bool
	}{
		"the looks of other records show no Node that is back":     {nil, false},
		"one of them shows a Node of the name":                     {[]client.Object{onepod.Node("node", "node-7", "m7")}, true},
		"one of them shows the machine under another name":         {[]client.Object{onepod.Node("other", "node-7", "m1")}, true},
		"one of them shows another machine under another name yet": {[]client.Object{onepod.Node("other", "node-7", "m7")}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
			f.holdsUntil(0)
			for d := time.Minute; d <= onepod.NodeGoneDelay; d += time.Minute {
				if d == 2*time.Minute {
					f.Apply(tc.back...)
				}
				f.Clock.SetTime(onepod.Now.Add(d))
				if _, err := f.r.options.NodesGone.Of(t.Context(), &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{NodeName: "elsewhere"}}, release.Absent[release.Node](), nil); err != nil {
					t.Fatal(err)
				}
				for _, node := range tc.back {
					if err := f.Truth.Delete(t.Context(), node); client.IgnoreNotFound(err) != nil {
						t.Fatal(err)
					}
				}
			}
			if tc.holds {
				f.holdsUntil(onepod.NodeGoneDelay)
				return
			}
			f.releasesAfter(onepod.NodeGoneDelay)
		})
	}
}

func TestAMachineThatRegistersElsewhereAtTheLastMomentIsSeen(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.holdsFrom(0, onepod.NodeGoneDelay)
	f.Apply(onepod.Node("other", "node-9", "m1"))
	f.holdsUntil(onepod.NodeGoneDelay)
}

func TestAnotherMachineUnderTheNameCountsLikeADeletedNode(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-2", "m2"), onepod.Lease("node", onepod.Now))
	f.holdsUntil(0)
	f.Apply(onepod.Lease("node", onepod.Now.Add(time.Minute))) // the new machine's own
	f.holdsFrom(time.Minute, onepod.NodeGoneDelay)
	f.releasesAfter(onepod.NodeGoneDelay)
}

func TestAReplacedMachineThatLivesUnderAnotherNameHolds(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-2", "m2"), onepod.Node("other", "node-9", "m1"))
	f.holdsUntil(0, onepod.NodeGoneDelay, time.Hour)
}

func TestWhatCannotBeReadIsNoAbsenceOfLife(t *testing.T) {
	for _, kind := range []string{"leases", "nodes"} {
		t.Run(kind, func(t *testing.T) {
			f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
			f.holdsFrom(0, onepod.NodeGoneDelay)
			f.FailReads = kind
			if err := f.after(onepod.NodeGoneDelay); err == nil || len(f.Pool.Released) > 0 {
				t.Errorf("released %v, error %v; expected an error and nothing released", f.Pool.Released, err)
			}
			f.FailReads = ""
			f.releasesAfter(onepod.NodeGoneDelay + time.Second)
		})
	}
}

func TestASandboxWhoseMachineNobodyRecordedIsHeld(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(nil))
	f.holdsUntil(0, onepod.NodeGoneDelay, time.Hour)
}

func TestHoldNeverTakesADeletedNodeForProof(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.r.options.Settings.HoldGoneNodes = true
	f.holdsUntil(0, onepod.NodeGoneDelay, time.Hour)
}

func TestAPodThatHoldsNothingLeavesADeadNodeToo(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod())
	f.Pool.Entries = nil
	for d := time.Duration(0); d < onepod.NodeGoneDelay; d += nodegone.Confirmed {
		if err := f.after(d); err != nil {
			t.Fatal(err)
		}
		if f.NodeGone() == nil {
			t.Fatalf("after %s nothing is written down that a restart could carry on from", d)
		}
	}
	if err := f.after(onepod.NodeGoneDelay); err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodList
	var records v1alpha1.IPAllocationList
	if err := errors.Join(f.Truth.List(t.Context(), &pods), f.Truth.List(t.Context(), &records)); err != nil || len(pods.Items)+len(records.Items) > 0 {
		t.Errorf("left: %d pods, %d records, %v", len(pods.Items), len(records.Items), err)
	}
}

func TestAReregisteredMachineTakesItsRecordsWithIt(t *testing.T) {
	pod := onepod.DeletedPod()
	pod.Status.Phase = corev1.PodRunning
	f := newWorld(t, pod, onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-2", "m1"))
	f.holdsUntil(0)
	var record v1alpha1.IPAllocation
	if err := f.Truth.Get(t.Context(), client.ObjectKey{Name: "old"}, &record); err != nil {
		t.Fatal(err)
	}
	if got := record.Spec.Sandboxes[0].Node.UID; got != "node-2" {
		t.Errorf("the record's Node UID is %s, want that of the new registration, node-2", got)
	}
}

// TestI1ACloneUnderTheNodesNameGivesNothingAway: the Node of the sandbox's machine was deleted, and what registered under its name has its machine
// ID and system UUID in another boot, as clones of one template have.
func TestI1ACloneUnderTheNodesNameGivesNothingAway(t *testing.T) {
	registered := func(name, uid string, at time.Time) *corev1.Node {
		node := onepod.Node(name, uid, "m1")
		node.CreationTimestamp, node.Status.NodeInfo.BootID = metav1.NewTime(at), uid+"-boot"
		return node
	}
	pod := onepod.FinishedPod()
	pod.CreationTimestamp = metav1.NewTime(onepod.Now.Add(-time.Hour))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(onepod.Now)}}}}
	record := onepod.RecordOfOld(onepod.OldMachine())
	record.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, ObservedTime: metav1.NewTime(onepod.Now),
		Node: &v1alpha1.NodeIdentity{UID: "node-2", MachineID: "m1", SystemUUID: "m1-system", BootID: "node-2-boot"}}
	f := newWorld(t, pod, record, registered("node", "node-2", onepod.Now), registered("node-b", "node-3", onepod.Now.Add(-time.Hour)))
	f.holdsUntil(0, onepod.NodeGoneDelay-time.Second, onepod.NodeGoneDelay+time.Second, time.Hour)
	if err := f.Truth.Delete(t.Context(), registered("node-b", "node-3", onepod.Now)); err != nil {
		t.Fatal(err)
	}
	f.releasesAfter(time.Hour + time.Minute)
}
