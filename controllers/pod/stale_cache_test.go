// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// TestI3ALateCacheRecordsNothingForADeletedPodOfTheName: the watch of pools shows the ADD of a StatefulSet's next pod before the watch of
// pods shows that the last one of the name is deleted.
func TestI3ALateCacheRecordsNothingForADeletedPodOfTheName(t *testing.T) {
	for name, ip := range map[string]string{"the successor has the same address": "10.0.0.5", "the successor has another address": "10.0.0.6"} {
		t.Run(name, func(t *testing.T) {
			pool := &onepod.Pool{Entries: []ipam.Entry{{
				Key: ipam.Key{Backend: "whereabouts", Pool: "kube-system/pool", IP: netip.MustParseAddr(ip), SandboxID: "new-sandbox",
					PodRef: "default/web-1", Interface: "net1"},
				Owner: &ipam.PodRef{Namespace: "default", Name: "web-1"}, PoolResourceVersion: "100", Seen: ipam.Seen{SeenSince: onepod.Now, AddObserved: true}}}}
			r, clock, catchUp := lateReconciler(t, pool, onepod.FinishedPod(), onepod.PodOf("new", ip))
			for _, later := range []time.Duration{0, time.Hour} {
				clock.SetTime(onepod.Now.Add(later))
				if _, err := r.Reconcile(t.Context(), "old"); err != nil {
					t.Errorf("after %s: %v", later, err)
				}
				catchUp()
			}
			if len(pool.Released) > 0 {
				t.Errorf("the address of a running pod was released for a dead pod of its name: %v", pool.Released)
			}
			var records v1alpha1.IPAllocationList
			if err := r.live.List(t.Context(), &records, &client.ListOptions{}); err != nil || len(records.Items) > 0 {
				t.Errorf("the dead pod of its name was given a record: %v, %v", records.Items, err)
			}
		})
	}
}

// lateReconciler is a Reconciler whose cache shows one pod while the API server has another, until catchUp.
func lateReconciler(t *testing.T, pool *onepod.Pool, cachedPod, livePod *corev1.Pod) (*Reconciler, *clocktesting.FakePassiveClock, func()) {
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
	truth := onepod.Indexed(fake.NewClientBuilder().WithScheme(scheme)).WithObjects(livePod, node).Build()
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
	clock := clocktesting.NewFakePassiveClock(onepod.Now.Add(-time.Second))
	watched := witness.New(clock)
	running := cachedPod.DeepCopy()
	running.Status.Phase = corev1.PodRunning
	watched.Handler().OnAdd(running, false)
	o := Options{Backends: []ipam.Backend{pool}, Evidence: release.EvidenceKubelet, Settings: onepod.Settings, Witness: watched}
	return New(cached, truth, events.NewFakeRecorder(100), clock, o), clock, func() { late = false }
}

// TestARecordThatThisProcessHasJustCreatedIsNotCreatedAgain: a pass comes before the watch of records shows the record. Once its event is overdue, the
// API server is asked.
func TestARecordThatThisProcessHasJustCreatedIsNotCreatedAgain(t *testing.T) {
	pod := onepod.PodOf("new", "10.0.0.5")
	pool := &onepod.Pool{Cached: "100", Entries: []ipam.Entry{{
		Key: ipam.Key{Backend: "whereabouts", Pool: "kube-system/pool", IP: netip.MustParseAddr("10.0.0.5"), SandboxID: "a-sandbox",
			PodRef: "default/web-1", Interface: "net1"},
		Owner: &ipam.PodRef{Namespace: "default", Name: "web-1"}, PoolResourceVersion: "100", Seen: ipam.Seen{SeenSince: onepod.Now, AddObserved: true}}}}
	r, clock, _ := lateReconciler(t, pool, pod, pod)
	creations := 0
	r.client = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if _, isRecord := into.(*v1alpha1.IPAllocation); isRecord {
				return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("ipallocations").GroupResource(), key.Name)
			}
			return c.Get(ctx, key, into, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			creations++
			return c.Create(ctx, o, opts...)
		}})
	for i, want := range []struct {
		after     time.Duration
		creations int
	}{{0, 1}, {backoff.EventOverdue - 1, 1}, {backoff.EventOverdue, 2}} {
		clock.SetTime(onepod.Now.Add(want.after))
		result, err := r.Reconcile(t.Context(), "new")
		if err != nil || creations != want.creations {
			t.Errorf("after %s the record was created %d times, want %d; error %v", want.after, creations, want.creations, err)
		}
		if i == 1 && result.RequeueAfter == 0 {
			t.Error("nothing ends the wait for an event that was lost")
		}
	}
}
