// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// poolsBehind are the versions that the cache of pools has to reach before it is evidence about a pod: that it has no entry, those from after its
// termination was known; that an entry is its own, those from after it was bound. It is safe for concurrent use.
type poolsBehind struct {
	mu   sync.Mutex
	pods map[types.UID]map[poolKey]string
}

// poolKey is one pool of one backend.
type poolKey struct{ backend, pool string }

// emptyNow says whether the pools had no entry of the pod after its termination was known. A late cache may lack the entry of a sandbox that was
// created and terminated since. It may catch up once; otherwise again requests live reads (docs/decisions/0136).
func (r *Reconciler) emptyNow(ctx context.Context, v *view, d release.Decision) (empty, again bool, result reconcile.Result) {
	if v.live || d.Row == release.RowNeverScheduled {
		return true, false, result
	}
	var pools []poolKey
	for i := range v.record.Spec.Addresses {
		pools = append(pools, poolKey{v.record.Spec.Addresses[i].Backend, v.record.Spec.Addresses[i].Pool})
	}
	return r.caughtUp(ctx, &r.behind, v, pools, true)
}

// standNow says whether the pools had the entries of sandboxes that are new to the record after the pod was bound. A late cache may show entries of a
// predecessor with the name, as if their ADD came after the pod was bound (docs/decisions/0210).
func (r *Reconciler) standNow(ctx context.Context, v *view) (stand, again bool, result reconcile.Result) {
	pools := v.newPools()
	if v.live || len(pools) == 0 {
		r.unproven.forget(v.uid)
		return true, false, result
	}
	if stand, again, result = r.caughtUp(ctx, &r.unproven, v, pools, false); stand {
		r.unproven.forget(v.uid)
	}
	return stand, again, result
}

// newPools are the pools of the entries whose sandboxes are new to the record.
func (v *view) newPools() []poolKey {
	var pools []poolKey
	known := index.SandboxIDs(v.record)
	for i := range v.held {
		if !v.held[i].Superseded && !slices.Contains(known, v.held[i].SandboxID) {
			pools = append(pools, poolKey{v.held[i].Backend, v.held[i].Pool})
		}
	}
	return pools
}

// caughtUp says whether the cache, when the entries were read, had the versions that the pools have now, or had at the first such check. A pool that
// does not exist has no entries; absent says whether the cache may show it all the same. A failed read is left to the live pass, which explains its own.
func (r *Reconciler) caughtUp(ctx context.Context, behind *poolsBehind, v *view, pools []poolKey, absent bool) (current, again bool, result reconcile.Result) {
	needed, waited := behind.get(v.uid)
	if !waited {
		var err error
		if needed, err = r.poolsNow(ctx, pools); err != nil {
			log.FromContext(ctx).Error(err, "The cache could not be compared with the pools; if this lasts they are read live", "pod", v.podName())
			return false, r.held.unreadFor(v.uid, r.clock.Now(), reportUnreadAfter), reconcile.Result{RequeueAfter: explainAgain}
		}
	}
	for _, key := range pools {
		version, exists := needed[key]
		order, err := resourceversion.CompareResourceVersion(v.poolVersions[key.backend][key.pool], version)
		if (!exists && absent) || (exists && err == nil && order >= 0) {
			continue
		}
		behind.set(v.uid, needed)
		return false, waited, reconcile.Result{RequeueAfter: backoff.CatchUp}
	}
	return true, false, result
}

// poolsNow reads the versions of those pools that exist.
func (r *Reconciler) poolsNow(ctx context.Context, pools []poolKey) (map[poolKey]string, error) {
	needed := map[poolKey]string{}
	for _, backend := range r.options.Backends {
		var names []string
		for _, key := range pools {
			if key.backend == backend.Name() && !slices.Contains(names, key.pool) {
				names = append(names, key.pool)
			}
		}
		versions, err := backend.Versions(ctx, names)
		if err != nil {
			return nil, err
		}
		for pool, version := range versions {
			needed[poolKey{backend.Name(), pool}] = version
		}
	}
	return needed, nil
}

func (p *poolsBehind) get(uid types.UID) (map[poolKey]string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	needed, waited := p.pods[uid]
	return needed, waited
}

func (p *poolsBehind) set(uid types.UID, needed map[poolKey]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pods == nil {
		p.pods = map[types.UID]map[poolKey]string{}
	}
	p.pods[uid] = needed
}

func (p *poolsBehind) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pods, uid)
}
