// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// startingCache is a manager's cache. All sources of its controllers start at one instant. WaitForCacheSync waits for the informers from before the
// start or from an earlier instant, so that the order of the goroutines does not matter (docs/decisions/0190).
type startingCache struct {
	cache.Cache

	mu        sync.Mutex
	started   bool
	informers []*informer
}

func newStartingCache(config *rest.Config, o cache.Options) (cache.Cache, error) {
	c := &startingCache{}
	construct := o.NewInformer
	o.NewInformer = func(source toolscache.ListerWatcher, prototype runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		made := construct(source, prototype, resync, indexers)
		c.mu.Lock()
		defer c.mu.Unlock()
		i := made.(*informer)
		i.made, i.early = time.Now(), !c.started
		c.informers = append(c.informers, i)
		return i
	}
	var err error
	c.Cache, err = cache.New(config, o)
	return c, err
}

// Start starts the informers.
func (c *startingCache) Start(ctx context.Context) error {
	c.mu.Lock()
	c.started = true
	c.mu.Unlock()
	return c.Cache.Start(ctx)
}

// WaitForCacheSync waits for the informers that existed before this instant.
func (c *startingCache) WaitForCacheSync(ctx context.Context) bool {
	c.mu.Lock()
	all := slices.Clone(c.informers)
	c.mu.Unlock()
	for _, i := range all {
		if !i.early && !i.made.Before(time.Now()) {
			continue
		}
		select {
		case <-i.synced.Done():
		case <-ctx.Done():
			return false
		}
	}
	return true
}
