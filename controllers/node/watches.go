// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// NewInformer makes an informer, as cache.Options has it.
type NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// catchUpLimit is the time limit of a watch that has to get a bookmark soon.
const catchUpLimit = 3 * time.Second

// Watches are the watches of Nodes and of GuardedNodes. It counts how often they began with a list: an object that was created and deleted before that
// list was not seen. A watch that continues from the version of the last one misses nothing. Reports of Nodes are noted before any handler gets them.
type Watches struct {
	lists   atomic.Int64
	changed atomic.Pointer[func()]
	// nodes is the source of the Nodes.
	nodes atomic.Pointer[counted]
	notes notes
}

// Informers wraps the informers that inner makes, to count their lists and note their events; client-go's for nil.
func (w *Watches) Informers(inner NewInformer) NewInformer {
	if inner == nil {
		inner = toolscache.NewSharedIndexInformer
	}
	return func(source toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		counts := &counted{ListerWatcherWithContext: toolscache.ToListerWatcherWithContext(source), watches: w}
		switch object.(type) {
		case *corev1.Node:
			w.nodes.Store(counts)
			source = counts
		case *v1alpha1.GuardedNode:
			source = counts
		}
		return inner(source, object, resync, indexers)
	}
}

func (w *Watches) listed() {
	w.lists.Add(1)
	if changed := w.changed.Load(); changed != nil {
		(*changed)()
	}
}

// catchUp lets the notes reach a version if no Node has changed up to it. The watch of the informer learns that once a minute, by a bookmark. One with a
// time limit gets a bookmark two seconds before it ends, so a second watch begins where the notes are. It notes no event: the informer's watch does.
func (w *Watches) catchUp(ctx context.Context, version string) error {
	source, from := w.nodes.Load(), w.notes.reached()
	if source == nil || from == "" || w.notes.haveReached(version) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*catchUpLimit)
	defer cancel()
	stream, err := source.ListerWatcherWithContext.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true,
		TimeoutSeconds: new(int64(catchUpLimit / time.Second))})
	if err != nil {
		return fmt.Errorf("watching Nodes from version %s: %w", from, err)
	}
	defer stream.Stop()
	for e := range stream.ResultChan() {
		if e.Type != watch.Bookmark || !w.notes.unchanged(from, e.Object) || w.notes.haveReached(version) {
			break
		}
		from = e.Object.(*corev1.Node).ResourceVersion
	}
	return nil
}

// counted is a source of objects whose lists are counted, including those at the beginning of a watch.
type counted struct {
	toolscache.ListerWatcherWithContext
	watches *Watches
}

// begin is called before each list.
func (c *counted) begin() {
	if c.watches.nodes.Load() == c {
		c.watches.notes.begin()
	}
}

// ListWithContext lists.
func (c *counted) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Continue == "" {
		c.begin()
	}
	list, err := c.ListerWatcherWithContext.ListWithContext(ctx, o)
	c.watches.listed() // before the notes have the version: the observation before it has ended
	if nodes, is := list.(*corev1.NodeList); is && err == nil {
		c.watches.notes.list(nodes)
	}
	return list, err
}

// WatchWithContext watches.
func (c *counted) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	isList := o.SendInitialEvents != nil && *o.SendInitialEvents
	if isList {
		c.begin()
	}
	w, err := c.ListerWatcherWithContext.WatchWithContext(ctx, o)
	if isList {
		c.watches.listed()
	}
	if err != nil {
		return nil, err
	}
	noted := &notedWatch{Interface: w, events: make(chan watch.Event), stopped: make(chan struct{})}
	go noted.pass(func(e watch.Event) { isList = c.watches.notes.event(e, isList) })
	return noted, nil
}

// List lists.
func (c *counted) List(o metav1.ListOptions) (runtime.Object, error) {
	return c.ListWithContext(context.Background(), o)
}

// Watch watches.
func (c *counted) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return c.WatchWithContext(context.Background(), o)
}

// notedWatch is a watch that notes each event before it passes it on.
type notedWatch struct {
	watch.Interface
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func (w *notedWatch) pass(note func(watch.Event)) {
	defer close(w.events)
	for e := range w.Interface.ResultChan() {
		note(e)
		select {
		case w.events <- e:
		case <-w.stopped:
			return
		}
	}
}

// ResultChan has the events.
func (w *notedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch.
func (w *notedWatch) Stop() {
	w.once.Do(func() { close(w.stopped) })
	w.Interface.Stop()
}
