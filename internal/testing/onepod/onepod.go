// SPDX-License-Identifier: Apache-2.0

// Package onepod is a world with one pod, the node that it is on and the pool that its address is from, for the tests of controllers.
package onepod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// NodeGoneDelay is how long a Node has to be deleted.
const NodeGoneDelay = 5 * time.Minute

// Settings are the delays.
var Settings = release.Settings{ReleaseDelay: 3 * time.Minute, SandboxCreationMax: 10 * time.Minute, NodeGoneDelay: NodeGoneDelay}

// World is one deleted pod that holds an address, on a node with a lifecycle that the test plays.
type World struct {
	*testing.T
	Pool  *Pool
	Clock *clocktesting.FakePassiveClock
	Truth client.WithWatch
	// Live reads it, and Client reads and writes it.
	Live, Client client.Client
	Recorder     *events.FakeRecorder
	// FailReads makes every live read of that kind fail, each time with another error.
	FailReads string
	// FailWrites makes every write of that name fail; Writes has the names of those that did not, but for creations and updates.
	FailWrites string
	Writes     []string
	// JudgedSince is from when on policies keep others from writing what a kubelet reports; zero where they are not in force.
	JudgedSince time.Time
	// Successor is the only other sandbox of the pod that agents report as not gone.
	Successor string
	// wanted are the queries that passes want, and queried the Node UIDs about which they are.
	wanted  Wanted
	queried []types.UID
}

// After moves the clock to that long after the beginning and reconciles the pod, again where a pass waits for the cache of its own
// write, which has it at once here. The queries that it wants are written then.
func (f *World) After(d time.Duration, look func(context.Context, types.UID) (reconcile.Result, error)) error {
	f.Clock.SetTime(Now.Add(d))
	defer f.WriteQueries()
	for {
		result, err := look(f.Context(), "old")
		if err != nil || (result.RequeueAfter != backoff.CatchUp && result.RequeueAfter != backoff.EventOverdue) {
			return err
		}
	}
}

// Record is that of the pod.
func (f *World) Record() *v1alpha1.IPAllocation {
	f.Helper()
	record := &v1alpha1.IPAllocation{}
	if err := f.Truth.Get(f.Context(), client.ObjectKey{Name: "old"}, record); err != nil {
		f.Fatal(err)
	}
	return record
}

// write is called for each write of the reconciler.
func (f *World) write(name string) error {
	if name == f.FailWrites {
		return errors.New("the API server refuses it")
	}
	f.Writes = append(f.Writes, name)
	return nil
}

// count gives the AllNodesQuery the generation that an API server would give it.
func count(o client.Object) {
	if all, is := o.(*v1alpha1.AllNodesQuery); is {
		all.Generation++
	}
}

// recordingClient names and counts the writes of pods and records.
func (f *World) recordingClient() client.Client {
	kind := func(o client.Object) string { return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o), "*")) }
	return interceptor.NewClient(f.Truth, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if f.FailWrites == "create "+kind(o) {
				return errors.New("the API server refuses it")
			}
			count(o)
			o.SetCreationTimestamp(metav1.NewTime(f.Clock.Now()))
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if f.FailWrites == "update "+kind(o) {
				return errors.New("the API server refuses it")
			}
			count(o)
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

// Node is a Node whose machine has the same value for all its IDs.
func Node(name, uid, machine string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid),
		CreationTimestamp: metav1.NewTime(Now.Add(-30 * time.Minute))}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{MachineID: machine, SystemUUID: machine + "-system", BootID: machine + "-boot"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

// Lease is that of a kubelet.
func Lease(name string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
		Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: renewed}}}
}

// DeletedPod was deleted long ago and terminated by PodGC, which proves nothing.
func DeletedPod() *corev1.Pod {
	pod := PodOf("old", "10.0.0.5")
	pod.DeletionTimestamp = &metav1.Time{Time: Now.Add(-time.Hour)}
	pod.Status.Phase = corev1.PodFailed
	return pod
}

// HeldByOld is the entry of the pod.
func HeldByOld() []ipam.Entry {
	return []ipam.Entry{{Key: ipam.Key{Backend: "whereabouts", Pool: "kube-system/pool", IP: netip.MustParseAddr("10.0.0.5"),
		SandboxID: "old-sandbox", PodRef: "default/web-1", Interface: "net1"},
		Owner: &ipam.PodRef{Namespace: "default", Name: "web-1"}, PoolResourceVersion: "100"}}
}

