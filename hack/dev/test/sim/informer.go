// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// relistAfter is an informer's pause after a failed list or watch.
const relistAfter = time.Second

// informer is client-go's shared informer with one goroutine: an event reaches the store and every handler in one step, in the order in
// which the handlers registered. It lists, watches, and lists again after a failure, as a reflector does.
type informer struct {
	source    cache.ListerWatcher
	indexer   sortedIndexer
	transform cache.TransformFunc
	// first is the version of the first list: a cache of the API server that lags after a restart. Zero: the present one.
	first func() string

	// made is when the informer was made; early says that this was before its cache started.
	made  time.Time
	early bool

	mu       sync.Mutex
	handlers []*registration
	poked    chan struct{}
	synced   milestone
	version  string
	started  bool
}

// registration is a handler and how far it is.
type registration struct {
	handler cache.ResourceEventHandler
	begun   bool
	synced  milestone
}

func newInformer(source cache.ListerWatcher, indexers cache.Indexers, first func() string) *informer {
	return &informer{source: source, indexer: newSortedIndexer(indexers), first: first, poked: make(chan struct{}, 1), synced: newMilestone()}
}

// RunWithContext runs until ctx ends.
func (i *informer) RunWithContext(ctx context.Context) {
	i.mu.Lock()
	i.started = true
	i.mu.Unlock()
	options := metav1.ListOptions{}
	if at := i.first(); at != "" {
		options.ResourceVersion, options.ResourceVersionMatch = at, metav1.ResourceVersionMatchExact
	}
	for ctx.Err() == nil {
		if i.list(ctx, options) == nil {
			options = metav1.ListOptions{}
			i.watch(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(relistAfter):
		}
	}
}

// list replaces the store.
func (i *informer) list(ctx context.Context, options metav1.ListOptions) error {
	list, err := cache.ToListerWatcherWithContext(i.source).ListWithContext(ctx, options)
	if err != nil {
		return err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	present := map[string]bool{}
	for _, o := range objects {
		present[i.put(o)] = true
	}
	for _, key := range i.indexer.ListKeys() {
		if !present[key] {
			gone, _, _ := i.indexer.GetByKey(key)
			i.remove(gone, cache.DeletedFinalStateUnknown{Key: key, Obj: gone})
		}
	}
	i.mu.Lock()
	i.version = accessor.GetResourceVersion()
	i.mu.Unlock()
	i.greet()
	i.synced.reach()
	return nil
}

// watch handles events until the watch has to begin with a list again. A watch that ends continues at its version.
func (i *informer) watch(ctx context.Context) {
	for ctx.Err() == nil {
		w, err := cache.ToListerWatcherWithContext(i.source).WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: i.LastSyncResourceVersion(), AllowWatchBookmarks: true})
		if err != nil {
			return
		}
		err = i.follow(ctx, w)
		w.Stop()
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(relistAfter):
		}
	}
}

var errWatch = errors.New("the watch ended with an error")

func (i *informer) follow(ctx context.Context, w watch.Interface) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-i.poked:
			i.greet()
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if err := i.handle(e); err != nil {
				return err
			}
		}
	}
}

func (i *informer) handle(e watch.Event) error {
	if e.Type == watch.Error {
		return errWatch
	}
	accessor, err := meta.Accessor(e.Object)
	if err != nil {
		return err
	}
	version := accessor.GetResourceVersion()
	switch e.Type {
	case watch.Added, watch.Modified:
		i.put(e.Object)
	case watch.Deleted:
		i.remove(e.Object, i.shaped(e.Object))
	case watch.Bookmark, watch.Error: // says how far the watch is; an error was given back above
	}
	i.mu.Lock()
	i.version = version
	i.mu.Unlock()
	return nil
}

func (i *informer) shaped(object any) any {
	if i.transform == nil {
		return object
	}
	if shaped, err := i.transform(object); err == nil {
		return shaped
	}
	return object
}

// put stores an object and calls the handlers that have started.
func (i *informer) put(o runtime.Object) string {
	object := i.shaped(o)
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return ""
	}
	old, known, _ := i.indexer.GetByKey(key)
	_ = i.indexer.Update(object)
	for _, r := range i.begun() {
		if known {
			r.handler.OnUpdate(old, object)
		} else {
			r.handler.OnAdd(object, false)
		}
	}
	return key
}

func (i *informer) remove(object, event any) {
	_ = i.indexer.Delete(object)
	for _, r := range i.begun() {
		r.handler.OnDelete(event)
	}
}

func (i *informer) begun() []*registration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(i.handlers), func(r *registration) bool { return !r.begun })
}

// greet passes all objects to new handlers.
func (i *informer) greet() {
	i.mu.Lock()
	all := slices.Clone(i.handlers)
	i.mu.Unlock()
	for _, r := range all {
		if r.begun {
			continue
		}
		for _, o := range i.indexer.List() {
			r.handler.OnAdd(o, true)
		}
		i.mu.Lock()
		r.begun = true
		i.mu.Unlock()
		r.synced.reach()
	}
}

// abandon ends the waits for the informer of a process that ended before its first list.
func (i *informer) abandon() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.synced.reach()
	for _, r := range i.handlers {
		r.synced.reach()
	}
}
