// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
)

var _ cache.SharedIndexInformer = (*informer)(nil)

// AddEventHandler registers a handler.
func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	r := &registration{handler: h, synced: newMilestone()}
	i.mu.Lock()
	i.handlers = append(i.handlers, r)
	i.mu.Unlock()
	select {
	case i.poked <- struct{}{}:
	default:
	}
	return r, nil
}

// AddEventHandlerWithResyncPeriod registers a handler; there is no resync.
func (i *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// AddEventHandlerWithOptions registers a handler.
func (i *informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// RemoveEventHandler forgets a handler.
func (i *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(i.handlers, func(r *registration) bool { return cache.ResourceEventHandlerRegistration(r) == handle })
	return nil
}

// GetStore is the indexer.
func (i *informer) GetStore() cache.Store { return i.indexer }

// GetIndexer is the indexer.
func (i *informer) GetIndexer() cache.Indexer { return i.indexer }

// AddIndexers adds to the indexer.
func (i *informer) AddIndexers(indexers cache.Indexers) error { return i.indexer.AddIndexers(indexers) }

// GetController is deprecated, and nil.
func (i *informer) GetController() cache.Controller { return nil }

// Run runs until the channel is closed.
func (i *informer) Run(stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	i.RunWithContext(ctx)
}

// HasSynced says that the first list is in the store.
func (i *informer) HasSynced() bool { return i.synced.isPast() }

// HasSyncedChecker waits for the first list.
func (i *informer) HasSyncedChecker() cache.DoneChecker { return i.synced }

// LastSyncResourceVersion is how far the informer is.
func (i *informer) LastSyncResourceVersion() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.version
}

// SetWatchErrorHandler does nothing: the informer goes on after every failure.
func (i *informer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return nil }

// SetWatchErrorHandlerWithContext does nothing, too.
func (i *informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// SetTransform sets what is applied to each object before it is stored.
func (i *informer) SetTransform(f cache.TransformFunc) error {
	i.transform = f
	return nil
}

// IsStopped is never asked before the end.
func (i *informer) IsStopped() bool { return false }

// HasSynced says that the handler had the objects of the first list.
func (r *registration) HasSynced() bool { return r.synced.isPast() }

// HasSyncedChecker waits for that.
func (r *registration) HasSyncedChecker() cache.DoneChecker { return r.synced }

// milestone is a state that is reached once.
type milestone struct {
	done chan struct{}
	at   *atomic.Pointer[time.Time]
}

func newMilestone() milestone { return milestone{make(chan struct{}), &atomic.Pointer[time.Time]{}} }

func (m milestone) reach() {
	if m.at.CompareAndSwap(nil, new(time.Now())) {
		close(m.done)
	}
}

// isPast says that it was reached at an earlier instant: all goroutines that look at one instant see the same.
func (m milestone) isPast() bool { return m.isPastFor(0) }

// isPastFor says that it was reached longer ago than d.
func (m milestone) isPastFor(d time.Duration) bool {
	at := m.at.Load()
	return at != nil && at.Before(time.Now().Add(-d))
}

// Name names nothing in particular.
func (milestone) Name() string { return "simulated informer" }

// Done is closed when it is reached.
func (m milestone) Done() <-chan struct{} { return m.done }
