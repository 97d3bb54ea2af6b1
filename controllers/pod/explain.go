// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// explain reports why a pod's addresses are held, by gauge, event, pod condition and record condition with one reason, and only if it changes. The
// grace period is not reported, and neither are reads that fail for less than reportUnreadAfter. later is the rest of a wait that is not reported yet.
func (r *Reconciler) explain(ctx context.Context, v *view, d release.Decision) (later time.Duration, err error) {
	if d.Reason == v1alpha1.ReasonGracePeriod || (d.Reason == v1alpha1.ReasonObservationFailed && !r.held.unreadFor(v.uid, r.clock.Now(), reportUnreadAfter)) {
		return 0, nil
	}
	if later = r.unusualIn(v, d); later > 0 {
		return later, nil
	}
	if contested := v.contested(); d.Reason == v1alpha1.ReasonConflict && contested != "" {
		d.Message = contested + ": " + d.Message
	}
	changed := r.held.set(v.uid, d.Reason)
	if changed {
		r.event(v, d, d.Reason, d.Message)
	}
	if err := r.explainOnPod(ctx, v, d); err != nil {
		return 0, err
	}
	return 0, r.explainOnRecord(ctx, v, d)
}

// usual are the reasons for which a pod waits while its kubelet is late, as after a burst of deletions: most such waits end within seconds.
var usual = sets.New(v1alpha1.ReasonAwaitingNodeResponse, v1alpha1.ReasonSandboxRunning, v1alpha1.ReasonMayBeStarting, v1alpha1.ReasonKubeletNotFinished)

// unusualIn is the time until a wait for the kubelet of a Ready node is reported, in the third of the slack that follows the slack. Before and after that
// each wait is reported at once, so that none is kept back for longer; an explanation that stands is kept up to date (docs/decisions/0302).
func (r *Reconciler) unusualIn(v *view, d release.Decision) time.Duration {
	isReady := v.node.IsKnown() && v.node.Get().Ready
	if !usual.Has(d.Reason) || !isReady || v.pod == nil || v.pod.DeletionTimestamp == nil || r.held.has(v.uid) {
		return 0
	}
	slack := r.options.Settings.GracePeriodSlack
	left := v.pod.DeletionTimestamp.Add(slack + slack/3).Sub(r.clock.Now())
	if left > slack/3 {
		return 0
	}
	return left
}

// explainOnPod writes the pod condition.
func (r *Reconciler) explainOnPod(ctx context.Context, v *view, d release.Decision) error {
	if v.pod == nil || v.pod.DeletionTimestamp == nil || hasCondition(v.pod, d) {
		return nil
	}
	if err := r.options.Shadow.Withhold(ctx, shadow.Explain, fmt.Sprintf("%s: %s", v.target(), d.Reason), d.Message); err != nil {
		return shadow.Ignore(err) // the event and the record have the reason
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.uid},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": v1alpha1.IPsReleasedCondition, "status": string(corev1.ConditionFalse), "reason": string(d.Reason), "message": d.Message,
			"lastTransitionTime": metav1.NewTime(r.clock.Now()).UTC().Format("2006-01-02T15:04:05Z"),
		}}},
	})
	if err != nil {
		return fmt.Errorf("encoding the condition of %s: %w", v.podName(), err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v.pod.Namespace, Name: v.pod.Name}}
	err = r.client.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(finalizer.FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the condition of %s: %w", v.podName(), err)
	}
	return nil // a deleted pod needs no condition
}

// hasCondition says whether the pod's condition needs no write.
func hasCondition(pod *corev1.Pod, d release.Decision) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1alpha1.IPsReleasedCondition {
			return c.Reason == string(d.Reason) && (c.Message == d.Message || release.IsFailure(d.Reason))
		}
	}
	return false
}

// explainOnRecord writes state and condition of the record.
func (r *Reconciler) explainOnRecord(ctx context.Context, v *view, d release.Decision) error {
	if v.record == nil {
		return nil
	}
	state := v1alpha1.StateHeld
	switch {
	case d.Reason == v1alpha1.ReasonConflict || v.supersededAny():
		state = v1alpha1.StateConflict
	case d.Reason == v1alpha1.ReasonReleaseFailed, d.Reason == v1alpha1.ReasonUnprotectFailed:
		state = v1alpha1.StateReleasing
	}
	message := d.Message
	if last := meta.FindStatusCondition(v.record.Status.Conditions, v1alpha1.ReleasedCondition); last != nil &&
		last.Reason == string(d.Reason) && release.IsFailure(d.Reason) {
		message = last.Message
	}
	return r.setRecordState(ctx, v, state, metav1.ConditionFalse, d.Reason, message)
}

// keep sets the condition of a pod that uses its addresses, if it had one before; a conflict is still reported.
func (r *Reconciler) keep(ctx context.Context, v *view) error {
	conflict := v.supersededAny() || v.conflictAny()
	if !conflict {
		r.held.remove(v.uid)
	}
	switch {
	case v.record == nil && len(v.held) == 0 && v.pod != nil:
		return r.unprotectEarly(ctx, v)
	case v.record == nil:
		return nil
	case conflict:
		message := v.contested() + ": another sandbox has it too, in its pool or by a record (kubectl holdfast who ADDRESS shows both); neither is released until one of them is proven gone"
		if r.held.set(v.uid, v1alpha1.ReasonConflict) {
			r.event(v, release.Decision{Action: release.Keep}, v1alpha1.ReasonConflict, message)
		}
		return r.setRecordState(ctx, v, v1alpha1.StateConflict, metav1.ConditionFalse, v1alpha1.ReasonConflict, message)
	case v.record.Status.State.IsInUse():
		return nil
	}
	if facts.Ending(v.podFact, v.record).ByKubelet() {
		return r.setRecordState(ctx, v, v1alpha1.StateInUse, metav1.ConditionTrue, v1alpha1.ReasonNoIPsHeld, "the pod is terminated and has no address any more")
	}
	return r.setRecordState(ctx, v, v1alpha1.StateInUse, metav1.ConditionFalse, v1alpha1.ReasonPodInUse, "the pod uses its addresses")
}

