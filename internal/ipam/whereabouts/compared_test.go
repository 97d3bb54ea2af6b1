// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// poolOfOne holds an entry like that of requestOf at the offset 7.
func poolOfOne(cidr string) *wb.IPPool {
	return &wb.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "p", ResourceVersion: "1"}, Spec: wb.IPPoolSpec{Range: cidr,
		Allocations: map[string]wb.IPAllocation{"7": {ContainerID: "sb", PodRef: "ns/web-0", IfName: "net1"}}}}
}

func TestI2NothingIsTakenFromAPoolThatHasAnotherRangeByNow(t *testing.T) {
	now := poolOfOne("10.0.1.0/24")
	b := sliceBackend(t, interceptor.Funcs{}, []*wb.IPPool{poolOfOne("10.0.0.0/24")}, now)
	results := b.Release(context.Background(), []ipam.Request{requestOf("ns/web-0", "net1")})
	if results[0].Err == nil {
		t.Error("10.0.0.7 was released; expected an error, since the pool has 10.0.1.0/24 by now")
	}
	left := &wb.IPPool{}
	if err := b.reader.Get(context.Background(), client.ObjectKeyFromObject(now), left); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(now.Spec, left.Spec); diff != "" {
		t.Errorf("the entry of 10.0.1.7 changed (-was +is):\n%s", diff)
	}
}

func TestI2AReservationIsDeletedOnlyAsItWasRead(t *testing.T) {
	reserved := &wb.OverlappingRangeIPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "10.0.0.7", UID: "reservation-uid", ResourceVersion: "5"},
		Spec:       wb.OverlappingRangeIPReservationSpec{ContainerID: "sb", PodRef: "ns/web-0", IfName: "net1"},
	}
	var asked []metav1.Preconditions
	b := sliceBackend(t, interceptor.Funcs{
		Delete: func(ctx context.Context, below client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			var all client.DeleteOptions
			all.ApplyOptions(options)
			if all.Preconditions != nil {
				asked = append(asked, *all.Preconditions)
			}
			return below.Delete(ctx, object)
		},
	}, nil, reserved)
	p := &poolWriter{reader: b.reader, writer: b.writer, key: client.ObjectKey{Namespace: "kube-system", Name: "10.0.0.0-24"}, rangeText: "10.0.0.0/24"}
	i := newItem(requestOf("ns/web-0", "net1"))
	i.offset, i.state = "7", marked
	p.clearReservations(context.Background(), []*item{i}, cleared)
	if i.err != nil {
		t.Fatal(i.err)
	}
	uid, version := types.UID("reservation-uid"), "5"
	if diff := cmp.Diff([]metav1.Preconditions{{UID: &uid, ResourceVersion: &version}}, asked); diff != "" {
		t.Errorf("preconditions of the deletion (-want +got):\n%s", diff)
	}
}

func TestI2AnEntryOfAPoolIsReleasedAsItWasRecorded(t *testing.T) {
	pool := poolOfOne("10.0.0.0/24")
	b := sliceBackend(t, interceptor.Funcs{}, []*wb.IPPool{pool}, pool.DeepCopy())
	b.index.apply(pool, time.Time{})
	if err := b.Release(context.Background(), []ipam.Request{requestOf("ns/web-0", "net1")})[0].Err; err != nil {
		t.Fatal(err)
	}
	left := &wb.IPPool{}
	if err := b.reader.Get(context.Background(), client.ObjectKeyFromObject(pool), left); err != nil {
		t.Fatal(err)
	}
	if len(left.Spec.Allocations) > 0 {
		t.Errorf("left: %v; expected nothing", left.Spec.Allocations)
	}
}
