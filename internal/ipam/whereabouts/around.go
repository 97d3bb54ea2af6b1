// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientfeatures "k8s.io/client-go/features"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// justNow is how long ago the watch may have shown a pool that proves it alive.
const justNow = time.Second

// poolsAround reads, live, the identity of each pool that can hold an address of a reservation. A list of all pools takes 80 ms, for which the node
// and all its CNI calls wait: the API server brings its watch cache up to date ten times a second. So the cache names the pools, if it has just been
// given one of them as it is live (docs/decisions/0300). Otherwise all pools of the namespace are listed.
func (b *Backend) poolsAround(ctx context.Context, r ipam.Reservation) ([]metav1.ObjectMeta, error) {
	var pools []metav1.ObjectMeta
	namespace := keyOf(r.Name).Namespace
	isAlive, since := false, b.options.Clock.Now().Add(-justNow)
	for _, cached := range b.covering(namespace, b.ReservationAddresses(r.Name)) {
		key := client.ObjectKeyFromObject(cached)
		live := metadataOnly("IPPool", key)
		if err := b.reader.Get(ctx, key, live); served.IsAbsent(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("reading the version of IPPool %s: %w", key, err)
		}
		pools = append(pools, live.ObjectMeta)
		// The look-up itself has to have the version: what the watch showed after it says nothing of the pools that it named.
		isAlive = isAlive || cached.UID == live.UID && cached.ResourceVersion == live.ResourceVersion && b.index.cameSince(poolName(key.Namespace, key.Name), since)
	}
	if !isAlive {
		return b.listPoolsOf(ctx, namespace)
	}
	return pools, nil
}

// covering are the cached pools of a namespace that can hold an address: also those of an unreadable range. None are named where no address is known, or
// where a list after a lost watch fills the cache one by one. They belong to the cache.
func (b *Backend) covering(namespace string, addresses []netip.Addr) []*wb.IPPool {
	if len(addresses) == 0 || !b.HasSynced() || !clientfeatures.FeatureGates().Enabled(clientfeatures.AtomicFIFO) {
		return nil
	}
	var around []*wb.IPPool
	for _, store := range b.poolStores {
		for _, object := range store.List() {
			pool, ok := object.(*wb.IPPool)
			if !ok || pool.Namespace != namespace {
				continue
			}
			if network, err := parseRange(pool.Spec.Range); err != nil || slices.ContainsFunc(addresses, network.Contains) {
				around = append(around, pool)
			}
		}
	}
	return around
}

// cameSince reports whether the watch has shown a version of a pool since a time.
func (x *index) cameSince(name string, since time.Time) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	pool := x.pools[name]
	return pool != nil && !pool.came.Before(since)
}
