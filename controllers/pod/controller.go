// SPDX-License-Identifier: Apache-2.0

// Package pod is the controller of a pod UID from its first address to the removal of the finalizer: read, facts, record, decide, apply, explain.
package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/exempt"
	"github.com/holdfast-dev/holdfast/controllers/liveness"
	"github.com/holdfast-dev/holdfast/controllers/owner"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// maxPasses bounds the passes within one Reconcile: on caches, live, after a release, unprotect. After that the UID is queued again.
const maxPasses = 4

// explainAgain is the retry interval for failed status writes during short waits.
const explainAgain = time.Second

// Reconciler reconciles one pod UID from its first address to the removal of the finalizer.
type Reconciler struct {
	client     client.Client
	live       client.Reader
	finalizers finalizer.Client
	owners     owner.Cache
	recorder   events.EventRecorder
	clock      clock.PassiveClock
	options    Options

	held *heldPods
	done *donePods
	// created is when this process created the records that its cache may not show yet, by pod UID.
	created sync.Map
	// turns are the priorities with which pods of gone Nodes were queued, by pod UID.
	turns  sync.Map
	behind poolsBehind
	// unproven are the pools of pods with sandboxes that are new to their records.
	unproven poolsBehind
	feed     queue.Feed[types.UID]
}

// Options configure the Reconciler.
type Options struct {
	// Fields without a comment are as in controllers.Options.
	Backends        []ipam.Backend
	Evidence        release.Evidence
	Settings        release.Settings
	Queries         *queries.Wanted
	Rules           protection.Rules
	Shadow          *shadow.Reporter
	Concurrency     int
	LastRetry       time.Duration
	SimulatedQueues bool
	PoliciesSince   func(context.Context) (time.Time, error)
	// Witness has seen the pods, and Liveness finds Nodes that resemble theirs.
	Witness  *witness.Pods
	Liveness *liveness.Observer
	// Gone is since when all of the given machines are gone; without machines, since when no Node has the name.
	Gone func(ctx context.Context, node string, machines []v1alpha1.NodeIdentity) (nodelife.Absence, error)
	// ReachedSince is since when the API server has been reached without a gap; while it is not, a time to come.
	ReachedSince func() time.Time
	// Running is called once pods are reconciled.
	Running func(context.Context)
}

// New makes a Reconciler that reads the cache and writes through c, and reads live through live.
func New(c client.Client, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock, o Options) *Reconciler {
	return &Reconciler{client: c, live: live, finalizers: finalizer.Client{Writer: c, Reader: live}, owners: owner.Cache{Reader: c, Witness: o.Witness},
		recorder: recorder, clock: clk, options: o, held: newHeldPods(), done: newDonePods()}
}

// Look queues pods.
func (r *Reconciler) Look(uids ...types.UID) { r.feed.Add(uids...) }

// Replay queues pods behind all others.
func (r *Reconciler) Replay(uids ...types.UID) { r.feed.AddLast(uids...) }

// +kubebuilder:rbac:groups=holdfast.dev,resources=ipallocations,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=holdfast.dev,resources=ipallocations/status,verbs=patch;update
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile observes the UID, decides by internal/release, and acts. A failure is retried with back-off without a bound, and a wait ends with its
// event.
func (r *Reconciler) Reconcile(ctx context.Context, uid types.UID) (reconcile.Result, error) {
	if r.done.has(ctx, r.client, uid) {
		return reconcile.Result{}, nil
	}
	live := false
	for range maxPasses {
		again, result, err := r.pass(ctx, uid, live)
		if err != nil || !again {
			return result, err
		}
		live = true
	}
	return reconcile.Result{RequeueAfter: time.Second}, nil
}

// pass observes, decides and acts once; again requests another pass, with every fact read live.
func (r *Reconciler) pass(ctx context.Context, uid types.UID, live bool) (again bool, result reconcile.Result, err error) {
	began := r.clock.Now() // before the reads, which then confirm that a delay is over
	seen, again, result, err := r.look(ctx, uid, live)
	if seen == nil || err != nil {
		return again, result, err
	}
	decision := release.Decide(seen.observation(r.options), began)
	log.FromContext(ctx).V(1).Info("Decided", "row", decision.Row, "action", string(decision.Action), "reason", decision.Reason, "live", live)
	return r.apply(ctx, seen, decision)
}

// apply carries a decision out: first the record and the pod's label, then the pools.
func (r *Reconciler) apply(ctx context.Context, seen *view, decision release.Decision) (again bool, result reconcile.Result, err error) {
	if decision.Readdress {
		return true, result, r.readdress(ctx, seen)
	}
	if !seen.live && seen.withdrawsReports(decision) {
		return true, result, nil
	}
	r.withdraw(seen, func(q facts.QueryKey) bool { return seen.isVoid(decision, q) })
	var unlabeled error
	if seen.lostLabel && decision.Action != release.Unprotect {
		unlabeled = r.finalizers.Relabel(ctx, seen.target()) // a failure does not delay the decision
	}
	if again, err = r.keepFromSuccessors(ctx, seen, decision); again || err != nil {
		return again, result, r.explainFailure(ctx, seen, decision, err)
	}
	again, result, err = r.act(ctx, seen, decision)
	if err == nil && !again && unlabeled != nil {
		err = fmt.Errorf("restoring the label of a guarded pod, without which it is not cached: %w", unlabeled)
	}
	return again, result, err
}