// RecordOfOld is the record of the pod, on that machine; nil where it was not recorded.
func RecordOfOld(node *v1alpha1.NodeIdentity) *v1alpha1.IPAllocation {
	return &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: v1alpha1.IPAllocationSpec{
		PodNamespace: "default", PodName: "web-1", NodeName: "node",
		Sandboxes: []v1alpha1.SandboxRecord{{ID: "old-sandbox", Node: node, Attribution: v1alpha1.AttributionNetworkStatus,
			ObservedTime: metav1.NewTime(Now.Add(-2 * time.Hour))}},
		Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/pool", IP: "10.0.0.5", Interface: "net1",
			PodRef: "default/web-1", SandboxID: "old-sandbox", PoolResourceVersion: "100", ObservedTime: metav1.NewTime(Now.Add(-2 * time.Hour))}}}}
}

// OldMachine is the machine of the pod.
func OldMachine() *v1alpha1.NodeIdentity {
	return &v1alpha1.NodeIdentity{UID: "node-1", MachineID: "m1", SystemUUID: "m1-system", BootID: "m1-boot"}
}

// New is a world with those objects, in which the pool holds the pod's address.
func New(t *testing.T, objects ...client.Object) *World {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &World{T: t, Recorder: events.NewFakeRecorder(100), Pool: &Pool{Entries: HeldByOld()}, Clock: clocktesting.NewFakePassiveClock(Now)}
	f.Truth = Indexed(fake.NewClientBuilder().WithScheme(scheme)).WithObjects(objects...).WithReturnManagedFields().
		WithStatusSubresource(&v1alpha1.IPAllocation{}).Build()
	live := interceptor.NewClient(f.Truth, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if f.FailReads != "" && f.FailReads == kindsRead[reflect.TypeOf(into)] {
				return fmt.Errorf("the API server is away at %s", f.Clock.Now())
			}
			return c.Get(ctx, key, into, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if _, isNodes := into.(*corev1.NodeList); isNodes && f.FailReads == "nodes" {
				return errors.New("the API server is away")
			}
			return c.List(ctx, into, opts...)
		}})
	f.Live, f.Client = live, f.recordingClient()
	f.JudgedSince = Now.Add(-24 * time.Hour)
	return f
}

// kindsRead are the names of FailReads.
var kindsRead = map[reflect.Type]string{reflect.TypeFor[*coordinationv1.Lease](): "leases", reflect.TypeFor[*corev1.Pod](): "pods", reflect.TypeFor[*corev1.Node](): "node",
	reflect.TypeFor[*v1alpha1.GuardedNode](): "guardednodes"}

// PoliciesSince is JudgedSince.
func (f *World) PoliciesSince(context.Context) (time.Time, error) { return f.JudgedSince, nil }

// Apply makes objects anew.
func (f *World) Apply(objects ...client.Object) {
	f.Helper()
	for _, o := range objects {
		key := client.ObjectKeyFromObject(o)
		existing := o.DeepCopyObject().(client.Object)
		if err := f.Truth.Get(f.Context(), key, existing); err == nil {
			if err := f.Truth.Delete(f.Context(), existing); err != nil {
				f.Fatal(err)
			}
		}
		o.SetResourceVersion("")
		if err := f.Truth.Create(f.Context(), o); err != nil {
			f.Fatal(err)
		}
	}
}

// Addresses are the addresses in the records that there are, with the podref from before.
func (f *World) Addresses() map[string][]string {
	f.Helper()
	var records v1alpha1.IPAllocationList
	if err := f.Truth.List(f.Context(), &records); err != nil {
		f.Fatal(err)
	}
	all := map[string][]string{}
	for i := range records.Items {
		name := records.Items[i].Name
		all[name] = nil
		for _, a := range records.Items[i].Spec.Addresses {
			all[name] = append(all[name], a.IP+" "+a.PodRef)
		}
	}
	return all
}

// NodeIn is a Node in another boot.
func NodeIn(name, uid, hardware, boot string) *corev1.Node {
	n := Node(name, uid, hardware)
	n.Status.NodeInfo.BootID = boot
	return n
}

// Pool is the pool of a world.
type Pool = pool

// pool is a backend with a list of entries; only in a unit test can the pods' cache be late to order.
type pool struct {
	Entries  []ipam.Entry
	Released []ipam.Request
	// OnLive is called before each live read.
	OnLive func()
	// Late are the entries that the cache still has, where those are others.
	Late []ipam.Entry
	// Cached is the version of the pool in the cache, and Version that in the API server; "100" where they are empty.
	Cached, Version string
	// Removed are the entries that were seen to go.
	Removed []ipam.Removed
	// Tombstoned is for what a tombstone was asked for.
	Tombstoned []ipam.Request
	// Refuses makes every tombstone fail.
	Refuses bool
	// FailsRelease makes every release fail with it, and FailsVersions every read of versions.
	FailsRelease, FailsVersions error
}

