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
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// explain says why the addresses are held: gauge, event and condition of the record, with one reason. A message that changes alone,
// as it does with each node that acknowledges, is written rarely, because every agent watches these records: later is when it may be.
func (r *Reconciler) explain(ctx context.Context, v *view, d orphan.Decision) (later time.Duration, err error) {
	r.known.set(v.id, d.Reason, v.reported())
	state, message := v.state(d), d.Message
	if v.facts.Entries.Get().TakenOver {
		message = takenOverMessage + ": " + message
	}
	said := meta.FindStatusCondition(v.record.Status.Conditions, v1alpha1.ReleasedCondition)
	news := said == nil || said.Reason != string(d.Reason) || v.record.Status.State != state
	if !news && said.Message == message {
		return 0, nil
	}
	if later = r.known.rewordIn(v.id, r.clock.Now(), r.rewordAfter()); !news && later > 0 {
		return later, nil
	}
	updated := v.record.DeepCopy()
	updated.Status.State = state
	meta.SetStatusCondition(&updated.Status.Conditions, metav1.Condition{Type: v1alpha1.ReleasedCondition, Status: metav1.ConditionFalse,
		Reason: string(d.Reason), Message: message, LastTransitionTime: metav1.NewTime(r.clock.Now())})
	// With the version that was read: what agents have said since must not be taken back.
	if err := r.client.Status().Update(ctx, updated, client.FieldOwner(finalizer.FieldManager)); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	r.known.reworded(v.id, r.clock.Now())
	v.record = updated
	if news {
		r.tell(updated, corev1.EventTypeWarning, d, message)
	}
	return 0, nil
}

// tellStep is explain for a step that was just taken: its own events lead to the next look.
func (r *Reconciler) tellStep(ctx context.Context, v *view, d orphan.Decision) error {
	_, err := r.explain(ctx, v, d)
	return err
}

// reported is how many entries the gauge of orphans counts. Those of a ResourceClaim have an owner, and are no reason for an alert.
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

// rewordAfter is the least time between two wordings of one reason.
func (r *Reconciler) rewordAfter() time.Duration { return r.options.Settings.SandboxCreationMax }

// tell writes an event about a record.
func (r *Reconciler) tell(record *v1alpha1.IPAllocation, kind string, d orphan.Decision, note string) {
	const limit = 1000 // events.k8s.io refuses notes of 1 KiB and more
	if len(note) > limit {
		note = note[:limit]
	}
	r.recorder.Eventf(record, nil, kind, string(d.Reason), string(d.Action), "%s", note)
}

const takenOverMessage = "an address of this sandbox, with an unknown owner, stands in its pool for another sandbox by now: neither is released " +
	"until this one is proven gone; once you know that it is, annotate this record holdfast.dev/break-glass=REASON and delete it"

// orphanSet is what is known of the orphans on record: the gauges.
type orphanSet struct {
	mu      sync.Mutex
	members map[sandboxID]knownOrphan
}

type knownOrphan struct {
	entries int
	reason  v1alpha1.Reason
	// worded is when its condition was written last by this process.
	worded time.Time
}

func newOrphanSet() *orphanSet { return &orphanSet{members: map[sandboxID]knownOrphan{}} }

// set notes what an orphan waits for; without a reason there is none any more.
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

// rewordIn is how long until an orphan's condition may be worded anew; zero or less is now.
func (o *orphanSet) rewordIn(id sandboxID, now time.Time, pause time.Duration) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.members[id].worded.Add(pause).Sub(now)
}

func (o *orphanSet) reworded(id sandboxID, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.members[id]; ok {
		known.worded = now
		o.members[id] = known
	}
}
