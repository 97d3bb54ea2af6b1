// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// reservedIndex finds cached reservations by what they name. The objects belong to the informer and are only read.
type reservedIndex struct {
	synced    atomic.Pointer[toolscache.InformerSynced]
	mu        sync.RWMutex
	byPodRef  *buckets[string, *cachedReservation]
	byAddress *buckets[netip.Addr, *cachedReservation]
}

func newReservedIndex() *reservedIndex {
	return &reservedIndex{
		byPodRef: newBuckets(func(r *cachedReservation, podRef string) bool { return r.podRef == podRef }),
		byAddress: newBuckets(func(r *cachedReservation, ip netip.Addr) bool {
			return slices.Contains(reservationAddresses(r.name), ip)
		}),
	}
}

// WatchReservations watches them with the cache of the pools. It does not wait for the first list.
func (b *Backend) WatchReservations(ctx context.Context, changed func(ipam.Reservation)) error {
	informer, err := b.pools.GetInformer(ctx, &wb.OverlappingRangeIPReservation{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching the reservations: %w", err)
	}
	registration, err := informer.AddEventHandler(b.reservationHandler(changed))
	if err != nil {
		return fmt.Errorf("watching the reservations: %w", err)
	}
	synced := toolscache.InformerSynced(registration.HasSynced)
	b.reserved.synced.Store(&synced)
	return nil
}

// reservationHandler keeps the index. The reservations of the first list are no changes.
func (b *Backend) reservationHandler(changed func(ipam.Reservation)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, isFirstList bool) {
			b.replaceReservation(nil, object)
			if !isFirstList {
				publishReservations(changed, object)
			}
		},
		UpdateFunc: func(before, after any) {
			b.replaceReservation(before, after)
			publishReservations(changed, before, after)
		},
		DeleteFunc: func(object any) {
			if unseen, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = unseen.Obj
			}
			b.replaceReservation(object, nil)
			publishReservations(changed, object)
		},
	}
}

func publishReservations(changed func(ipam.Reservation), objects ...any) {
	for _, object := range objects {
		if r, ok := object.(*cachedReservation); ok {
			changed(r.reservation())
		}
	}
}

// ReservationsSynced is true once the reservations of the first list are in the index.
func (b *Backend) ReservationsSynced() bool {
	synced := b.reserved.synced.Load()
	return synced != nil && (*synced)()
}

// replaceReservation takes one object out of the index, and puts another into it. Either may be nil. A deleted object is not the
// one that was stored.
func (b *Backend) replaceReservation(before, after any) {
	x := b.reserved
	x.mu.Lock()
	defer x.mu.Unlock()
	if r, ok := before.(*cachedReservation); ok {
		is := func(other *cachedReservation) bool {
			return other.namespace == r.namespace && other.name == r.name
		}
		x.byPodRef.erase(r.podRef, is)
		for _, ip := range reservationAddresses(r.name) {
			x.byAddress.erase(ip, is)
		}
	}
	if r, ok := after.(*cachedReservation); ok {
		x.byPodRef.insert(r.podRef, r)
		for _, ip := range reservationAddresses(r.name) {
			x.byAddress.insert(ip, r)
		}
	}
}

// CachedReservations finds them in the index, each once.
func (b *Backend) CachedReservations(podRefs []string, addresses []netip.Addr) []ipam.Reservation {
	x := b.reserved
	x.mu.RLock()
	defer x.mu.RUnlock()
	var found []*cachedReservation
	for _, ref := range podRefs {
		found = append(found, x.byPodRef.find(ref)...)
	}
	for _, ip := range addresses {
		found = append(found, x.byAddress.find(ip)...)
	}
	reservations := make([]ipam.Reservation, 0, len(found))
	seen := make(map[*cachedReservation]bool, len(found))
	for _, r := range found {
		if !seen[r] {
			seen[r] = true
			reservations = append(reservations, r.reservation())
		}
	}
	return reservations
}
