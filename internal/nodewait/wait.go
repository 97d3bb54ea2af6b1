// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/served"
)

const (
	// lookInterval and scanInterval are the least times between two looks without an event; a scan reads every object of the
	// resource. Jitter adds up to half of them, so that nodes that started together drift apart.
	lookInterval = 9 * time.Second
	scanInterval = time.Minute
	// eventPause is the least time between two looks that events cause.
	eventPause = time.Second
	jitter     = 0.5
	// reminderInterval is how often an unchanged state is reported again.
	reminderInterval = time.Minute
)

var errTimedOut = errors.New("time-out")

// waiter is one wait. It belongs to the goroutine of Until.
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

	aim                      target // where the objects are
	version                  string // of the last list of them
	nodeStream, objectStream stream
	notes                    sets.Set[string] // about watches, each printed once
}

// Until waits until what the agent of a node will read speaks for the live Node. It returns nil when it is ready, a
// *TimeoutError, or ErrStopped. Any other error is a mistake in the options.
func Until(ctx context.Context, o Options) error {
	w := newWaiter(o)
	if err := w.readOptions(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer w.nodeStream.close()
	defer w.objectStream.close()
	if o.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, errTimedOut)
		defer cancel()
	}
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
	return &waiter{Options: o, started: time.Now(), notes: sets.New[string]()}
}

// readOptions makes a rule of the options where there is no policy.
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
		return fmt.Errorf("%s cannot be waited for: %w", w.Resource.GroupResource(), err)
	}
	w.rule = rule{Compiled: compiled, key: policy.Name}
	return nil
}

// look reads everything once, the Node last (see the package comment).
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
	w.aim = t
	if err != nil {
		return "", err
	}
	n, err := w.readNode(ctx)
	if err != nil {
		return "", err
	}
	return w.judge(r, t, objects, n)
}

// report writes a line for a new state, and a reminder for an unchanged one.
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
	fmt.Fprintln(w.Err, line)
}

func (w *waiter) passed() time.Duration { return time.Since(w.started).Round(time.Second) }

func (w *waiter) ended(ctx context.Context) error {
	if !errors.Is(context.Cause(ctx), errTimedOut) {
		return ErrStopped
	}
	timeout := &TimeoutError{After: w.Timeout, State: "the API server has not responded once"}
	if w.last != nil {
		timeout.State, timeout.Advice = w.last.what, w.last.advice
	}
	return timeout
}
