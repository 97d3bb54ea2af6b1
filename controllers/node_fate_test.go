// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/nodefate"
	"github.com/holdfast-dev/holdfast/controllers/owner"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const nodeGoneDelay = 5 * time.Minute

// fate is one deleted pod that holds an address, on a node whose fate the test plays.
type fate struct {
	*testing.T
	r     *PodReconciler
	pool  *onePool
	clock *clocktesting.FakePassiveClock
	truth client.WithWatch
	// failReads makes every live read of that kind fail, each time in other words.
	failReads string
	// failWrites makes every write of that name fail; writes has the names of those that did not, but for creations and updates.
	failWrites string
	writes     []string
	// judgedSince is from when on policies keep others from writing what a kubelet reports; zero where they are not in force.
	judgedSince time.Time
}

// write is called for each write of the reconciler.
func (f *fate) write(name string) error {
	if name == f.failWrites {
		return errors.New("the API server refuses it")
	}
	f.writes = append(f.writes, name)
	return nil
}

// recordingClient names and counts the writes of pods and records.
func (f *fate) recordingClient() client.Client {
	kind := func(o client.Object) string { return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o), "*")) }
	return interceptor.NewClient(f.truth, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if f.failWrites == "create "+kind(o) {
				return errors.New("the API server refuses it")
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if f.failWrites == "update "+kind(o) {
				return errors.New("the API server refuses it")
			}
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := f.write("delete " + kind(o)); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := f.write("patch " + kind(o)); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := f.write("patch " + kind(o) + "/" + sub); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		}})
}

func nodeObject(name, uid, machine string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid),
		CreationTimestamp: metav1.NewTime(lateNow.Add(-30 * time.Minute))}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{MachineID: machine, SystemUUID: machine + "-system", BootID: machine + "-boot"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

func lease(name string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
		Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: renewed}}}
}

// deletedPod was deleted long ago and ended by PodGC, which proves nothing.
func deletedPod() *corev1.Pod {
	pod := namesake("old", "10.0.0.5")
	pod.DeletionTimestamp = &metav1.Time{Time: lateNow.Add(-time.Hour)}
	pod.Status.Phase = corev1.PodFailed
	return pod
}

func heldByOld() []ipam.Entry {
	return []ipam.Entry{{Key: ipam.Key{Backend: "whereabouts", Pool: "kube-system/pool", IP: netip.MustParseAddr("10.0.0.5"),
		SandboxID: "old-sandbox", PodRef: "default/web-1", Interface: "net1"},
		Owner: &ipam.PodRef{Namespace: "default", Name: "web-1"}, PoolResourceVersion: "100"}}
}

func recordOfOld(node *v1alpha1.NodeIdentity) *v1alpha1.IPAllocation {
	return &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: v1alpha1.IPAllocationSpec{
		PodNamespace: "default", PodName: "web-1", NodeName: "node",
		Sandboxes: []v1alpha1.SandboxRecord{{ID: "old-sandbox", Node: node, Attribution: v1alpha1.AttributionNetworkStatus,
			ObservedTime: metav1.NewTime(lateNow.Add(-2 * time.Hour))}},
		Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/pool", IP: "10.0.0.5", Interface: "net1",
			PodRef: "default/web-1", SandboxID: "old-sandbox", PoolResourceVersion: "100", ObservedTime: metav1.NewTime(lateNow.Add(-2 * time.Hour))}}}}
}

func oldMachine() *v1alpha1.NodeIdentity {
	return &v1alpha1.NodeIdentity{UID: "node-1", MachineID: "m1", SystemUUID: "m1-system", BootID: "m1-boot"}
}

