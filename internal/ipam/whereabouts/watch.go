// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// Setup watches the pools. Where that is not possible yet, in the usual case because whereabouts' CRD is missing, the
// manager starts all the same, the backend stays out of sync, and it lists again.
func (b *Backend) Setup(ctx context.Context, mgr manager.Manager) error {
	if scheme := mgr.GetScheme(); !scheme.Recognizes(wb.SchemeGroupVersion.WithKind("IPPool")) {
		if err := AddToScheme(scheme); err != nil {
			return fmt.Errorf("registering the types of %s: %w", Name, err)
		}
	}
	b.reader, b.writer = mgr.GetAPIReader(), mgr.GetClient()
	metrics.IPAMSynced.WithLabelValues(Name).Set(0)
	pools, err := b.newCache(mgr)
	if err != nil {
		return fmt.Errorf("making the cache of %s: %w", Name, err)
	}
	b.pools = pools
	if err := mgr.Add(ownCache{pools}); err != nil {
		return err
	}
	if err = b.watchPools(ctx, pools); err == nil {
		return mgr.Add(everyReplica(b.awaitSync))
	}
	b.options.Log.Error(err, "Cannot watch the pools yet; is the IPAM installed? Its addresses are unknown, so pods that may hold "+
		"some stay protected. Install the IPAM, or switch its backend off in the configuration.",
		"backend", Name, "askAgainEvery", b.options.CRDInterval.String())
	return mgr.Add(everyReplica(func(ctx context.Context) error { return b.awaitCRD(ctx, pools) }))
}

// newCache is a cache of the backend's own. The manager's cannot be made while it is to restrict the namespaces of a kind
// that the API server does not know.
func (b *Backend) newCache(mgr manager.Manager) (cache.Cache, error) {
	watched := make(map[string]cache.Config, len(b.options.Namespaces))
	for _, namespace := range b.options.Namespaces {
		watched[namespace] = cache.Config{}
	}
	return cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: watched, DefaultTransform: strip, NewInformer: b.newInformer,
	})
}

// newInformer also remembers the store of pools: a list by the cache copies all of them, which with 5,000 takes ten times as long as to look at each.
func (b *Backend) newInformer(source toolscache.ListerWatcher, of runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
	informer := b.options.NewInformer(source, of, resync, by)
	if _, isPool := of.(*wb.IPPool); isPool {
		b.poolStores = append(b.poolStores, informer.GetStore())
	}
	return informer
}

// watchPools feeds the index from the informer. It does not wait for the first list.
func (b *Backend) watchPools(ctx context.Context, pools cache.Cache) error {
	informer, err := pools.GetInformer(ctx, &wb.IPPool{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    b.poolSeen,
		UpdateFunc: func(_, object any) { b.poolSeen(object) },
		DeleteFunc: b.poolDeleted,
	})
	if err != nil {
		return err
	}
	synced := toolscache.InformerSynced(registration.HasSynced)
	b.synced.Store(&synced)
	return nil
}

func (b *Backend) awaitCRD(ctx context.Context, pools cache.Cache) error {
	err := wait.PollUntilContextCancel(ctx, b.options.CRDInterval, true, func(ctx context.Context) (bool, error) {
		err := b.watchPools(ctx, pools)
		b.options.Log.V(1).Info("Asked for the pools again", "backend", Name, "error", err)
		return err == nil, nil
	})
	if wait.Interrupted(err) { // the manager ends
		return nil
	}
	return errors.Join(err, b.awaitSync(ctx))
}

// awaitSync reports the end of the first list.
func (b *Backend) awaitSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), b.HasSynced) {
		return nil
	}
	metrics.IPAMSynced.WithLabelValues(Name).Set(1)
	b.options.Log.Info("The pools are known", "backend", Name, "namespaces", b.options.Namespaces)
	return nil
}

func (b *Backend) poolSeen(object any) {
	pool, ok := object.(*wb.IPPool)
	if !ok || !slices.Contains(b.options.Namespaces, pool.Namespace) {
		return
	}
	b.changed(poolName(pool.Namespace, pool.Name), b.index.apply(pool, b.options.Clock.Now()))
}

func (b *Backend) poolDeleted(object any) {
	// The informer missed the deletion; the key is that of an informer's store: "namespace/name", as poolName.
	if unseen, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		b.changed(unseen.Key, b.index.remove(unseen.Key))
		return
	}
	if pool, ok := object.(*wb.IPPool); ok {
		name := poolName(pool.Namespace, pool.Name)
		b.changed(name, b.index.remove(name))
	}
}

// changed publishes a change. Problems are logged once each, when they appear, in one line for each change of a pool.
func (b *Backend) changed(pool string, e ipam.Event) {
	if len(e.Problems) > 0 {
		b.options.Log.Info("A pool holds what cannot be read; it is never written", "pool", pool,
			"problems", len(e.Problems), "first", e.Problems[0].Message)
	}
	metrics.MalformedEntries.Set(float64(b.index.problemCount()))
	b.publish(e)
}

// everyReplica is a runnable that does not wait for leader election: webhooks and followers read the cache too.
type everyReplica func(context.Context) error

// Start runs it.
func (r everyReplica) Start(ctx context.Context) error { return r(ctx) }

// NeedLeaderElection is false.
func (everyReplica) NeedLeaderElection() bool { return false }

// ownCache starts with the manager's own caches, before the controllers.
type ownCache struct{ cache.Cache }

// GetCache is what the manager waits for.
func (c ownCache) GetCache() cache.Cache { return c.Cache }
