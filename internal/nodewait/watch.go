// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

// rest returns at the next event of the Node or its objects, or when the interval is over; false when the context ended.
func (w *waiter) rest(ctx context.Context) bool {
	w.open(ctx, &w.nodeStream, clusterScoped(nodes, w.Node))
	if w.aim.Kind != "" {
		w.open(ctx, &w.objectStream, w.aim)
	}
	if w.aim.Kind != "" && w.aim.selector == "" {
		return w.awaitEvent(ctx, scanInterval)
	}
	return w.awaitEvent(ctx, lookInterval)
}

func (w *waiter) awaitEvent(ctx context.Context, interval time.Duration) bool {
	soon, latest := time.After(wait.Jitter(eventPause, jitter)), time.After(wait.Jitter(eventPause+interval, jitter))
	for changed := false; !changed || soon != nil; {
		select {
		case <-ctx.Done():
			return false
		case <-latest:
			return true
		case <-soon:
			soon = nil
		case event, open := <-w.nodeStream.events():
			changed = w.nodeStream.take(event, open) || changed
		case event, open := <-w.objectStream.events():
			changed = w.objectStream.take(event, open) && w.concerns(event) || changed
		}
	}
	return true
}

// stream is a watch that stays open from one rest to the next while its target is the same.
type stream struct {
	watch.Interface // nil while it is not open
	target          target
	cancel          context.CancelFunc
}

func (s *stream) events() <-chan watch.Event {
	if s.Interface == nil {
		return nil
	}
	return s.ResultChan()
}

func (s *stream) close() {
	if s.Interface != nil {
		s.Stop()
		s.cancel()
		s.Interface = nil
	}
}

// take closes a watch that has ended, so that the next rest opens it again. It reports whether there was an event.
func (s *stream) take(event watch.Event, open bool) bool {
	if !open || event.Type == watch.Error {
		s.close()
		return false
	}
	return true
}

// open opens the watch unless it is open. A watch of every object continues from the last list.
func (w *waiter) open(ctx context.Context, s *stream, t target) {
	if s.Interface != nil && s.target == t {
		return
	}
	s.close()
	options := metav1.ListOptions{FieldSelector: t.selector}
	if t.selector == "" {
		if options.ResourceVersion = w.version; w.version == "" {
			return
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	hung := time.AfterFunc(requestTimeout, cancel)
	defer hung.Stop()
	opened, err := w.Client.Resource(t.GroupVersionResource).Namespace(t.namespace).Watch(ctx, options)
	if err == nil {
		*s = stream{Interface: opened, target: t, cancel: cancel}
		return
	}
	cancel()
	// Any other problem shows in the reads too.
	if apierrors.IsForbidden(err) && !w.notes.Has(err.Error()) {
		w.notes.Insert(err.Error())
		fmt.Fprintf(w.Err, "note: this account may not %s: %s; looking again every few seconds instead\n", t.describe("watch"), err)
	}
}

// concerns reports whether an event of the objects may be about one of this node's.
func (w *waiter) concerns(event watch.Event) bool {
	u, ok := event.Object.(*unstructured.Unstructured)
	if w.aim.selector != "" || !ok {
		return true
	}
	o, err := w.rule.Object(u)
	return err != nil || o.NodeName == w.Node
}