func newFate(t *testing.T, objects ...client.Object) *fate {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fate{T: t, pool: &onePool{entries: heldByOld()}, clock: clocktesting.NewFakePassiveClock(lateNow)}
	f.truth = indexed(fake.NewClientBuilder().WithScheme(scheme)).WithObjects(objects...).WithReturnManagedFields().
		WithStatusSubresource(&v1alpha1.IPAllocation{}).Build()
	live := interceptor.NewClient(f.truth, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			_, isLease := into.(*coordinationv1.Lease)
			_, isPod := into.(*corev1.Pod)
			_, isNode := into.(*corev1.Node)
			if (isLease && f.failReads == "leases") || (isPod && f.failReads == "pods") || (isNode && f.failReads == "node") {
				return fmt.Errorf("the API server is away at %s", f.clock.Now())
			}
			return c.Get(ctx, key, into, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if _, isNodes := into.(*corev1.NodeList); isNodes && f.failReads == "nodes" {
				return errors.New("the API server is away")
			}
			return c.List(ctx, into, opts...)
		}})
	o := Options{Backends: []ipam.Backend{f.pool}, Evidence: release.EvidenceKubelet, Settings: release.Settings{
		ReleaseDelay: 3 * time.Minute, SandboxCreationMax: 10 * time.Minute, NodeGoneDelay: nodeGoneDelay}}
	f.judgedSince = lateNow.Add(-24 * time.Hour)
	o.PoliciesSince = func(context.Context) (time.Time, error) { return f.judgedSince, nil }
	writer := f.recordingClient()
	seen := witness.New(f.clock)
	shared := &core{client: writer, live: live, finalizers: finalizer.Client{Writer: writer, Reader: live}, backends: o.Backends,
		witness: seen, owners: owner.Cache{Reader: writer, Witness: seen}, recorder: events.NewFakeRecorder(100), clock: f.clock, options: o,
		fates: nodefate.New(live, f.clock, nodeGoneDelay, o.PoliciesSince)}
	f.r = &PodReconciler{core: shared, held: newHeldPods(), settled: newSettledPods(), flights: newFlights(shared)}
	return f
}

// after moves the clock to that long after the beginning and reconciles, again where a pass waits for the cache of its own
// write, which has it at once here.
func (f *fate) after(d time.Duration) error {
	f.clock.SetTime(lateNow.Add(d))
	for {
		result, err := f.r.Reconcile(f.Context(), "old")
		if err != nil || result.RequeueAfter != recordsCatchUp {
			return err
		}
	}
}

func (f *fate) holdsUntil(times ...time.Duration) {
	f.Helper()
	for _, d := range times {
		if err := f.after(d); err != nil {
			f.Fatalf("after %s: %v", d, err)
		}
		if len(f.pool.released) > 0 {
			f.Fatalf("released after %s, expected it to be held", d)
		}
	}
}

// holdsFrom looks as often as the reconciler asks to be woken, from one moment until just before another.
func (f *fate) holdsFrom(from, to time.Duration) {
	f.Helper()
	for d := from; d < to; d += nodefate.Confirmed {
		f.holdsUntil(d)
	}
	f.holdsUntil(to - time.Second)
}

func (f *fate) releasesAfter(d time.Duration) {
	f.Helper()
	if err := f.after(d); err != nil {
		f.Fatalf("after %s: %v", d, err)
	}
	if len(f.pool.released) == 0 {
		f.Fatalf("still held after %s", d)
	}
	var pod corev1.Pod
	if err := f.truth.Get(f.Context(), client.ObjectKey{Namespace: "default", Name: "web-1"}, &pod); !apierrors.IsNotFound(err) {
		f.Fatalf("the pod is still there: %v, %v", pod.Finalizers, err)
	}
}