func (p *pool) Name() string                                 { return "whereabouts" }
func (p *pool) PoolReference(string) *corev1.ObjectReference { return &corev1.ObjectReference{} }
func (p *pool) Manages(podnetwork.IPAM) bool                 { return true }
func (p *pool) Setup(context.Context, manager.Manager) error { return nil }
func (p *pool) Subscribe(func(ipam.Event))                   {}
func (p *pool) HasSynced() bool                              { return true }
func (p *pool) Find(ipam.Query) ipam.Snapshot {
	s := p.All()
	if p.Late != nil {
		s.Entries = p.Late
	}
	return s
}

func (p *pool) Live(context.Context, ipam.Query) (ipam.Snapshot, error) {
	if p.OnLive != nil {
		p.OnLive()
	}
	s := p.All()
	for i := range s.Entries {
		s.Entries[i].Seen = ipam.Seen{}
	}
	return s, nil
}

func (p *pool) Versions(context.Context, []string) (map[string]string, error) {
	return map[string]string{"kube-system/pool": cmp.Or(p.Version, "100")}, p.FailsVersions
}

func (p *pool) All() ipam.Snapshot {
	return ipam.Snapshot{Entries: append([]ipam.Entry(nil), p.Entries...), Removed: p.Removed, PoolVersions: map[string]string{"kube-system/pool": cmp.Or(p.Cached, "100")}}
}

func (p *pool) Rewrite(context.Context, []ipam.Rewrite) []ipam.Rewritten { panic("not expected") }
func (p *pool) Tombstone(_ context.Context, requests []ipam.Request) []ipam.Result {
	results := make([]ipam.Result, len(requests))
	p.Tombstoned = append(p.Tombstoned, requests...)
	for n, request := range requests {
		if results[n].Request = request; p.Refuses {
			results[n].Err = errors.New("the API server refuses it")
			continue
		}
		tombstoned := ipam.Entry{Key: request.Key, Releasing: request.Record, PoolResourceVersion: "100"}
		tombstoned.PodRef = v1alpha1.TombstonePrefix + "/" + request.Record
		switch at := slices.IndexFunc(p.Entries, func(e ipam.Entry) bool { return e.IP == request.IP }); {
		case at < 0:
			p.Entries = append(p.Entries, tombstoned)
		case p.Entries[at].Key != request.Key:
			results[n].Err = ipam.ErrChanged
		default:
			p.Entries[at] = tombstoned
		}
	}
	return results
}

func (p *pool) Release(_ context.Context, requests []ipam.Request) []ipam.Result {
	results := make([]ipam.Result, len(requests))
	for i := range requests {
		results[i] = ipam.Result{Request: requests[i], Err: p.FailsRelease}
	}
	if p.FailsRelease == nil {
		p.Released = append(p.Released, requests...)
		isReleased := func(e ipam.Entry) bool {
			return slices.ContainsFunc(requests, func(r ipam.Request) bool { return r.IP == e.IP && r.SandboxID == e.SandboxID })
		}
		p.Entries = slices.DeleteFunc(slices.Clone(p.Entries), isReleased)
	}
	return results
}

// Now is when it all begins.
var Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// PodOf is a pod of the one name.
func PodOf(uid, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1", UID: types.UID(uid), Finalizers: []string{v1alpha1.Finalizer},
			Labels:      map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
			Annotations: map[string]string{nadv1.NetworkStatusAnnot: `[{"name":"default/net","interface":"net1","ips":["` + ip + `"]}]`}},
		Spec: corev1.PodSpec{NodeName: "node"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

// FinishedPod is a pod as a late cache still shows it: terminated by its kubelet, held by us. In truth it is deleted.
func FinishedPod() *corev1.Pod {
	pod := PodOf("old", "10.0.0.5")
	pod.DeletionTimestamp = &metav1.Time{Time: Now.Add(-time.Minute)}
	pod.Status.Phase = corev1.PodSucceeded
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status", Time: &metav1.Time{Time: Now},
		Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
	return pod
}

// Indexed looks objects up as the manager's cache does.
func Indexed(b *fake.ClientBuilder) *fake.ClientBuilder {
	for _, i := range index.All {
		b.WithIndex(i.Object, i.Field, i.Keys)
	}
	return b
}
