// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/liveness"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// world is one deleted pod with an address, on a node whose lifecycle the test plays.
type world struct {
	*onepod.World
	r *Reconciler
	// absence is the absence by GuardedNodes; it begins at the first call of gone. goneUnread makes every call fail, and onGone is called after each.
	absence      nodelife.Absence
	goneUnread   error
	onGone       func()
	reachedSince time.Time
	// node and machines are the arguments of the last call.
	node     string
	machines []v1alpha1.NodeIdentity
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w, wanted := onepod.New(t, objects...), queries.NewWanted()
	w.Wants(wanted)
	f := &world{World: w, onGone: func() {}}
	f.r = New(w.Client, w.Live, w.Recorder, w.Clock, Options{Backends: []ipam.Backend{w.Pool}, Evidence: release.EvidenceKubelet, Settings: onepod.Settings, Queries: wanted,
		PoliciesSince: w.PoliciesSince, Witness: witness.New(w.Clock), Liveness: liveness.New(w.Live, w.Clock, w.PoliciesSince), Gone: f.gone, ReachedSince: func() time.Time { return f.reachedSince }})
	return f
}

// gone is in place of controllers/node.
func (f *world) gone(_ context.Context, node string, machines []v1alpha1.NodeIdentity) (nodelife.Absence, error) {
	f.node, f.machines = node, machines
	if f.absence.Since.IsZero() {
		f.absence.Since = f.Clock.Now()
	}
	defer f.onGone()
	return f.absence, f.goneUnread
}

// waitsFor checks the arguments of the last call.
func (f *world) waitsFor(node string, machines ...v1alpha1.NodeIdentity) {
	f.Helper()
	if f.node != node || !slices.Equal(f.machines, machines) {
		f.Errorf("asked for machines %v of node %q, want %v of %q", f.machines, f.node, machines, node)
	}
}

// after advances the clock to a time after the beginning and reconciles.
func (f *world) after(d time.Duration) error { return f.After(d, f.reconcile) }

// reconcile does so until the pod has had its turns.
func (f *world) reconcile(ctx context.Context, uid types.UID) (result reconcile.Result, err error) {
	for range maxPasses {
		if result, err = f.r.Reconcile(ctx, uid); err != nil || result.RequeueAfter != turnBegins {
			return result, err
		}
	}
	f.Fatal("the pod has one turn after the other")
	return result, err
}

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

// holdsFrom reconciles as often as the reconciler requires, from one time until just before another.
func (f *world) holdsFrom(from, to time.Duration) {
	f.Helper()
	for d := from; d < to; d += nodelife.LookInterval {
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

func TestADeletedNodeCountsAfterTheDelay(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.holdsFrom(0, onepod.NodeGoneDelay)
	f.waitsFor("node", *onepod.OldMachine())
	f.releasesAfter(onepod.NodeGoneDelay)
}

func TestADelayThatBeginsAgainIsSeenWithinAMinute(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.holdsFrom(0, onepod.NodeGoneDelay)
	if result, err := f.reconcile(t.Context(), "old"); err != nil || result.RequeueAfter > nodelife.LookInterval {
		t.Errorf("looked at again after %s (%v), want a minute at most", result.RequeueAfter, err)
	}
	f.absence = nodelife.Absence{Since: f.Clock.Now(), Liveness: "its kubelet has written"}
	f.holdsFrom(onepod.NodeGoneDelay, 2*onepod.NodeGoneDelay-time.Second)
	if message := f.Record().Status.Conditions[0].Message; !strings.Contains(message, "but its kubelet has written") {
		t.Errorf("the record has %q, and not what restarted the delay", message)
	}
	f.releasesAfter(2 * onepod.NodeGoneDelay)
}

// TestR2ADelayThatEndsDuringThePassIsNotOver: it was not over at the time of the call, so that it is not confirmed.
func TestR2ADelayThatEndsDuringThePassIsNotOver(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.absence.Since = onepod.Now.Add(time.Second - onepod.NodeGoneDelay)
	f.onGone = func() { f.Clock.SetTime(onepod.Now.Add(time.Second)) }
	if err := f.After(0, f.r.Reconcile); err != nil || len(f.Pool.Released) > 0 {
		f.Fatalf("released %v, %v; expected it to be held", f.Pool.Released, err)
	}
	f.onGone = func() {}
	f.releasesAfter(time.Second)
}

func TestALiveNodeIsNotGone(t *testing.T) {
	nodes := map[string]*corev1.Node{
		"the machine registered again under the same name": onepod.Node("node", "node-2", "m1"),
		"the machine booted and registered under its name": rebooted(onepod.Node("node", "node-2", "m1")),
		"the Node object is the old one":                   onepod.Node("node", "node-1", "m1"),
	}
	for name, node := range nodes {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), node)
			f.absence.Since = onepod.Now.Add(-time.Hour)
			f.holdsUntil(0, onepod.NodeGoneDelay, onepod.NodeGoneDelay+time.Minute)
		})
	}
}

