// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

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

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/owner"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// onePool is a backend with a list of entries; only in a unit test can the pods' cache be late to order.
type onePool struct {
	entries  []ipam.Entry
	released []ipam.Request
	// onLive is called before each live read.
	onLive func()
	// late are the entries that the cache still has, where those are others.
	late []ipam.Entry
	// cached is the version of the pool in the cache, and version that in the API server; "100" where they are empty.
	cached, version string
	// removed are the entries that were seen to go.
	removed []ipam.Removed
	// refuses makes every tombstone fail.
	refuses bool
}

func (p *onePool) Name() string                                 { return "whereabouts" }
func (p *onePool) PoolReference(string) *corev1.ObjectReference { return &corev1.ObjectReference{} }
func (p *onePool) Manages(podnetwork.IPAM) bool                 { return true }
func (p *onePool) Setup(context.Context, manager.Manager) error { return nil }
func (p *onePool) Subscribe(func(ipam.Event))                   {}
func (p *onePool) HasSynced() bool                              { return true }
func (p *onePool) Find(ipam.Query) ipam.Snapshot {
	s := p.All()
	if p.late != nil {
		s.Entries = p.late
	}
	return s
}

func (p *onePool) Live(context.Context, ipam.Query) (ipam.Snapshot, error) {
	if p.onLive != nil {
		p.onLive()
	}
	s := p.All()
	for i := range s.Entries {
		s.Entries[i].SeenSince, s.Entries[i].AddObserved = time.Time{}, false
	}
	return s, nil
}

func (p *onePool) Versions(context.Context, []string) (map[string]string, error) {
	return map[string]string{"kube-system/pool": cmp.Or(p.version, "100")}, nil
}

func (p *onePool) All() ipam.Snapshot {
	return ipam.Snapshot{Entries: append([]ipam.Entry(nil), p.entries...), Removed: p.removed, PoolVersions: map[string]string{"kube-system/pool": cmp.Or(p.cached, "100")}}
}

func (p *onePool) Rewrite(context.Context, []ipam.Rewrite) []ipam.Rewritten { panic("not expected") }
func (p *onePool) Tombstone(_ context.Context, requests []ipam.Request) []ipam.Result {
	results := make([]ipam.Result, len(requests))
	for n, request := range requests {
		if results[n].Request = request; p.refuses {
			results[n].Err = errors.New("the API server refuses it")
			continue
		}
		tombstoned := ipam.Entry{Key: request.Key, Releasing: request.Record, PoolResourceVersion: "100"}
		tombstoned.PodRef = v1alpha1.TombstonePrefix + "/" + request.Record
		switch at := slices.IndexFunc(p.entries, func(e ipam.Entry) bool { return e.IP == request.IP }); {
		case at < 0:
			p.entries = append(p.entries, tombstoned)
		case p.entries[at].Key != request.Key:
			results[n].Err = ipam.ErrChanged
		default:
			p.entries[at] = tombstoned
		}
	}
	return results
}

func (p *onePool) Release(_ context.Context, requests []ipam.Request) []ipam.Result {
	p.released = append(p.released, requests...)
	p.entries = nil
	results := make([]ipam.Result, len(requests))
	for i := range requests {
		results[i].Request = requests[i]
	}
	return results
}

var lateNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func namesake(uid, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1", UID: types.UID(uid), Finalizers: []string{v1alpha1.Finalizer},
			Labels:      map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
			Annotations: map[string]string{nadv1.NetworkStatusAnnot: `[{"name":"default/net","interface":"net1","ips":["` + ip + `"]}]`}},
		Spec: corev1.PodSpec{NodeName: "node"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

// finishedNamesake is a pod as a late cache still shows it: ended by its kubelet, held by us. In truth it is gone.
func finishedNamesake() *corev1.Pod {
	pod := namesake("old", "10.0.0.5")
	pod.DeletionTimestamp = &metav1.Time{Time: lateNow.Add(-time.Minute)}
	pod.Status.Phase = corev1.PodSucceeded
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status", Time: &metav1.Time{Time: lateNow},
		Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
	return pod
}

// TestI3ALateCacheGivesNothingToADeadNamesake: the pool's watch shows the ADD of a StatefulSet's next pod before the pods' watch
// shows that the last one of the name is gone.
func TestI3ALateCacheGivesNothingToADeadNamesake(t *testing.T) {
	for name, ip := range map[string]string{"the successor has the same address": "10.0.0.5", "the successor has another address": "10.0.0.6"} {
		t.Run(name, func(t *testing.T) {
			pool := &onePool{entries: []ipam.Entry{{
				Key: ipam.Key{Backend: "whereabouts", Pool: "kube-system/pool", IP: netip.MustParseAddr(ip), SandboxID: "new-sandbox",
					PodRef: "default/web-1", Interface: "net1"},
				Owner: &ipam.PodRef{Namespace: "default", Name: "web-1"}, PoolResourceVersion: "100", SeenSince: lateNow, AddObserved: true}}}
			r, clock, catchUp := lateReconciler(t, pool, finishedNamesake(), namesake("new", ip))
			for _, later := range []time.Duration{0, time.Hour} {
				clock.SetTime(lateNow.Add(later))
				if _, err := r.Reconcile(t.Context(), "old"); err != nil {
					t.Errorf("after %s: %v", later, err)
				}
				catchUp()
			}
			if len(pool.released) > 0 {
				t.Errorf("the address of a running pod was released for its dead namesake: %v", pool.released)
			}
			var records v1alpha1.IPAllocationList
			if err := r.live.List(t.Context(), &records, &client.ListOptions{}); err != nil || len(records.Items) > 0 {
				t.Errorf("the dead namesake was given a record: %v, %v", records.Items, err)
			}
		})
	}
}

// lateReconciler is a PodReconciler whose cache shows one pod while the API server has another, until catchUp.
func lateReconciler(t *testing.T, pool *onePool, cachedPod, livePod *corev1.Pod) (*PodReconciler, *clocktesting.FakePassiveClock, func()) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "node"}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{MachineID: "machine", SystemUUID: "system", BootID: "boot"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	truth := indexed(fake.NewClientBuilder().WithScheme(scheme)).WithObjects(livePod, node).Build()
	late := true
	cached := interceptor.NewClient(truth, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if pod, ok := into.(*corev1.Pod); ok && late {
				cachedPod.DeepCopyInto(pod)
				return nil
			}
			return c.Get(ctx, key, into, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if pods, ok := into.(*corev1.PodList); ok && late {
				pods.Items = []corev1.Pod{*cachedPod}
				return nil
			}
			return c.List(ctx, into, opts...)
		}})
	clock := clocktesting.NewFakePassiveClock(lateNow.Add(-time.Second))
	watched := witness.New(clock)
	running := cachedPod.DeepCopy()
	running.Status.Phase = corev1.PodRunning
	watched.Handler().OnAdd(running, false)
	o := Options{Backends: []ipam.Backend{pool}, Evidence: release.EvidenceKubelet, Settings: release.Settings{
		ReleaseDelay: 3 * time.Minute, SandboxCreationMax: 10 * time.Minute, NodeGoneDelay: 5 * time.Minute}}
	shared := &core{client: cached, live: truth, finalizers: finalizer.Client{Writer: cached, Reader: truth}, backends: o.Backends,
		witness: watched, owners: owner.Cache{Reader: cached, Witness: watched}, recorder: events.NewFakeRecorder(100), clock: clock, options: o}
	return &PodReconciler{core: shared, held: newHeldPods(), settled: newSettledPods(), flights: newFlights(shared)}, clock, func() { late = false }
}

// indexed looks objects up as the manager's cache does.
func indexed(b *fake.ClientBuilder) *fake.ClientBuilder {
	for _, i := range index.All {
		b.WithIndex(i.Object, i.Field, i.Keys)
	}
	return b
}
