// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// poolsBehind are the versions that the cache of pools has to have before it can show that a pod holds nothing: those that the pools had
// once the end of the pod was known. It is safe for concurrent use.
type poolsBehind struct {
	mu   sync.Mutex
	pods map[types.UID]map[poolKey]string
}

// poolKey is one pool of one backend.
type poolKey struct{ backend, pool string }

// emptyNow says whether the pools were empty of the pod after its end was known. A cache may show them empty because it is late: of a sandbox
// that was made, and terminated, since. It is left to catch up once; again asks for live reads where it does not (docs/decisions/0136).
func (r *Reconciler) emptyNow(ctx context.Context, v *view, d release.Decision) (empty, again bool, result reconcile.Result, err error) {
	if v.live || d.Row == release.RowNeverScheduled {
		return true, false, result, nil
	}
	needed, waited := r.behind.get(v.uid)
	if !waited {
		if needed, err = r.poolsNow(ctx, v); err != nil {
			return false, false, result, fmt.Errorf("telling whether the pools are empty of %s: %w", v.podName(), err)
		}
	}
	for key, version := range needed {
		if order, err := resourceversion.CompareResourceVersion(v.poolVersions[key.backend][key.pool], version); err == nil && order >= 0 {
			continue
		}
		r.behind.set(v.uid, needed)
		return false, waited, reconcile.Result{RequeueAfter: backoff.CatchUp}, nil
	}
	return true, false, result, nil
}

// poolsNow reads the versions of the pools in which the record has addresses. A pool that does not exist holds nothing.
func (r *Reconciler) poolsNow(ctx context.Context, v *view) (map[poolKey]string, error) {
	needed := map[poolKey]string{}
	for _, backend := range r.options.Backends {
		var pools []string
		for i := range v.record.Spec.Addresses {
			a := &v.record.Spec.Addresses[i]
			if a.Backend == backend.Name() && !slices.Contains(pools, a.Pool) {
				pools = append(pools, a.Pool)
			}
		}
		versions, err := backend.Versions(ctx, pools)
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
