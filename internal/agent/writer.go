// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

const (
	// writeEvery is the least time between two writes of one record.
	writeEvery = time.Second
	// firstRetry and lastRetry bound the back-off after a failed write. It is tried for ever.
	firstRetry, lastRetry = time.Second, time.Minute
)

// writer writes statements, the newest of each record, by server-side apply. Each Node UID is a field manager of its own: what
// was said under an earlier one stays as it is.
type writer struct {
	client   client.Client
	identity *identity
	clock    clock.PassiveClock
	log      logr.Logger
	// written asks for a round: what was written counts for the acknowledgement.
	written func()
	queue   workqueue.TypedRateLimitingInterface[string]

	mu      sync.Mutex
	waiting map[string]*statement
	// wrote is when, and at which version of the record, something was written last.
	wrote map[string]mark
}

type mark struct {
	at      time.Time
	version uint64
}

func newWriter(c client.Client, who *identity, clock clock.WithTicker, log logr.Logger, written func()) *writer {
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock})
	return &writer{client: c, identity: who, clock: clock, log: log, written: written, queue: queue,
		waiting: map[string]*statement{}, wrote: map[string]mark{}}
}

// put replaces what waits to be written into the record; false if the same waits already. A statement that was made from a
// record older than the last write is dropped: the watch will bring the newer one.
func (w *writer) put(s *statement) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, before := w.wrote[s.name]
	standing, queued := w.waiting[s.name]
	if before && s.version < last.version || queued && standing.equal(s) {
		return false
	}
	w.waiting[s.name] = s
	if queued {
		return true
	}
	if wait := writeEvery - w.clock.Now().Sub(last.at); before && wait > 0 {
		w.queue.AddAfter(s.name, wait)
		return true
	}
	w.queue.Add(s.name)
	return true
}

// run writes until ctx ends.
func (w *writer) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, w.queue.ShutDown)
	defer stop()
	for {
		name, shutdown := w.queue.Get()
		if shutdown {
			return
		}
		w.next(ctx, name)
		w.queue.Done(name)
	}
}

func (w *writer) next(ctx context.Context, name string) {
	s := w.take(name)
	if s == nil {
		return
	}
	version, err := w.write(ctx, s)
	switch {
	case err != nil && ctx.Err() == nil:
		metrics.AgentWriteFailures.WithLabelValues(metrics.AgentWroteAnswer).Inc()
		w.log.Error(err, "Writing answers; trying again", "record", name)
		w.giveBack(s)
		w.queue.AddRateLimited(name)
		return
	case err != nil:
		return
	}
	w.queue.Forget(name)
	w.note(name, version)
	w.written()
}

func (w *writer) take(name string) *statement {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.waiting[name]
	delete(w.waiting, name)
	return s
}

// giveBack keeps a statement that could not be written, unless there is a newer one.
func (w *writer) giveBack(s *statement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, newer := w.waiting[s.name]; !newer {
		w.waiting[s.name] = s
	}
}

// note remembers a write, and forgets those that no longer matter.
func (w *writer) note(name string, version uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	for other, last := range w.wrote {
		if now.Sub(last.at) > lastRetry {
			delete(w.wrote, other)
		}
	}
	w.wrote[name] = mark{at: now, version: version}
}

// write applies a statement under the agent's own Node UID, read live. It gives the record's version afterwards; zero if there
// is nothing to write into, or the agent no longer speaks for that UID.
func (w *writer) write(ctx context.Context, s *statement) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	me, err := w.identity.fresh(ctx)
	if err != nil {
		return 0, err
	}
	if me.nodeUID != s.nodeUID {
		w.log.Info("Not said, because the agent does not speak for that Node any more", "record", s.name, "nodeUID", s.nodeUID, "now", me.nodeUID, "reason", me.message)
		return 0, nil
	}
	applied, err := s.apply()
	if err != nil {
		return 0, err
	}
	err = w.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.ForceOwnership, client.FieldOwner(fieldManager(s)))
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		// With force, the record's UID is all that can conflict. What stands in the next round is said again.
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("applying answers to IPAllocation %s: %w", s.name, err)
	}
	w.log.Info("Said", "record", s.name, "answers", s.describe())
	for _, given := range s.answers {
		metrics.AgentAnswers.WithLabelValues(string(given.Verdict), given.Reason).Inc()
	}
	version, err := parseVersion(applied.GetResourceVersion())
	return version, err
}

func fieldManager(s *statement) string { return Name + "-" + string(s.nodeUID) }

// apply is the statement as server-side apply takes it: the record's UID keeps it from another record of the same name.
func (s *statement) apply() (*unstructured.Unstructured, error) {
	status := v1alpha1.IPAllocationStatus{Answers: s.answers}
	if s.condition != nil {
		status.Conditions = []metav1.Condition{*s.condition}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("writing out answers for IPAllocation %s: %w", s.name, err)
	}
	applied := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	applied.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("IPAllocation"))
	applied.SetName(s.name)
	applied.SetUID(s.record)
	return applied, nil
}
