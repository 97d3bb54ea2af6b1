// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-dev/holdfast/internal/served"
)

const (
	nodeWatch, objectWatch = "node", "objects"

	// The pauses between tries to open a watch. Jitter doubles each at most.
	firstReopen = time.Second
	lastReopen  = 30 * time.Second
)

var errNothingListed = errors.New("there is no list yet that a watch could go on from")

// scan is what the watch of every object of a resource needs. Without a version it would begin with all of them.
type scan struct {
	rule    rule
	version string
}

// watched is a watch that is kept open.
type watched struct {
	target  target
	cancel  context.CancelFunc
	problem string // the last one that was told; only its own goroutine uses it
}

// follow remembers what the next rest has to watch.
func (w *waiter) follow(r rule, t target, l listing) {
	w.aim = t
	switch {
	case t.selector != "":
		w.scanned.Store(nil)
	case l.version != "":
		w.scanned.Store(&scan{rule: r, version: l.version})
	}
}

// subscribe opens the watches that are not open. Nothing is watched before the first look found something to wait for.
func (w *waiter) subscribe(ctx context.Context) {
	node := target{Resource: served.Resource{GroupVersionResource: nodes}, name: w.Node}
	node.selector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.Node).String()
	w.keep(ctx, nodeWatch, node)
	if w.aim.Kind != "" {
		w.keep(ctx, objectWatch, w.aim)
	}
}

func (w *waiter) keep(ctx context.Context, what string, t target) {
	if old, open := w.watching[what]; open {
		if old.target == t {
			return
		}
		old.cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	kept := &watched{target: t, cancel: cancel}
	w.watching[what] = kept
	w.watchers.Go(func() { w.run(ctx, kept) })
}

// run keeps one watch open. Whenever it opens or ends, something may have been missed.
func (w *waiter) run(ctx context.Context, kept *watched) {
	backoff := reopening()
	for {
		stream, err := w.open(ctx, kept.target)
		if err != nil {
			w.complain(kept, err)
		} else {
			w.wake()
			if w.drain(ctx, kept.target, stream) {
				backoff = reopening()
			}
			w.wake()
		}
		if !pause(ctx, backoff.Step()) {
			return
		}
	}
}

func reopening() *wait.Backoff {
	return &wait.Backoff{Duration: firstReopen, Factor: 2, Jitter: 1, Steps: 10, Cap: lastReopen}
}

func (w *waiter) open(ctx context.Context, t target) (watch.Interface, error) {
	options := metav1.ListOptions{FieldSelector: t.selector}
	if t.selector == "" {
		scanned := w.scanned.Load()
		if scanned == nil {
			return nil, errNothingListed
		}
		options.ResourceVersion = scanned.version
	}
	return w.Client.Resource(t.GroupVersionResource).Namespace(t.namespace).Watch(ctx, options)
}

// drain wakes the waiter at each event that concerns the node, until the watch ends. It says whether there was any event.
func (w *waiter) drain(ctx context.Context, t target, stream watch.Interface) (worked bool) {
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return worked
		case event, open := <-stream.ResultChan():
			if !open || event.Type == watch.Error {
				return worked
			}
			worked = true
			if w.concerns(t, event) {
				w.wake()
			}
		}
	}
}

func (w *waiter) concerns(t target, event watch.Event) bool {
	scanned := w.scanned.Load()
	u, ok := event.Object.(*unstructured.Unstructured)
	if t.selector != "" || scanned == nil || !ok {
		return true
	}
	o, err := scanned.rule.Object(u)
	return err != nil || o.NodeName == w.Node
}

func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// complain tells once that a watch is not allowed. Any other problem shows in the reads too.
func (w *waiter) complain(kept *watched, err error) {
	if !apierrors.IsForbidden(err) || kept.problem == err.Error() {
		return
	}
	kept.problem = err.Error()
	w.print(fmt.Sprintf("note: this account may not %s: %s; looking again every few seconds instead", kept.target.request("watch"), err))
}
