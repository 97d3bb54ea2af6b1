// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// TestI3ATombstoneOfAnotherRecordIsReplaced: the sandbox was disowned after the tombstone of the pod's record was written.
func TestI3ATombstoneOfAnotherRecordIsReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		stands   map[string]wb.IPAllocation
		standing bool
		want     error
	}{
		"as it was read":                   {map[string]wb.IPAllocation{"7": {ContainerID: "sb", PodRef: "holdfast-releasing/pod-uid", IfName: "net1"}}, false, nil},
		"it stands, as it has to":          {map[string]wb.IPAllocation{"7": {ContainerID: "sb", PodRef: "holdfast-releasing/pod-uid", IfName: "net1"}}, true, nil},
		"the entry was removed":            {map[string]wb.IPAllocation{}, false, nil},
		"it was removed, and has to stand": {nil, true, ipam.ErrChanged},
		"another pod has it by now":        {map[string]wb.IPAllocation{"7": {ContainerID: "other", PodRef: "ns/web-1", IfName: "net1"}}, false, ipam.ErrChanged},
		"another record releases it":       {map[string]wb.IPAllocation{"7": {ContainerID: "sb", PodRef: "holdfast-releasing/other-uid", IfName: "net1"}}, false, ipam.ErrChanged},
		"the orphan's record has it":       {map[string]wb.IPAllocation{"7": {ContainerID: "sb", PodRef: "holdfast-releasing/orphan-sb", IfName: "net1"}}, false, nil},
		"it has the name of a pod yet":     {map[string]wb.IPAllocation{"7": {ContainerID: "sb", PodRef: "ns/web-0", IfName: "net1"}}, false, ipam.ErrChanged},
	} {
		t.Run(name, func(t *testing.T) {
			pool := poolOfOne("10.0.0.0/24")
			pool.Spec.Allocations = tc.stands
			b := sliceBackend(t, interceptor.Funcs{
				Patch: func(ctx context.Context, below client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
					if err := below.Patch(ctx, object, patch, options...); err != nil {
						return apierrors.NewInvalid(wb.SchemeGroupVersion.WithKind("IPPool").GroupKind(), "p", nil) // as an API server does
					}
					return nil
				},
			}, []*wb.IPPool{pool}, pool.DeepCopy())
			b.index.apply(pool, time.Time{})
			request := requestOf("holdfast-releasing/pod-uid", "net1")
			request.Record, request.Standing = "orphan-sb", tc.standing
			if err := b.Tombstone(context.Background(), []ipam.Request{request})[0].Err; !errors.Is(err, tc.want) {
				t.Fatalf("error %v; expected %v", err, tc.want)
			}
			left := &wb.IPPool{}
			if err := b.reader.Get(context.Background(), client.ObjectKeyFromObject(pool), left); err != nil {
				t.Fatal(err)
			}
			want := map[string]wb.IPAllocation{"7": {ContainerID: "sb", PodRef: "holdfast-releasing/orphan-sb", IfName: "net1"}}
			if tc.want != nil {
				want = tc.stands
			}
			if diff := cmp.Diff(want, left.Spec.Allocations); diff != "" {
				t.Errorf("the pool (-want +got):\n%s", diff)
			}
		})
	}
}

// TestI1TheReservationOfATombstoneIsMarked: the next pod of the name would get the address from a pool with another range.
func TestI1TheReservationOfATombstoneIsMarked(t *testing.T) {
	pool := poolOfOne("10.0.0.0/24")
	reservation := &wb.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "10.0.0.7", UID: "r"},
		Spec: wb.OverlappingRangeIPReservationSpec{PodRef: "ns/web-0", IfName: "net1"}}
	b := sliceBackend(t, interceptor.Funcs{}, nil, pool, reservation)
	b.index.apply(pool, time.Time{})
	if err := b.Tombstone(t.Context(), []ipam.Request{requestOf("ns/web-0", "net1")})[0].Err; err != nil {
		t.Fatal(err)
	}
	if err := b.reader.Get(t.Context(), client.ObjectKeyFromObject(reservation), reservation); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("holdfast-releasing/ns.web-0", reservation.Spec.PodRef); diff != "" {
		t.Errorf("the reservation (-want +got):\n%s", diff)
	}
}
