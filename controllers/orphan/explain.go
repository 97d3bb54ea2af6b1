// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// explain reports why the addresses are held: at once by gauge, and by event and condition with one reason. A first explanation of a wait that every
// orphan has waits until that is unusual. A message that changes alone, as with each node that acknowledges, is written at most every
// messageInterval. later is the remaining wait.
func (r *Reconciler) explain(ctx context.Context, v *view, d orphan.Decision) (later time.Duration, err error) {
	r.known.set(v.id, d.Reason, v.reported())
	state, message := v.state(d), d.Message
	if v.facts.Entries.Get().TakenOver {
		message = takenOverMessage + ": " + message
	}
	last := meta.FindStatusCondition(v.record.Status.Conditions, v1alpha1.ReleasedCondition)
	if later = r.unusualIn(v, d); last == nil && later > 0 {
		return later, nil
	}
	isNew := last == nil || last.Reason != string(d.Reason) || v.record.Status.State != state
	if !isNew && last.Message == message {
		return 0, nil
	}
	if later = r.known.messageDue(v.id, r.clock.Now(), r.messageInterval()); !isNew && later > 0 {
		return later, nil
	}
	updated := v.record.DeepCopy()
	updated.Status.State = state
	meta.SetStatusCondition(&updated.Status.Conditions, metav1.Condition{Type: v1alpha1.ReleasedCondition, Status: metav1.ConditionFalse,
		Reason: string(d.Reason), Message: message, LastTransitionTime: metav1.NewTime(r.clock.Now())})
	// The update names the version that was read, so that it reverts no later change.
	if err := r.client.Status().Update(ctx, updated, client.FieldOwner(finalizer.FieldManager)); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	r.known.messageWritten(v.id, r.clock.Now())
	v.record = updated
	if isNew {
		r.event(updated, corev1.EventTypeWarning, d, message)
	}
	return 0, nil
}

// unusualIn is the time until a wait is longer than that of an orphan that is reclaimed without anyone's help; zero or less means that it is unusual
// already. An agent that never saw a sandbox responds sandboxCreationMax after the query, and what it responds is collected. In mode Shadow nothing is
// reclaimed.
func (r *Reconciler) unusualIn(v *view, d orphan.Decision) time.Duration {
	if !d.IsUsual() || r.options.Shadow != nil || v.state(d) == v1alpha1.StateConflict {
		return 0
	}
	since, settings := v.record.CreationTimestamp.Time, r.options.Settings
	if v.facts.Query.Made.After(since) {
		since = v.facts.Query.Made
	}
	return since.Add(max(settings.NodeGoneDelay, settings.ReleaseDelay) + settings.SandboxCreationMax + reclaimerGather).Sub(r.clock.Now())
}

// explainStep is explain after a step whose own events lead to the next pass.
func (r *Reconciler) explainStep(ctx context.Context, v *view, d orphan.Decision) error {
	_, err := r.explain(ctx, v, d)
	return err
}

// reported is the number of entries in the gauge of orphans. Those of a ResourceClaim have an owner and must not raise an alert.
func (v *view) reported() int {
	if v.facts.Owner == ownership.KindResourceClaim {
		return 0
	}
	return len(v.entries)
}

func (v *view) state(d orphan.Decision) v1alpha1.AllocationState {
	if d.Reason == v1alpha1.ReasonConflict || d.Reason == v1alpha1.ReasonClaimedTwice || v.facts.Entries.Get().TakenOver {
		return v1alpha1.StateConflict
	}
	return v1alpha1.StateOrphaned
}

// messageInterval is the shortest time between two messages of one reason.
func (r *Reconciler) messageInterval() time.Duration { return r.options.Settings.SandboxCreationMax }

// event writes an event about a record.
func (r *Reconciler) event(record *v1alpha1.IPAllocation, kind string, d orphan.Decision, note string) {
	r.recorder.Eventf(record, nil, kind, string(d.Reason), string(d.Action), "%s", eventlimit.Note(note))
}

// postponedEvents are events that the next pass of their orphan emits: those of a thousand releases at one instant would be refused for the most part,
// and so would be what the manager writes beside them.
type postponedEvents struct {
	mu     sync.Mutex
	events map[sandboxID][]func()
}

func (p *postponedEvents) add(id sandboxID, event func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events == nil {
		p.events = map[sandboxID][]func(){}
	}
	p.events[id] = append(p.events[id], event)
}

func (p *postponedEvents) emit(id sandboxID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, event := range p.events[id] {
		event()
	}
	delete(p.events, id)
}

const takenOverMessage = "the pool has an address of this sandbox, whose owner is unknown, for another sandbox by now: neither is released " +
	"until this sandbox is proven gone; once you know that it is, annotate this record holdfast.dev/break-glass=REASON and delete it"

// orphanSet is the state behind the gauges of orphans.
type orphanSet struct {
	mu      sync.Mutex
	members map[sandboxID]knownOrphan
}

type knownOrphan struct {
	entries int
	reason  v1alpha1.Reason
	// written is when this process last wrote its condition.
	written time.Time
}

func newOrphanSet() *orphanSet { return &orphanSet{members: map[sandboxID]knownOrphan{}} }

// set records what an orphan waits for; an empty reason removes the orphan.
func (o *orphanSet) set(id sandboxID, reason v1alpha1.Reason, entries int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.members[id]
	metrics.Orphans.Add(float64(entries - before.entries))
	if before.reason != "" {
		metrics.OrphanSandboxes.WithLabelValues(string(before.reason)).Dec()
	}
	if reason == "" {
		delete(o.members, id)
		return
	}
	metrics.OrphanSandboxes.WithLabelValues(string(reason)).Inc()
	before.reason, before.entries = reason, entries
	o.members[id] = before
}

// messageDue is the time until an orphan's condition may get another message; zero or less means now.
func (o *orphanSet) messageDue(id sandboxID, now time.Time, pause time.Duration) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.members[id].written.Add(pause).Sub(now)
}

func (o *orphanSet) messageWritten(id sandboxID, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.members[id]; ok {
		known.written = now
		o.members[id] = known
	}
}
