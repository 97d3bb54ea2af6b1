// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/served"
)

const (
	// lookInterval is the shortest time between looks that no watch asked for, and scanInterval the same where a look reads
	// every object of the resource. Jitter adds up to half of them, so that nodes that started together drift apart.
	lookInterval = 9 * time.Second
	scanInterval = time.Minute
	// eventPause is the shortest time between looks that watches ask for.
	eventPause = time.Second
	jitter     = 0.5
	// reminderInterval is how long the same state stays without another line.
	reminderInterval = time.Minute
)

var errTimedOut = errors.New("time-out")

// waiter is one wait. Its fields belong to the goroutine of Until, apart from those that say otherwise.
type waiter struct {
	Options
	started time.Time

	rule rule // the last one that could be used
	// found is the resource as it was discovered for the rule foundFor; unselectable says that the API server cannot
	// select its objects by the field of the node's name.
	found        served.Resource
	foundFor     string
	unselectable bool

	last     *obstacle // the last state
	reported string    // its line
	reportAt time.Time

	// woken gets a word when a watch saw something.
	woken    chan struct{}
	watchers sync.WaitGroup
	aim      target              // where the objects are
	watching map[string]*watched // by what is watched
	// scanned is for the watch of every object, which runs beside.
	scanned atomic.Pointer[scan]
	printed sync.Mutex // for Err
}

// Until waits until what the agent of a node will read speaks for the live Node. It returns nil when it is ready, a
// *UsageError for a mistake in the options, a *TimeoutError, or ErrStopped.
func Until(ctx context.Context, o Options) error {
	w := newWaiter(o)
	if err := w.readOptions(); err != nil {
		return err
	}
	ctx, cancel := w.bounded(ctx)
	defer w.watchers.Wait()
	defer cancel()
	for {
		line, err := w.look(ctx)
		if err == nil {
			fmt.Fprintf(w.Out, "ready after %s: %s\n", w.passed(), line)
			return nil
		}
		if ctx.Err() != nil {
			return w.ended(ctx)
		}
		var waitFor *obstacle
		if !errors.As(err, &waitFor) {
			return err
		}
		w.report(waitFor)
		if !w.rest(ctx) {
			return w.ended(ctx)
		}
	}
}

func newWaiter(o Options) *waiter {
	return &waiter{Options: o, started: time.Now(), woken: make(chan struct{}, 1), watching: map[string]*watched{}}
}

// readOptions makes the command line a rule where there is no policy.
func (w *waiter) readOptions() error {
	if w.Policy != "" {
		return nil
	}
	versions := []string{"*"}
	if w.Resource.Version != "" {
		versions = []string{w.Resource.Version}
	}
	policy := &v1alpha1.NodeResourcePolicy{Spec: v1alpha1.NodeResourcePolicySpec{
		Resource: v1alpha1.GuardedResource{Group: w.Resource.Group, Resource: w.Resource.Resource, Versions: versions},
		NodeUID:  v1alpha1.NodeUIDSource{Presence: v1alpha1.UIDRequired, Annotation: w.UIDAnnotation},
		Action:   v1alpha1.PolicyAudit, // what may not be refused may still be waited for
	}}
	policy.Name = "command-line"
	compiled, err := nodepolicy.Compile(policy)
	if err != nil {
		return &UsageError{fmt.Sprintf("%s cannot be waited for: %s", w.Resource.GroupResource(), err)}
	}
	w.rule = rule{Compiled: compiled, key: policy.Name}
	return nil
}

func (w *waiter) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.Timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, w.Timeout, errTimedOut)
}

// look reads everything once, and the Node last: see the package comment.
func (w *waiter) look(ctx context.Context) (string, error) {
	r, err := w.readRule(ctx)
	if err != nil {
		return "", err
	}
	t, err := w.locate(ctx, r)
	if err != nil {
		return "", err
	}
	objects, err := w.readObjects(ctx, &t)
	w.follow(r, t, objects)
	if err != nil {
		return "", err
	}
	n, err := w.readNode(ctx)
	if err != nil {
		return "", err
	}
	return w.judge(r, t, objects.objects, n)
}

// rest returns when it is time for the next look; false when there is none.
func (w *waiter) rest(ctx context.Context) bool {
	w.subscribe(ctx)
	if !pause(ctx, wait.Jitter(eventPause, jitter)) {
		return false
	}
	interval := lookInterval
	if w.scanned.Load() != nil {
		interval = scanInterval
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.woken:
	case <-time.After(wait.Jitter(interval, jitter)):
	}
	return true
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// report writes a line when the state is another, and a reminder when it stays.
func (w *waiter) report(o *obstacle) {
	w.last = o
	if o.what == w.reported && time.Since(w.reportAt) < reminderInterval {
		return
	}
	w.reported, w.reportAt = o.what, time.Now()
	line := fmt.Sprintf("waiting %s: %s", w.passed(), o.what)
	if w.Timeout > 0 {
		line += fmt.Sprintf("; time-out in %s", (w.Timeout - time.Since(w.started)).Round(time.Second))
	}
	w.print(line)
}

func (w *waiter) print(line string) {
	w.printed.Lock()
	defer w.printed.Unlock()
	fmt.Fprintln(w.Err, line)
}

func (w *waiter) passed() time.Duration { return time.Since(w.started).Round(time.Second) }

func (w *waiter) ended(ctx context.Context) error {
	if !errors.Is(context.Cause(ctx), errTimedOut) {
		return ErrStopped
	}
	timeout := &TimeoutError{After: w.Timeout, State: "the API server has not answered once"}
	if w.last != nil {
		timeout.State, timeout.Advice = w.last.what, w.last.advice
	}
	return timeout
}