func rebooted(node *corev1.Node) *corev1.Node {
	node.Status.NodeInfo.BootID = "m1-boot-2"
	return node
}

func TestAnotherMachineUnderTheNameCountsLikeADeletedNode(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-2", "m2"))
	f.holdsFrom(0, onepod.NodeGoneDelay)
	f.waitsFor("node", *onepod.OldMachine())
	f.releasesAfter(onepod.NodeGoneDelay)
}

func TestAFailedReadIsNoAbsenceOfLife(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.holdsFrom(0, onepod.NodeGoneDelay)
	f.goneUnread = errors.New("the API server is away")
	if err := f.after(onepod.NodeGoneDelay); err == nil || len(f.Pool.Released) > 0 {
		t.Errorf("released %v, error %v; expected an error and nothing released", f.Pool.Released, err)
	}
	f.goneUnread = nil
	f.releasesAfter(onepod.NodeGoneDelay + time.Second)
}

func TestASandboxWithoutARecordedMachineIsHeld(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(nil))
	f.holdsUntil(0, onepod.NodeGoneDelay, time.Hour)
}

func TestWithHoldADeletedNodeIsNoProof(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.r.options.Settings.HoldGoneNodes = true
	f.holdsUntil(0, onepod.NodeGoneDelay, time.Hour)
}

func TestR12APodWithoutAMachineWaitsForTheNameOfItsNode(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod())
	f.Pool.Entries = nil
	f.holdsFrom(0, onepod.NodeGoneDelay)
	f.waitsFor("node")
	f.leavesNothingAfter(onepod.NodeGoneDelay)
}

// TestAPodWithEmptyPoolsWaitsForItsMachine: the live pass removes the machine from the record.
func TestAPodWithEmptyPoolsWaitsForItsMachine(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.Pool.Entries, f.Pool.Cached, f.Pool.Version = nil, "101", "101"
	f.holdsFrom(0, onepod.NodeGoneDelay)
	f.leavesNothingAfter(onepod.NodeGoneDelay)
	f.waitsFor("node", *onepod.OldMachine())
}

// leavesNothingAfter checks that neither the pod nor a record exists after the time, and that no record was created before.
func (f *world) leavesNothingAfter(d time.Duration) {
	f.Helper()
	if err := f.after(d); err != nil {
		f.Fatal(err)
	}
	var pods corev1.PodList
	var records v1alpha1.IPAllocationList
	if err := errors.Join(f.Truth.List(f.Context(), &pods), f.Truth.List(f.Context(), &records)); err != nil || len(pods.Items)+len(records.Items) > 0 {
		f.Errorf("left: %d pods, %d records, %v", len(pods.Items), len(records.Items), err)
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

// TestI1ACloneUnderTheNodesNameReleasesNothing: the Node of the sandbox's machine was deleted, and a clone with its machine ID and system
// UUID, in another boot, registered under its name.
func TestI1ACloneUnderTheNodesNameReleasesNothing(t *testing.T) {
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
