// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

func reservationNamed(name, podRef string) *wb.OverlappingRangeIPReservation {
	return &wb.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: wb.OverlappingRangeIPReservationSpec{PodRef: podRef, IfName: "net1"}}
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
	informer.Delete(given.DeepCopy()) // a deletion comes with an object of its own
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

// The cache of 100,000 reservations must fit beside that of the pods.
func TestACachedReservationKeepsWhatAnAuditComparesAlone(t *testing.T) {
	whole := reservationNamed("10.0.0.1", "ns/a")
	whole.UID, whole.ResourceVersion, whole.Labels = "uid", "5", map[string]string{"a": "b"}
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "whereabouts"}}
	kept, err := strip(whole)
	want := reservationNamed("10.0.0.1", "ns/a")
	want.ResourceVersion = "5"
	if r, ok := kept.(*wb.OverlappingRangeIPReservation); err != nil || !ok || !reflect.DeepEqual(r, want) {
		t.Errorf("kept %+v, want %+v", kept, want)
	}
}
