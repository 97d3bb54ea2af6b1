// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"strconv"
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
	// done is called after a statement left the writer; superseded if the record was another by then.
	done  func(superseded bool)
	queue workqueue.TypedRateLimitingInterface[string]

	mu      sync.Mutex
	waiting map[string]*statement
	// wrote is when something was written into a record last, and the first version of the record that has it.
	wrote map[string]wrote
}

type wrote struct {
	at      time.Time
	version uint64
}

func newWriter(c client.Client, who *identity, clock clock.WithTicker, log logr.Logger, done func(superseded bool)) *writer {
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock})
	return &writer{client: c, identity: who, clock: clock, log: log, done: done, queue: queue,
		waiting: map[string]*statement{}, wrote: map[string]wrote{}}
}

// put replaces what waits to be written into the record; false if that is no news. A statement that was made from a record older
// than what waits, or than the last write, is dropped: the watch will bring the newer one.
func (w *writer) put(s *statement) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	standing, queued := w.waiting[s.name]
	if w.superseded(s) || (queued && s.version < standing.version) {
		return false
	}
	w.waiting[s.name] = s
	if queued {
		return !standing.equal(s)
	}
	if last, before := w.wrote[s.name]; before && w.clock.Now().Sub(last.at) < writeEvery {
		w.queue.AddAfter(s.name, writeEvery-w.clock.Now().Sub(last.at))
		return true
	}
	w.queue.Add(s.name)
	return true
}

// superseded: the statement was made without what was written last. After a while that is forgotten: of a record whose history began
// again, because etcd was restored, every version may be a smaller one.
func (w *writer) superseded(s *statement) bool {
	last, before := w.wrote[s.name]
	return before && s.version < last.version && w.clock.Now().Sub(last.at) <= lastRetry
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
	superseded := version == 0
	if superseded {
		// Nothing that was made from this version, or an older one, can be written any more.
		version = s.version + 1
	}
	w.note(name, version)
	w.done(superseded)
}

// take gives what waits to be written into a record; nil without anything, and if it was made without what was written since.
func (w *writer) take(name string) *statement {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.waiting[name]
	delete(w.waiting, name)
	if s == nil || w.superseded(s) {
		return nil
	}
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
	w.wrote[name] = wrote{at: now, version: version}
}

// write applies a statement under the agent's own Node UID, read live. It gives the record's version afterwards; zero if the record
// is gone or another one than that from which the statement was made, or the agent no longer speaks for that Node and boot.
func (w *writer) write(ctx context.Context, s *statement) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	me, err := w.identity.fresh(ctx)
	if err != nil {
		return 0, err
	}
	if me.nodeUID != s.nodeUID || me.bootID != s.bootID {
		w.log.Info("Not said, because the agent does not speak for that Node and boot any more", "record", s.name, "nodeUID", s.nodeUID, "bootID", s.bootID,
			"now", me.nodeUID, "nowBootID", me.bootID, "reason", me.message)
		return 0, nil
	}
	applied, err := s.apply()
	if err != nil {
		return 0, err
	}
	err = w.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.ForceOwnership, client.FieldOwner(fieldManager(s)))
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		// With force, the record's UID and version are all that can conflict. What stands in the next round is said again.
		return 0, nil
	case apierrors.IsForbidden(err) && w.overtaken(ctx, s):
		// A policy says of whose records this agent may speak, and this record has become another node's, or another one.
		w.log.Info("Not said, because the record has changed since and may not be answered like that any more", "record", s.name, "refusal", err.Error())
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

// overtaken reads a record anew, by a list, which is what an agent may: it is gone, or not the one any more from which the statement was made.
// What cannot be read has not changed: who may not write and why is then told as the failure that it is.
func (w *writer) overtaken(ctx context.Context, s *statement) bool {
	var found v1alpha1.IPAllocationList
	if err := w.client.List(ctx, &found, client.MatchingFields{metav1.ObjectNameField: s.name}); err != nil {
		return false
	}
	for i := range found.Items {
		if found.Items[i].UID == s.record && found.Items[i].ResourceVersion == strconv.FormatUint(s.version, 10) {
			return false
		}
	}
	return true
}

func fieldManager(s *statement) string { return Name + "-" + string(s.nodeUID) }

// apply is the statement as server-side apply takes it: the record's UID keeps it from another record of the same name, and its
// version from undoing what was said since, by a write whose outcome was never heard of, or to a mark that is another by now.
func (s *statement) apply() (*unstructured.Unstructured, error) {
	status := v1alpha1.IPAllocationStatus{Answers: s.answers}
	if s.condition != nil {
		status.Conditions = []metav1.Condition{*s.condition}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("writing out answers for IPAllocation %s: %w", s.name, err)
	}
	applied := &unstructured.Unstructured{Object: map[string]any{}}
	if len(content) > 0 {
		// To apply an empty status would take the last field out of it and leave null.
		applied.Object["status"] = content
	}
	applied.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("IPAllocation"))
	applied.SetName(s.name)
	applied.SetUID(s.record)
	applied.SetResourceVersion(strconv.FormatUint(s.version, 10))
	return applied, nil
}