func (r *Reconciler) setRecordState(ctx context.Context, v *view, state v1alpha1.AllocationState, status metav1.ConditionStatus,
	reason v1alpha1.Reason, message string) error {
	record := v.record.DeepCopy()
	record.Status.State = state
	changed := meta.SetStatusCondition(&record.Status.Conditions, metav1.Condition{Type: v1alpha1.ReleasedCondition, Status: status,
		Reason: string(reason), Message: message, LastTransitionTime: metav1.NewTime(r.clock.Now())})
	if !changed && v.record.Status.State == state {
		return nil
	}
	// A merge patch writes all conditions. After a write by another leader, the new version of the record queues the pod again.
	patch := client.MergeFromWithOptions(v.record, client.MergeFromWithOptimisticLock{})
	err := r.client.Status().Patch(ctx, record, patch, client.FieldOwner(finalizer.FieldManager))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing the condition of the record of %s: %w", v.podName(), err)
	}
	return nil
}

func (v *view) supersededAny() bool { return slices.ContainsFunc(v.held, isSuperseded) }

func isSuperseded(held facts.Held) bool { return held.Superseded && !held.Removed && !held.Followed }

func (v *view) conflictAny() bool { return slices.ContainsFunc(v.held, isConflict) }

func isConflict(held facts.Held) bool { return held.Conflict && !held.Quiet }

// contested names the addresses that are in a conflict.
func (v *view) contested() string {
	var addresses []string
	for i := range v.held {
		if held := v.held[i]; isSuperseded(held) || held.Conflict {
			addresses = append(addresses, fmt.Sprintf("%s in pool %s", held.IP, held.Pool))
		}
	}
	slices.Sort(addresses)
	return strings.Join(slices.Compact(addresses), ", ")
}

// warnings are the reasons of events of type Warning.
var warnings = sets.New(v1alpha1.ReasonReleaseFailed, v1alpha1.ReasonUnprotectFailed, v1alpha1.ReasonConflict, v1alpha1.ReasonNodeUnreachable,
	v1alpha1.ReasonObservationFailed, v1alpha1.ReasonUnclassified, v1alpha1.ReasonNodeOutOfService, v1alpha1.ReasonNodeGone,
	v1alpha1.ReasonNodeReplaced, v1alpha1.ReasonAgentNotResponding, v1alpha1.ReasonAddressKept)

// event writes an event about the pod or, once it is deleted, about its record.
func (r *Reconciler) event(v *view, d release.Decision, reason v1alpha1.Reason, note string) {
	var about runtime.Object
	switch {
	case v.pod != nil:
		about = v.pod
	case v.record != nil:
		about = v.record
	default:
		return
	}
	kind := corev1.EventTypeNormal
	if warnings.Has(reason) {
		kind = corev1.EventTypeWarning
	}
	r.recorder.Eventf(about, nil, kind, string(reason), string(d.Action), "%s", eventlimit.Note(note))
}

// reportUnreadAfter is how long reads have to fail before that is reported.
const reportUnreadAfter = 2 * time.Second

// heldPods is the gauge of waits by reason.
type heldPods struct {
	mu      sync.Mutex
	reasons map[types.UID]v1alpha1.Reason
	// unread is since when reads about a UID fail, or the removal of its finalizer.
	unread map[types.UID]time.Time
}

func newHeldPods() *heldPods {
	return &heldPods{reasons: map[types.UID]v1alpha1.Reason{}, unread: map[types.UID]time.Time{}}
}

// unreadFor records a failure about a UID, and says whether it has lasted for at least the duration.
func (h *heldPods) unreadFor(uid types.UID, now time.Time, long time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	since, failing := h.unread[uid]
	if !failing {
		h.unread[uid], since = now, now
	}
	return now.Sub(since) >= long
}

// wasRead ends what unreadFor began.
func (h *heldPods) wasRead(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.unread, uid)
}

// set records why a UID is held, and says whether the reason changed.
func (h *heldPods) set(uid types.UID, reason v1alpha1.Reason) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, held := h.reasons[uid]
	if held && before == reason {
		return false
	}
	if held {
		count(before, -1)
	}
	h.reasons[uid] = reason
	count(reason, 1)
	return true
}

// has says whether a reason for the UID is counted.
func (h *heldPods) has(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, held := h.reasons[uid]
	return held
}

// is says whether the reason for the UID is counted.
func (h *heldPods) is(uid types.UID, reason v1alpha1.Reason) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reasons[uid] == reason
}

func (h *heldPods) remove(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.unread, uid)
	if reason, held := h.reasons[uid]; held {
		count(reason, -1)
		delete(h.reasons, uid)
	}
}

func count(reason v1alpha1.Reason, by float64) {
	metrics.HeldPods.WithLabelValues(string(reason)).Add(by)
	if reason == v1alpha1.ReasonConflict {
		metrics.Conflicts.Add(by)
	}
}