// look observes the UID and records what is new. There is no view if nothing is left of the UID, or if a cache is late: then again requests live
// reads.
func (r *Reconciler) look(ctx context.Context, uid types.UID, live bool) (seen *view, again bool, result reconcile.Result, err error) {
	seen, err = r.observe(ctx, uid, live)
	switch {
	case err != nil:
		return nil, false, result, err
	case seen.nothing():
		r.forget(uid)
		return nil, false, result, nil
	case seen.stale && !live:
		return nil, true, result, nil
	case seen.record == nil && seen.isTooLateToProtect():
		if skip, err := r.needsNoRecord(ctx, seen); skip || err != nil {
			return nil, false, result, err
		}
	}
	if learned, again, result, err := r.learn(ctx, seen); !learned {
		return nil, again, result, err
	}
	return seen, false, result, nil
}

// learn records what is new, from pools that are new enough.
func (r *Reconciler) learn(ctx context.Context, seen *view) (learned, again bool, result reconcile.Result, err error) {
	if after := r.awaitsRecord(seen); after > 0 {
		return false, false, reconcile.Result{RequeueAfter: after}, nil
	}
	if stand, again, result := r.standNow(ctx, seen); !stand {
		return false, again, result, nil
	}
	before := seen.record
	if err := r.syncRecord(ctx, seen); errors.Is(err, records.ErrStale) && !seen.live {
		return false, true, result, nil
	} else if err != nil {
		return false, false, result, r.explainRefusal(ctx, seen, err)
	}
	r.observeGone(ctx, seen, before)
	return true, false, result, nil
}

// needsNoRecord says whether the pod has only the label and no address, because it was released before or opted out.
func (r *Reconciler) needsNoRecord(ctx context.Context, seen *view) (bool, error) {
	if seen.heldRead.IsKnown() && len(seen.held)+len(seen.unowned) == 0 {
		return true, nil
	}
	return exempt.Pod(ctx, r.live, r.options.Rules, seen.pod)
}

// act carries a decision out.
func (r *Reconciler) act(ctx context.Context, seen *view, decision release.Decision) (again bool, result reconcile.Result, err error) {
	if decision.Action != release.Unprotect {
		r.behind.forget(seen.uid) // after a new sandbox, earlier versions of the pools do not count
	}
	if decision.Withheld != nil && decision.Action != release.Reread {
		if again, result, err = r.writePools(ctx, seen, *decision.Withheld); err == nil || shadow.Ignore(err) != nil {
			return again, result, err
		}
	}
	if wait, result := r.takeTurn(seen, decision); wait {
		return false, result, nil
	}
	switch decision.Action {
	case release.Reread:
		return true, result, nil
	case release.Confirm:
		result, err = r.confirm(ctx, seen, decision)
		if errors.Is(err, records.ErrStale) {
			return false, reconcile.Result{RequeueAfter: backoff.EventOverdue}, nil
		}
		return false, result, err
	case release.Release, release.Rewrite, release.Drop, release.Disown:
		return r.writePools(ctx, seen, decision)
	case release.Unprotect:
		return r.unprotectEmpty(ctx, seen, decision)
	default:
		result, err = r.hold(ctx, seen, decision)
		return false, result, err
	}
}

// unprotectEmpty unprotects a pod without entries in pools that were read after its termination was known.
func (r *Reconciler) unprotectEmpty(ctx context.Context, seen *view, decision release.Decision) (again bool, result reconcile.Result, err error) {
	if empty, again, result := r.emptyNow(ctx, seen, decision); !empty {
		return again, result, nil
	}
	err = r.unprotect(ctx, seen, decision)
	if errors.Is(err, records.ErrStale) && !seen.live {
		return true, result, nil
	}
	return false, result, err
}

// writePools carries out decisions that change entries, or the addresses in the record. Other users of an address were looked up in the cache of
// records, which therefore must not have been late. Disowning releases nothing, so it does not wait for the cache.
func (r *Reconciler) writePools(ctx context.Context, seen *view, decision release.Decision) (again bool, result reconcile.Result, err error) {
	if decision.Action == release.Disown {
		err = r.explainFailure(ctx, seen, decision, r.disown(ctx, seen, decision))
		return err == nil, result, err
	}
	if late, err := seen.recordsLate(); err != nil {
		return false, result, err
	} else if late {
		return false, reconcile.Result{RequeueAfter: backoff.EventOverdue}, nil
	}
	done := false
	switch decision.Action {
	case release.Rewrite:
		tried, err := r.rewrite(ctx, seen, decision)
		if !tried {
			return false, reconcile.Result{RequeueAfter: rewriteAgain}, err
		}
		return err == nil, result, err
	case release.Drop:
		metrics.Decisions.WithLabelValues(string(decision.Action), string(decision.Reason)).Inc()
		err = r.explainRefused(ctx, seen, decision, r.dropProven(ctx, seen, sets.New(decision.Sandboxes...), nil))
	default:
		done, err = r.release(ctx, seen, decision)
	}
	return !done && err == nil, result, err
}

