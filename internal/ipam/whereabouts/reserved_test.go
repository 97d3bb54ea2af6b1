// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

func reservationNamed(name, podRef string) *cachedReservation {
	return cachedReservationOf(&wb.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: wb.OverlappingRangeIPReservationSpec{PodRef: podRef, IfName: "net1"}})
}

func TestReservationsAreFoundByWhatTheyName(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	informers := &informertest.FakeInformers{Scheme: scheme}
	b := New(Options{})
	b.pools = informers
	var changed []string
	if b.ReservationsSynced() {
		t.Error("synced before anything is watched")
	}
	if err := b.WatchReservations(t.Context(), func(r ipam.Reservation) { changed = append(changed, r.Name+" "+r.PodRef) }); err != nil {
		t.Fatal(err)
	}
	if !b.ReservationsSynced() {
		t.Error("not synced after the first list")
	}
	informer, err := informers.FakeInformerFor(t.Context(), &wb.OverlappingRangeIPReservation{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(podRef, address string, names ...string) {
		t.Helper()
		var got []string
		for _, r := range b.CachedReservations([]string{podRef}, []netip.Addr{netip.MustParseAddr(address)}) {
			got = append(got, r.Name+" "+r.PodRef+" "+r.Interface)
		}
		if !slices.Equal(got, names) {
			t.Errorf("of %s and at %s: %q, want %q", podRef, address, got, names)
		}
	}
	first := reservationNamed("net-10.0.0.1", "ns/a")
	informer.Add(first)
	expect("ns/a", "10.0.0.1", "kube-system/net-10.0.0.1 ns/a net1")
	expect("ns/b", "10.0.0.1", "kube-system/net-10.0.0.1 ns/a net1")
	expect("ns/b", "10.0.0.2")
	given := reservationNamed("net-10.0.0.1", "ns/b")
	informer.Update(first, given)
	expect("ns/a", "10.0.0.2")
	expect("ns/b", "10.0.0.2", "kube-system/net-10.0.0.1 ns/b net1")
	informer.Add(reservationNamed("net-fd00--1", "ns/c"))
	expect("ns/c", "fd00::1", "kube-system/net-fd00--1 ns/c net1")
	informer.Delete(new(*given)) // a deletion comes with an object of its own
	expect("ns/b", "10.0.0.1")
	want := []string{"kube-system/net-10.0.0.1 ns/a", "kube-system/net-10.0.0.1 ns/a", "kube-system/net-10.0.0.1 ns/b", "kube-system/net-fd00--1 ns/c", "kube-system/net-10.0.0.1 ns/b"}
	if !slices.Equal(changed, want) {
		t.Errorf("changes %q, want %q", changed, want)
	}
}

// The reservations of the first list are found, and are no changes; one that a new list does not have any more is.
func TestTheFirstListOfReservationsIsNoChange(t *testing.T) {
	b := New(Options{})
	changes := 0
	handler := b.reservationHandler(func(ipam.Reservation) { changes++ })
	r := reservationNamed("10.0.0.1", "ns/a")
	handler.OnAdd(r, true)
	if got := b.CachedReservations([]string{"ns/a"}, nil); len(got) != 1 || changes != 0 {
		t.Errorf("%d reservations and %d changes, want one and none", len(got), changes)
	}
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "kube-system/10.0.0.1", Obj: r})
	if got := b.CachedReservations([]string{"ns/a"}, nil); len(got) != 0 || changes != 1 {
		t.Errorf("%d reservations and %d changes, want none and one", len(got), changes)
	}
}

// TestACachedReservationKeepsWhatAnAuditComparesAlone also reads it as an informer does.
func TestACachedReservationKeepsWhatAnAuditComparesAlone(t *testing.T) {
	whole := &wb.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "10.0.0.1", UID: "uid", ResourceVersion: "5"},
		Spec: wb.OverlappingRangeIPReservationSpec{PodRef: "ns/a", IfName: "net1"}}
	object, err := strip(whole)
	if err != nil {
		t.Fatal(err)
	}
	want := reservationOf(whole)
	want.UID = ""
	if got := object.(*cachedReservation).reservation(); got != want {
		t.Errorf("kept %+v, want %+v", got, want)
	}
	key, err := toolscache.MetaNamespaceKeyFunc(object)
	if err != nil || key != "kube-system/10.0.0.1" {
		t.Errorf("an informer has it under %q (%v)", key, err)
	}
	if m, err := meta.Accessor(object); err != nil || m.GetResourceVersion() != "5" {
		t.Errorf("an informer sees version %v (%v)", m, err)
	}
}

// TestAnInformerKeepsReservations: client-go's informer works with the type that the transform returns.
func TestAnInformerKeepsReservations(t *testing.T) {
	whole := func(podRef, version string) *wb.OverlappingRangeIPReservation {
		return &wb.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "10.0.0.1", UID: "uid", ResourceVersion: version},
			Spec: wb.OverlappingRangeIPReservationSpec{PodRef: podRef, IfName: "net1"}}
	}
	watcher := watch.NewFake()
	informer := toolscache.NewSharedIndexInformer(toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &wb.OverlappingRangeIPReservationList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []wb.OverlappingRangeIPReservation{*whole("ns/a", "1")}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watcher, nil },
	}, listOnly{}), &wb.OverlappingRangeIPReservation{}, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	b, changes := New(Options{}), make(chan ipam.Reservation, 3)
	if err := informer.SetTransform(strip); err != nil {
		t.Fatal(err)
	}
	registration, err := informer.AddEventHandler(b.reservationHandler(func(r ipam.Reservation) { changes <- r }))
	if err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	if !toolscache.WaitForCacheSync(t.Context().Done(), registration.HasSynced) {
		t.Fatal("the informer did not sync")
	}
	expect := func(podRef, version string) {
		t.Helper()
		got := b.CachedReservations([]string{podRef}, nil)
		if want := (ipam.Reservation{Name: "kube-system/10.0.0.1", PodRef: podRef, Interface: "net1", ResourceVersion: version}); len(got) != 1 || got[0] != want {
			t.Errorf("of %s: %+v, want %+v alone", podRef, got, want)
		}
	}
	expect("ns/a", "1")
	watcher.Modify(whole("ns/b", "2"))
	if before, after := <-changes, <-changes; before.PodRef != "ns/a" || after.PodRef != "ns/b" {
		t.Errorf("changed from %+v to %+v", before, after)
	}
	expect("ns/b", "2")
	watcher.Delete(whole("ns/b", "3"))
	if deleted := <-changes; deleted.PodRef != "ns/b" || len(b.CachedReservations([]string{"ns/b"}, nil)) > 0 {
		t.Errorf("after the deletion of %+v it is still cached", deleted)
	}
}

// listOnly has a reflector list before it watches.
type listOnly struct{}

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }
