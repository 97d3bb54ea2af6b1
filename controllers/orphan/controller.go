// SPDX-License-Identifier: Apache-2.0

// Package orphan is the controller of entries that no pod UID can be shown to own. It acts on the decisions of internal/orphan.
package orphan

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/liveness"
	"github.com/holdfast-dev/holdfast/controllers/owner"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// sandboxID keys the queue.
type sandboxID string

// Options configure the Reconciler.
type Options struct {
	// Fields without a comment are as in controllers.Options.
	Backends        []ipam.Backend
	Evidence        release.Evidence
	Settings        release.Settings
	Queries         *queries.Wanted
	MaxQueries      int
	Rules           protection.Rules
	Shadow          *shadow.Reporter
	Concurrency     int
	LastRetry       time.Duration
	SimulatedQueues bool
	PoliciesSince   func(context.Context) (time.Time, error)
	// Witness has seen the pods, Liveness finds Nodes that resemble theirs, and Machines says since when their machines are gone.
	Witness  *witness.Pods
	Liveness *liveness.Observer
	Machines Machines
	// Running is called once orphans are reconciled.
	Running func(context.Context)
}

// Reconciler reconciles the entries of one sandbox that no pod UID can be shown to own. A decision on cached facts only leads to live reads: the
// reclaimer releases addresses, many at once.
type Reconciler struct {
	client   client.Client
	live     client.Reader
	owners   owner.Cache
	recorder events.EventRecorder
	clock    clock.PassiveClock
	options  Options

	known     *orphanSet
	heirs     heirs
	postponed postponedEvents
	looks     *scheduledLooks
	reclaimer *reclaimer
}

// New makes a Reconciler that reads the cache and writes through c, and reads live through live.
func New(c client.Client, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock, o Options) *Reconciler {
	r := &Reconciler{client: c, live: live, owners: owner.Cache{Reader: c, Witness: o.Witness}, recorder: recorder, clock: clk, options: o,
		known: newOrphanSet(), looks: newScheduledLooks()}
	r.reclaimer = newReclaimer(r)
	return r
}

// Setup registers the Reconciler.
func Setup(mgr manager.Manager, clk clock.PassiveClock, o Options) (*Reconciler, error) {
	r := New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("holdfast"), clk, o)
	err := queue.Control(mgr, "orphan", controller.TypedOptions[sandboxID]{
		Reconciler: shadow.WithoutRetry[sandboxID](r), MaxConcurrentReconciles: o.Concurrency, RateLimiter: backoff.RateLimiter[sandboxID](o.LastRetry),
		NewQueue: backoff.NewQueue[sandboxID](o.SimulatedQueues), LogConstructor: queue.LogOf[sandboxID](mgr, "orphan", "orphan"),
	},
		source.TypedKind(mgr.GetCache(), &v1alpha1.IPAllocation{}, orphanEvents()),
		source.TypedKind(mgr.GetCache(), &corev1.Node{}, r.nodeEvents()),
		source.TypedKind(mgr.GetCache(), &v1alpha1.GuardedNode{}, reportEvents[v1alpha1.GuardedNode](r)),
		source.TypedKind(mgr.GetCache(), &v1alpha1.GuardedNode{}, queries.Events(func(record string) (sandboxID, bool) {
			id, isOrphan := strings.CutPrefix(record, v1alpha1.OrphanPrefix)
			return sandboxID(id), isOrphan
		})),
		source.TypedKind(mgr.GetCache(), &v1alpha1.AllNodesQuery{}, reportEvents[v1alpha1.AllNodesQuery](r)),
		source.TypedKind(mgr.GetCache(), &corev1.Pod{}, r.podEvents()),
		r.reclaimer.feed.Source(o.Running),
	)
	if err != nil {
		return nil, err
	}
	return r, r.reclaimer.setup(mgr)
}

// Look queues sandboxes.
func (r *Reconciler) Look(sandboxes ...string) {
	for _, id := range sandboxes {
		r.reclaimer.feed.Add(sandboxID(id))
	}
}

// Replay queues sandboxes behind all others.
func (r *Reconciler) Replay(sandboxes ...string) {
	for _, id := range sandboxes {
		r.reclaimer.feed.AddLast(sandboxID(id))
	}
}

// Scheduled are the sandboxes without a record that will be reconciled again.
func (r *Reconciler) Scheduled() []string { return r.looks.ids() }

type requests = workqueue.TypedRateLimitingInterface[sandboxID]

// orphanEvents queues an orphan when its record is listed at the start, written or deleted, because its entries may have been removed while no
// manager ran. It also queues the sandboxes that a pod's record no longer has.
func orphanEvents() handler.TypedFuncs[*v1alpha1.IPAllocation, sandboxID] {
	return queue.Changes(func(_ context.Context, before, after *v1alpha1.IPAllocation, q requests) {
		if id, isOrphan := strings.CutPrefix(cmp.Or(after, before).Name, v1alpha1.OrphanPrefix); isOrphan {
			q.Add(sandboxID(id))
		}
		for _, id := range sandboxesLeft(before, after) {
			q.Add(id)
		}
	})
}

// nodeEvents queues the orphans that a node has claimed, and wakes the reclaimer. The first list only wakes it: that of records has all orphans.
func (r *Reconciler) nodeEvents() handler.TypedFuncs[*corev1.Node, sandboxID] {
	wake := func(ctx context.Context, name string, q requests) {
		r.reclaimer.nodesChanged()
		records, err := index.SharedRecords(ctx, r.client, index.RecordNode, name)
		for i := range records {
			if id, isOrphan := strings.CutPrefix(records[i].Name, v1alpha1.OrphanPrefix); isOrphan && err == nil {
				q.Add(sandboxID(id))
			}
		}
	}
	return handler.TypedFuncs[*corev1.Node, sandboxID]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.Node], q requests) {
			if e.IsInInitialList {
				r.reclaimer.nodesChanged()
				return
			}
			wake(ctx, e.Object.Name, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Node], q requests) {
			if facts.Node(e.ObjectOld) != facts.Node(e.ObjectNew) {
				wake(ctx, e.ObjectNew.Name, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Node], q requests) {
			wake(ctx, e.Object.Name, q)
		},
	}
}

// reportEvents wake the reclaimer after a change of the machines that have to report, of their lifecycle, or of a report.
func reportEvents[T any](r *Reconciler) handler.TypedFuncs[*T, sandboxID] {
	return queue.Changes(func(context.Context, *T, *T, requests) { r.reclaimer.nodesChanged() })
}

// poolsCatchUp is the retry interval while pools are older than an orphan's record.
const poolsCatchUp = time.Second

// Reconcile observes one sandbox without an owner and acts on the decision of internal/orphan.
func (r *Reconciler) Reconcile(ctx context.Context, id sandboxID) (reconcile.Result, error) {
	r.postponed.emit(id)
	result, err := r.look(ctx, id)
	r.looks.note(id, result, err, r.clock.Now())
	return result, err
}

func (r *Reconciler) look(ctx context.Context, id sandboxID) (reconcile.Result, error) {
	if !r.poolsListed() {
		return reconcile.Result{}, nil // what is there then is queued again
	}
	now := r.clock.Now() // before the reads, which then confirm that a delay is over
	v, err := r.observe(ctx, id)
	if err == nil && v.wantsLive() {
		var views []*view
		if views, err = r.lookLive(ctx, []sandboxID{id}, r.reclaimer.last()); err == nil {
			v = views[0]
			v.facts.Live = v.facts.Addressed != nil // other decisions rest on responses that were not read live
		}
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	d := orphan.Decide(v.facts, now)
	log.FromContext(ctx).V(1).Info("Decided about an orphan", "row", d.Row, "action", string(d.Action), "reason", d.Reason)
	return r.act(ctx, v, d)
}

func (r *Reconciler) poolsListed() bool {
	return !slices.ContainsFunc(r.options.Backends, func(b ipam.Backend) bool { return !b.HasSynced() })
}

// act carries a decision out. After a conflict the sandbox is reconciled again.
func (r *Reconciler) act(ctx context.Context, v *view, d orphan.Decision) (reconcile.Result, error) {
	result, err := r.carryOut(ctx, v, d)
	if errors.Is(err, records.ErrStale) || apierrors.IsConflict(err) { // an agent has reported, or the cache is late
		return reconcile.Result{RequeueAfter: backoff.EventOverdue}, nil
	}
	return result, err
}

func (r *Reconciler) carryOut(ctx context.Context, v *view, d orphan.Decision) (reconcile.Result, error) {
	switch d.Action {
	case orphan.Drop:
		return reconcile.Result{}, r.drop(ctx, v)
	case orphan.Adopt:
		return r.adopt(ctx, v, d)
	case orphan.QueryAll:
		if err := r.queryAll(ctx, v); err != nil {
			return reconcile.Result{}, err
		}
		if why := r.reclaimer.failure(); why != "" {
			d.Reason, d.Message = v1alpha1.ReasonObservationFailed, why
		}
		return r.hold(ctx, v, d)
	case orphan.Address:
		return reconcile.Result{}, r.address(ctx, v, d)
	case orphan.Attribute:
		return reconcile.Result{}, r.attribute(ctx, v, d)
	case orphan.Confirm:
		if err := r.confirm(ctx, v, d); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: nodelife.LookInterval}, nil // no event shows that the query cannot be written
	case orphan.Reread:
		r.reclaimer.ready(v.id)
		return reconcile.Result{}, nil
	case orphan.Release:
		return reconcile.Result{}, r.release(ctx, []*view{v}, []orphan.Decision{d})
	default:
		return r.hold(ctx, v, d)
	}
}

// hold releases nothing and reports why.
func (r *Reconciler) hold(ctx context.Context, v *view, d orphan.Decision) (reconcile.Result, error) {
	after := d.After
	if after == 0 {
		after = r.lookAgain(v, d)
	}
	if v.facts.Addressed != nil && v.facts.Addressed.NodeGoneSince.IsKnown() {
		after = release.Sooner(after, nodelife.LookInterval) // no event shows that the delay began again
	}
	if v.record == nil {
		return reconcile.Result{RequeueAfter: after}, nil
	}
	if d.Proven && len(v.taken) > 0 {
		if err := r.yield(ctx, v); err != nil {
			return reconcile.Result{}, err
		}
	}
	later, err := r.explain(ctx, v, d)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: release.Sooner(after, later)}, nil
}

// lookAgain is the retry interval for waits that may end without an event.
func (r *Reconciler) lookAgain(v *view, d orphan.Decision) time.Duration {
	const unread = 30 * time.Second
	pause := max(r.options.Settings.ReleaseDelay, poolsCatchUp)
	switch {
	case d.Reason == v1alpha1.ReasonOrphanQueued:
		r.reclaimer.want(v.id, v.disownedBy)
		return 0
	case d.Row == orphan.RowQueryAllNodes: // queries that could not be written are tried again by the reclaimer
		return 0
	case d.Reason == v1alpha1.ReasonAwaitingAllNodes, d.Row == orphan.RowNotQueried && !v.facts.Entries.Get().TakenOver:
		return 0
	case d.Row == orphan.RowObservationFailed:
		return min(pause, unread)
	}
	return pause
}
