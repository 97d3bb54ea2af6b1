// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// storeOf is what an informer keeps pools in.
func storeOf(pools ...*wb.IPPool) []toolscache.Store {
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	for _, pool := range pools {
		if err := store.Add(pool); err != nil {
			panic(err)
		}
	}
	return []toolscache.Store{store}
}

// TestI6PoolsAreListedUnlessTheWatchHasJustShownOne has a second pool hold the address, which the cache does not know: only a list finds it.
func TestI6PoolsAreListedUnlessTheWatchHasJustShownOne(t *testing.T) {
	const known, other, unknown, broken = "10.0.0.0-24", "10.0.1.0-24", "10.0.0.0-16", "broken"
	holds := map[string]wb.IPAllocation{"7": {ContainerID: "sb", PodRef: "ns/web-0", IfName: "net1"}}
	for name, tc := range map[string]struct {
		holds    map[string]wb.IPAllocation
		podEnds  bool
		name     string // of the reservation; 10.0.0.7 by default
		cached   string // the version of the known pool; that of the live one is 5
		came     string // the version that came after the cache was looked up; empty for none
		age      time.Duration
		readErr  error
		isListed bool
		want     []string
		wantErr  bool
	}{
		"just shown":                        {podEnds: true, cached: "5", age: time.Second},
		"just shown, and it holds":          {podEnds: true, cached: "5", holds: holds, want: []string{"kube-system/" + known}},
		"a pod that lives":                  {cached: "5", isListed: true, want: []string{"kube-system/" + unknown}},
		"shown some time ago":               {podEnds: true, cached: "5", age: time.Second + 1, isListed: true, want: []string{"kube-system/" + unknown}},
		"a cache that is behind":            {podEnds: true, cached: "4", isListed: true, want: []string{"kube-system/" + unknown}},
		"a cache that was looked up before": {podEnds: true, cached: "4", came: "5", isListed: true, want: []string{"kube-system/" + unknown}},
		"a name that shows no address":      {podEnds: true, name: "by-hand", cached: "5", isListed: true},
		"a cache without the pool":          {podEnds: true, isListed: true, want: []string{"kube-system/" + unknown}},
		"a pool that could not be read":     {podEnds: true, cached: "5", readErr: errors.New("timeout"), wantErr: true},
		"the API server cannot list them":   {cached: "5", readErr: errors.New("timeout"), isListed: true, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			listed, gets := false, []string(nil)
			live := newPool(known, "10.0.0.0/24", "5", tc.holds)
			b := sliceBackend(t, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					listed = true
					return errors.Join(tc.readErr, c.List(ctx, list, opts...))
				},
				Get: func(ctx context.Context, c client.WithWatch, key types.NamespacedName, o client.Object, opts ...client.GetOption) error {
					gets = append(gets, key.Name)
					return errors.Join(tc.readErr, c.Get(ctx, key, o, opts...))
				},
			}, nil, live, newPool(other, "10.0.1.0/24", "5", nil), newPool(unknown, "10.0.0.0/16", "6", holds), newPool(broken, "?", "5", nil))
			shown := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			b.options.Clock = testingclock.NewFakePassiveClock(shown.Add(tc.age))
			pools := []*wb.IPPool{newPool(other, "10.0.1.0/24", "5", nil)}
			if tc.name != "" { // its range cannot be read, so that it may hold each address
				pools = append(pools, newPool(broken, "?", "5", nil))
			}
			if tc.cached != "" {
				pools = append(pools, newPool(known, "10.0.0.0/24", tc.cached, tc.holds))
			}
			for _, pool := range pools {
				b.index.apply(pool, shown)
			}
			b.poolStores = storeOf(pools...)
			if tc.came != "" {
				b.index.apply(newPool(known, "10.0.0.0/24", tc.came, tc.holds), shown)
			}

			reservation := "kube-system/" + cmp.Or(tc.name, "10.0.0.7")
			keys, err := b.ReservationHolders(t.Context(), ipam.Reservation{Name: reservation, PodRef: "ns/web-0", Interface: "net1"}, tc.podEnds)
			var got []string
			for _, key := range keys {
				got = append(got, key.Pool)
			}
			if diff := gocmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.wantErr {
				t.Errorf("error %v, holders (-want +got):\n%s", err, diff)
			}
			if listed != tc.isListed {
				t.Errorf("listed: %t, want %t; read by name: %q", listed, tc.isListed, gets)
			}
		})
	}
}

// TestAPoolOfAnUnreadableRangeMayHoldEachAddress has one beside a pool that the watch has just shown.
func TestAPoolOfAnUnreadableRangeMayHoldEachAddress(t *testing.T) {
	pools := []*wb.IPPool{newPool("10.0.0.0-24", "10.0.0.0/24", "5", nil),
		newPool("broken", "?", "5", map[string]wb.IPAllocation{"7": {ContainerID: "sb", PodRef: "ns/web-0", IfName: "net1"}})}
	b := sliceBackend(t, interceptor.Funcs{}, pools, pools[0].DeepCopy(), pools[1].DeepCopy())
	b.options.Clock = testingclock.NewFakePassiveClock(time.Time{})
	b.poolStores = storeOf(pools...)
	if keys, err := b.ReservationHolders(t.Context(), ipam.Reservation{Name: "kube-system/10.0.0.7", PodRef: "ns/web-0", Interface: "net1"}, true); err == nil {
		t.Errorf("a removal beside a pool that cannot be read: %v", keys)
	}
}

// TestI1ATombstoneHoldsItsReservation: its podref names a record, and not the pod that the reservation is for.
func TestI1ATombstoneHoldsItsReservation(t *testing.T) {
	const name = "10.0.0.0-24"
	tombstone := wb.IPAllocation{ContainerID: "sb", PodRef: "holdfast-releasing/0f3c-uid", IfName: "net1"}
	for name, tc := range map[string]struct {
		live    *wb.IPPool
		podRef  string // of the reservation; ns/web-0 by default
		cached  string // the version of the cached pool; that of the live one is 5
		want    []string
		wantErr bool
	}{
		"of an entry in the cache":            {live: newPool(name, "10.0.0.0/24", "5", map[string]wb.IPAllocation{"7": tombstone}), cached: "5", want: []string{"kube-system/" + name}},
		"of an entry that is not cached":      {live: newPool(name, "10.0.0.0/24", "5", map[string]wb.IPAllocation{"7": tombstone}), cached: "4", want: []string{"kube-system/" + name}},
		"that is marked":                      {live: newPool(name, "10.0.0.0/24", "5", map[string]wb.IPAllocation{"7": tombstone}), podRef: "holdfast-releasing/ns.web-0", cached: "5", want: []string{"kube-system/" + name}},
		"in a cached pool that is unreadable": {live: newPool(name, "?", "5", map[string]wb.IPAllocation{"7": tombstone}), cached: "5", wantErr: true},
		"in a live pool that is unreadable":   {live: newPool(name, "?", "5", map[string]wb.IPAllocation{"7": tombstone}), cached: "4", wantErr: true},
		"and not that of another address":     {live: newPool(name, "10.0.0.0/24", "5", map[string]wb.IPAllocation{"8": tombstone}), cached: "5"},
		"and not beside an entry of a pod":    {live: newPool(name, "10.0.0.0/24", "5", map[string]wb.IPAllocation{"7": {ContainerID: "sb", PodRef: "ns/web-1", IfName: "net1"}}), cached: "5"},
	} {
		t.Run(name, func(t *testing.T) {
			b := sliceBackend(t, interceptor.Funcs{}, nil, tc.live)
			cached := tc.live.DeepCopy()
			cached.ResourceVersion = tc.cached
			b.index.apply(cached, time.Time{})
			keys, err := b.ReservationHolders(t.Context(), ipam.Reservation{Name: "kube-system/10.0.0.7", PodRef: cmp.Or(tc.podRef, "ns/web-0"), Interface: "net1"}, false)
			var got []string
			for _, key := range keys {
				got = append(got, key.Pool)
			}
			if diff := gocmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.wantErr {
				t.Errorf("error %v, holders (-want +got):\n%s", err, diff)
			}
		})
	}
}