func (f *fate) apply(objects ...client.Object) {
	f.Helper()
	for _, o := range objects {
		key := client.ObjectKeyFromObject(o)
		existing := o.DeepCopyObject().(client.Object)
		if err := f.truth.Get(f.Context(), key, existing); err == nil {
			if err := f.truth.Delete(f.Context(), existing); err != nil {
				f.Fatal(err)
			}
		}
		o.SetResourceVersion("")
		if err := f.truth.Create(f.Context(), o); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *fate) nodeGone() *v1alpha1.NodeGone {
	f.Helper()
	var record v1alpha1.IPAllocation
	if err := f.truth.Get(f.Context(), client.ObjectKey{Name: "old"}, &record); err != nil {
		f.Fatal(err)
	}
	return record.Spec.NodeGone
}

func TestADeletedNodeCountsAfterAPersistedDelay(t *testing.T) {
	f := newFate(t, deletedPod(), recordOfOld(oldMachine()), lease("node", lateNow.Add(-time.Hour)))
	f.holdsFrom(0, nodeGoneDelay)
	f.r.fates = nodefate.New(f.r.live, f.clock, nodeGoneDelay, f.r.options.PoliciesSince) // another process carries on
	f.releasesAfter(nodeGoneDelay)
}

func TestAnySignOfLifeStartsTheDelayAgain(t *testing.T) {
	signs := map[string]struct {
		show []client.Object
		say  string
	}{
		"the kubelet renews the node's Lease":              {[]client.Object{lease("node", lateNow.Add(4*time.Minute))}, "renewed the node's Lease"},
		"the kubelet's clock is far behind":                {[]client.Object{lease("node", lateNow.Add(-100*time.Hour))}, "renewed the node's Lease"},
		"the machine comes back under another name":        {[]client.Object{nodeObject("other", "node-9", "m1")}, "registered as node other"},
		"the machine registers again under the same name":  {[]client.Object{nodeObject("node", "node-2", "m1")}, ""},
		"the machine boots and registers under its name":   {[]client.Object{rebooted(nodeObject("node", "node-2", "m1"))}, ""},
		"the old Node object turns out to be there at all": {[]client.Object{nodeObject("node", "node-1", "m1")}, ""},
	}
	for name, sign := range signs {
		t.Run(name, func(t *testing.T) {
			f := newFate(t, deletedPod(), recordOfOld(oldMachine()), lease("node", lateNow.Add(-time.Hour)), nodeObject("bystander", "node-5", "m5"))
			f.holdsUntil(0, 4*time.Minute)
			f.apply(sign.show...)
			f.holdsUntil(nodeGoneDelay, nodeGoneDelay+time.Minute)
			gone := f.nodeGone()
			if sign.say == "" {
				if gone != nil {
					t.Errorf("nodeGone is %+v while a Node of the name is there", gone)
				}
				return
			}
			if gone == nil || !strings.Contains(gone.SignOfLife, sign.say) {
				t.Errorf("nodeGone is %+v, want a sign of life that says %q", gone, sign.say)
			}
		})
	}
}

func rebooted(node *corev1.Node) *corev1.Node {
	node.Status.NodeInfo.BootID = "m1-boot-2"
	return node
}

func TestAfterASignOfLifeTheWholeDelayRunsAgain(t *testing.T) {
	f := newFate(t, deletedPod(), recordOfOld(oldMachine()), lease("node", lateNow.Add(-time.Hour)))
	f.holdsUntil(0)
	f.apply(lease("node", lateNow.Add(time.Second)))
	f.holdsFrom(time.Minute, time.Minute+nodeGoneDelay)
	f.releasesAfter(time.Minute + nodeGoneDelay)
}

func TestWhatNobodyWatchedIsNotCounted(t *testing.T) {
	f := newFate(t, deletedPod(), recordOfOld(oldMachine()))
	f.holdsFrom(0, 2*time.Minute)
	// Nobody looks for some minutes: a Node of the name may have come and gone.
	f.holdsFrom(nodeGoneDelay, 2*nodeGoneDelay)
	f.releasesAfter(2 * nodeGoneDelay)
}

// TestI2TheDelayDoesNotGrowWithTheNumberOfRecords: with many records the looks of one are far apart, and those of all are not.
func TestI2TheDelayDoesNotGrowWithTheNumberOfRecords(t *testing.T) {
	cases := map[string]struct {
		back  []client.Object
		holds bool
	}{
		"the looks of other records show no Node that is back":     {nil, false},
		"one of them shows a Node of the name":                     {[]client.Object{nodeObject("node", "node-7", "m7")}, true},
		"one of them shows the machine under another name":         {[]client.Object{nodeObject("other", "node-7", "m1")}, true},
		"one of them shows another machine under another name yet": {[]client.Object{nodeObject("other", "node-7", "m7")}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFate(t, deletedPod(), recordOfOld(oldMachine()))
			f.holdsUntil(0)
			for d := time.Minute; d <= nodeGoneDelay; d += time.Minute {
				if d == 2*time.Minute {
					f.apply(tc.back...)
				}
				f.clock.SetTime(lateNow.Add(d))
				if _, err := f.r.fates.Of(t.Context(), &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{NodeName: "elsewhere"}}, release.Absent[release.Node](), nil); err != nil {
					t.Fatal(err)
				}
				for _, node := range tc.back {
					if err := f.truth.Delete(t.Context(), node); client.IgnoreNotFound(err) != nil {
						t.Fatal(err)
					}
				}
			}
			if tc.holds {
				f.holdsUntil(nodeGoneDelay)
				return
			}
			f.releasesAfter(nodeGoneDelay)
		})
	}
}

func TestAMachineThatRegistersElsewhereAtTheLastMomentIsSeen(t *testing.T) {
	f := newFate(t, deletedPod(), recordOfOld(oldMachine()))
	f.holdsFrom(0, nodeGoneDelay)
	f.apply(nodeObject("other", "node-9", "m1"))
	f.holdsUntil(nodeGoneDelay)
}