// hold releases nothing and reports why.
func (r *Reconciler) hold(ctx context.Context, seen *view, decision release.Decision) (reconcile.Result, error) {
	metrics.Decisions.WithLabelValues(string(decision.Action), string(decision.Reason)).Inc()
	switch {
	case decision.Reason == v1alpha1.ReasonUnclassified:
		metrics.Unclassified.Inc()
	case decision.Reason != v1alpha1.ReasonObservationFailed:
		r.held.wasRead(seen.uid)
	}
	if decision.Action == release.Keep {
		after := decision.After
		if slices.ContainsFunc(seen.held, func(held facts.Held) bool { return held.Quiet }) {
			after = release.Sooner(after, cmp.Or(r.options.Settings.GracePeriodSlack, time.Minute))
		}
		return reconcile.Result{RequeueAfter: after}, errors.Join(seen.unfinished(), r.keep(ctx, seen))
	}
	after := seen.lookAgain(decision.After)
	later, err := r.explain(ctx, seen, decision)
	after = release.Sooner(after, later)
	if err != nil && after > 0 && after <= r.options.LastRetry {
		// The back-off of an error could be longer than the wait.
		log.FromContext(ctx).Error(err, "Writing the reason of a wait failed; the wait continues", "reason", decision.Reason)
		return reconcile.Result{RequeueAfter: min(after, explainAgain)}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if decision.Reason == v1alpha1.ReasonObservationFailed {
		return reconcile.Result{}, fmt.Errorf("holding the addresses of %s: %w", seen.podName(), errors.New(decision.Message))
	}
	result := reconcile.Result{RequeueAfter: after}
	if seen.gone.IsKnown() {
		result.Priority = new(turnOfAll) // once the delay is over, all pods of a gone Node take their turns before the first is released
	}
	return result, nil
}

// lookAgain is the time until a waiting pod is reconciled again. No event shows that the delay of its machines began again.
func (v *view) lookAgain(after time.Duration) time.Duration {
	if !v.gone.IsKnown() {
		return after
	}
	return min(after, nodelife.LookInterval)
}

// unfinished is the failed read of a live pass about a live pod. The cause of the pass, a late cache or the end of a delay, does not come again.
func (v *view) unfinished() error {
	switch {
	case !v.live:
		return nil
	case v.heldRead.IsUnknown():
		return fmt.Errorf("recording the addresses of %s: %s", v.podName(), v.heldRead.Why())
	case v.queries.Unread != "":
		return fmt.Errorf("reading the queries about the sandboxes of %s: %s", v.podName(), v.queries.Unread)
	case v.node.IsUnknown():
		return fmt.Errorf("reading node %s for the sandboxes of %s: %s", v.nodeName(), v.podName(), v.node.Why())
	}
	return nil
}

// unprotect removes the finalizer and deletes the record, once no pool has an entry of the pod. The object with the proof is written last, so that a
// failure in between leaves the proof to the next pass. A pod that its kubelet terminated has the proof itself: a record that outlived it would
// block the next user of its address. If the deletion of a Node decided, the record has the proof, and no address any more.
func (r *Reconciler) unprotect(ctx context.Context, seen *view, decision release.Decision) error {
	steps := []func() error{func() error { return r.takeFinalizerOff(ctx, seen, decision) }}
	if decision.Withheld == nil { // mode Guard releases by the record
		steps = append(steps, func() error {
			return r.explainRefused(ctx, seen, decision, records.Delete(ctx, r.client, seen.record))
		})
	}
	if seen.podFact.IsKnown() && (decision.Row == release.RowNoAddresses || seen.podFact.Get().Ending.ByKubelet()) {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	metrics.Decisions.WithLabelValues(string(decision.Action), string(decision.Reason)).Inc()
	r.forget(seen.uid)
	if decision.Withheld == nil {
		r.done.add(seen.uid, seen.record)
	}
	return nil
}

func (r *Reconciler) takeFinalizerOff(ctx context.Context, seen *view, decision release.Decision) error {
	if seen.pod == nil || !controllerutil.ContainsFinalizer(seen.pod, v1alpha1.Finalizer) {
		return nil
	}
	way, err := r.finalizers.Remove(ctx, seen.target())
	if err != nil && !r.held.unreadFor(seen.uid, r.clock.Now(), reportUnreadAfter) {
		return err
	}
	if err != nil {
		return r.explainWrite(ctx, seen, decision, v1alpha1.ReasonUnprotectFailed, err)
	}
	metrics.Unprotects.WithLabelValues(string(way)).Inc()
	return nil
}

func (r *Reconciler) forget(uid types.UID) {
	r.held.remove(uid)
	r.behind.forget(uid)
	r.unproven.forget(uid)
	r.created.Delete(uid)
	r.turns.Delete(uid)
}
