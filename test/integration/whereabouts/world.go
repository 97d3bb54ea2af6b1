// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	backend "github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	poolName  = "10.0.0.0-24"
	poolRange = "10.0.0.0/24"
	record    = "0f3c-uid"
)

type allocations = map[string]wb.IPAllocation

// world is a namespace that whereabouts uses, and what a spec needs to look at it.
type world struct{ namespace string }

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "whereabouts-"}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	return &world{namespace: namespace.Name}
}

// running is a backend in a manager of its own.
type running struct {
	*backend.Backend
	network *network
}

// start runs a backend until the spec ends, and waits for its first list.
func (w *world) start(ctx context.Context, n *network) *running {
	GinkgoHelper()
	r := w.launch(ctx, n)
	Eventually(r.HasSynced).Should(BeTrue())
	return r
}

// launch is start without the wait.
func (w *world) launch(ctx context.Context, n *network) *running {
	GinkgoHelper()
	r := &running{network: n, Backend: backend.New(backend.Options{Namespaces: []string{w.namespace}, Log: GinkgoLogr, CRDInterval: crdInterval})}
	fixture.RunManager(ctx, func(context.Context) (manager.Manager, error) {
		mgr, err := manager.New(n.config(), manager.Options{Scheme: runtime.NewScheme(), Logger: GinkgoLogr, Metrics: metricsserver.Options{BindAddress: "0"}})
		if err != nil {
			return nil, err
		}
		return mgr, r.Setup(ctx, mgr)
	})
	return r
}

// release releases one entry.
func (r *running) release(ctx context.Context, key ipam.Key) error {
	GinkgoHelper()
	results := r.Release(ctx, []ipam.Request{{Key: key, Record: record}})
	Expect(results).To(HaveLen(1))
	return results[0].Err
}

func (w *world) createPool(ctx context.Context, name, rangeText string, held allocations) *wb.IPPool {
	GinkgoHelper()
	pool := &wb.IPPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       wb.IPPoolSpec{Range: rangeText, Allocations: held},
	}
	if held == nil {
		pool.Spec.Allocations = allocations{}
	}
	Expect(admin.Create(ctx, pool)).To(Succeed())
	return pool
}

// change edits a pool as another client would.
func (w *world) change(ctx context.Context, name string, edit func(*wb.IPPool)) *wb.IPPool {
	GinkgoHelper()
	pool := &wb.IPPool{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, pool)).To(Succeed())
	edit(pool)
	Expect(admin.Update(ctx, pool)).To(Succeed())
	return pool
}

// held is what a pool holds now.
func (w *world) held(ctx context.Context, name string) allocations {
	GinkgoHelper()
	pool := &wb.IPPool{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, pool)).To(Succeed())
	return pool.Spec.Allocations
}

func (w *world) reserve(ctx context.Context, name, podRef, iface string) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &wb.OverlappingRangeIPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       wb.OverlappingRangeIPReservationSpec{PodRef: podRef, IfName: iface},
	})).To(Succeed())
}

// reserved are the names of the reservations that stand now.
func (w *world) reserved(ctx context.Context) []string {
	GinkgoHelper()
	list := &wb.OverlappingRangeIPReservationList{}
	Expect(admin.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
	names := []string{}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// reservedFor is the podref of a reservation.
func (w *world) reservedFor(ctx context.Context, name string) string {
	GinkgoHelper()
	r := &wb.OverlappingRangeIPReservation{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, r)).To(Succeed())
	return r.Spec.PodRef
}

// key is that of web-0's entry at 10.0.0.1, unless changed.
func (w *world) key(change ...func(*ipam.Key)) ipam.Key {
	key := ipam.Key{
		Backend: backend.Name, Pool: w.namespace + "/" + poolName, IP: netip.MustParseAddr("10.0.0.1"),
		SandboxID: "sb-1", PodRef: "ns/web-0", Interface: "net1",
	}
	for _, c := range change {
		c(&key)
	}
	return key
}

// web is web-0's entry, as whereabouts records it.
func web() wb.IPAllocation {
	return wb.IPAllocation{ContainerID: "sb-1", PodRef: "ns/web-0", IfName: "net1"}
}

// other is an entry that no request names.
func other() wb.IPAllocation {
	return wb.IPAllocation{ContainerID: "sb-9", PodRef: "ns/other", IfName: "net1"}
}

// marked is an entry with the record's tombstone.
func marked(a wb.IPAllocation) wb.IPAllocation {
	a.PodRef = "holdfast-releasing/" + record
	return a
}