func TestAnotherMachineUnderTheNameCountsLikeADeletedNode(t *testing.T) {
	f := newFate(t, deletedPod(), recordOfOld(oldMachine()), nodeObject("node", "node-2", "m2"), lease("node", lateNow))
	f.holdsUntil(0)
	f.apply(lease("node", lateNow.Add(time.Minute))) // the new machine's own
	f.holdsFrom(time.Minute, nodeGoneDelay)
	f.releasesAfter(nodeGoneDelay)
}

func TestAReplacedMachineThatLivesUnderAnotherNameHolds(t *testing.T) {
	f := newFate(t, deletedPod(), recordOfOld(oldMachine()), nodeObject("node", "node-2", "m2"), nodeObject("other", "node-9", "m1"))
	f.holdsUntil(0, nodeGoneDelay, time.Hour)
}

func TestWhatCannotBeReadIsNoAbsenceOfLife(t *testing.T) {
	for _, kind := range []string{"leases", "nodes"} {
		t.Run(kind, func(t *testing.T) {
			f := newFate(t, deletedPod(), recordOfOld(oldMachine()))
			f.holdsFrom(0, nodeGoneDelay)
			f.failReads = kind
			if err := f.after(nodeGoneDelay); err == nil || len(f.pool.released) > 0 {
				t.Errorf("released %v, error %v; expected an error and nothing released", f.pool.released, err)
			}
			f.failReads = ""
			f.releasesAfter(nodeGoneDelay + time.Second)
		})
	}
}

func TestASandboxWhoseMachineNobodyRecordedIsHeld(t *testing.T) {
	f := newFate(t, deletedPod(), recordOfOld(nil))
	f.holdsUntil(0, nodeGoneDelay, time.Hour)
}

func TestHoldNeverTakesADeletedNodeForProof(t *testing.T) {
	f := newFate(t, deletedPod(), recordOfOld(oldMachine()))
	f.r.options.Settings.HoldGoneNodes = true
	f.holdsUntil(0, nodeGoneDelay, time.Hour)
}

func TestAPodThatHoldsNothingLeavesADeadNodeToo(t *testing.T) {
	f := newFate(t, deletedPod())
	f.pool.entries = nil
	for d := time.Duration(0); d < nodeGoneDelay; d += nodefate.Confirmed {
		if err := f.after(d); err != nil {
			t.Fatal(err)
		}
		if f.nodeGone() == nil {
			t.Fatalf("after %s nothing is written down that a restart could carry on from", d)
		}
	}
	if err := f.after(nodeGoneDelay); err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodList
	var records v1alpha1.IPAllocationList
	if err := errors.Join(f.truth.List(t.Context(), &pods), f.truth.List(t.Context(), &records)); err != nil || len(pods.Items)+len(records.Items) > 0 {
		t.Errorf("left: %d pods, %d records, %v", len(pods.Items), len(records.Items), err)
	}
}

func TestAReregisteredMachineTakesItsRecordsWithIt(t *testing.T) {
	pod := deletedPod()
	pod.Status.Phase = corev1.PodRunning
	f := newFate(t, pod, recordOfOld(oldMachine()), nodeObject("node", "node-2", "m1"))
	f.holdsUntil(0)
	var record v1alpha1.IPAllocation
	if err := f.truth.Get(t.Context(), client.ObjectKey{Name: "old"}, &record); err != nil {
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
		node := nodeObject(name, uid, "m1")
		node.CreationTimestamp, node.Status.NodeInfo.BootID = metav1.NewTime(at), uid+"-boot"
		return node
	}
	pod := finishedNamesake()
	pod.CreationTimestamp = metav1.NewTime(lateNow.Add(-time.Hour))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(lateNow)}}}}
	record := recordOfOld(oldMachine())
	record.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, ObservedTime: metav1.NewTime(lateNow),
		Node: &v1alpha1.NodeIdentity{UID: "node-2", MachineID: "m1", SystemUUID: "m1-system", BootID: "node-2-boot"}}
	f := newFate(t, pod, record, registered("node", "node-2", lateNow), registered("node-b", "node-3", lateNow.Add(-time.Hour)))
	f.holdsUntil(0, nodeGoneDelay-time.Second, nodeGoneDelay+time.Second, time.Hour)
	if err := f.truth.Delete(t.Context(), registered("node-b", "node-3", lateNow)); err != nil {
		t.Fatal(err)
	}
	f.releasesAfter(time.Hour + time.Minute)
}
