// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
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
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// SweeperFieldManager is the field manager of what the sweeper writes: condition Swept and status.sweep of the policies.
const SweeperFieldManager = "holdfast-sweeper"

const (
	sweeperWorkers = 4
	// sweeperBatch is how long a sweep waits for more events; the garbage collector needs about as long to begin.
	sweeperBatch = 2 * time.Second
	// sweeperShare bounds the time of sweeps that events cause: one part in so many.
	sweeperShare = 5
	// sweeperBusy is how soon a request is tried again while another one of its policy runs.
	sweeperBusy = 500 * time.Millisecond
	// sweeperBusyJitter spreads waiting requests, so that many of one kind do not always come before one of another.
	sweeperBusyJitter = 4
	// sweeperSlow is how often an error is tried again that an administrator has to mend: a missing CRD or permission.
	sweeperSlow = time.Minute
	// sweeperJitter spreads the periodic sweeps of several policies.
	sweeperJitter     = 0.1
	sweeperBackoff    = time.Second
	sweeperMaxBackoff = 5 * time.Minute
)

// sweepRequest is for one policy: a sweep over every object (the zero value beside the policy's name), a look at the objects of one node, or
// the deletion of what sweeps found stale.
type sweepRequest struct {
	Policy string
	Node   string
	Reap   bool
}

type sweepQueue = workqueue.TypedRateLimitingInterface[sweepRequest]

// sweeper finds the objects that do not speak for the live Node, reports them, and deletes them where their policy wants that.
type sweeper struct {
	client   client.Client // cached reads; writes
	live     client.Reader
	objects  dynamic.Interface
	api      served.API
	recorder events.EventRecorder
	reported *eventlimit.Limit
	deletes  flowcontrol.PassiveRateLimiter // of all policies together
	missing  *missingNodes
	clock    clock.PassiveClock
	options  Options
	// queue is set when the controller starts its sources, before its workers run.
	queue sweepQueue

	mu       sync.Mutex
	policies map[string]*sweptPolicy
}

// sweptPolicy is what the sweeper remembers of one policy. The request that holds the lock uses it.
type sweptPolicy struct {
	mu sync.Mutex

	uid        types.UID
	generation int64
	compiled   *nodepolicy.Compiled
	// resource is in the version that is read; empty while that is not known.
	resource schema.GroupVersionResource
	// candidates for deletion; the reaper looks at each again.
	candidates map[types.NamespacedName]types.UID
	// lastTried is the last object that the reaper tried to delete.
	lastTried types.NamespacedName
	// troubled are the nodes of which the last complete sweep found an object that is stale, unowned or unknown.
	troubled sets.Set[string]
	// refused is the permission that the reaper lacks; empty for none.
	refused string
	took    time.Duration
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=noderesourcepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=noderesourcepolicies/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func setupSweeper(mgr manager.Manager, api served.API, o Options) error {
	objects, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making the client that reads node-scoped resources: %w", err)
	}
	s := &sweeper{
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		objects:  objects,
		api:      api,
		recorder: mgr.GetEventRecorder("holdfast"),
		reported: eventlimit.New(o.Clock, sweepReports),
		deletes:  flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(o.DeletesPerSecond, max(1, int(o.DeletesPerSecond)), o.Clock),
		missing:  newMissingNodes(),
		clock:    o.Clock,
		options:  o,
		policies: map[string]*sweptPolicy{},
	}
	return queue.Control(mgr, "node-sweeper", controller.TypedOptions[sweepRequest]{
		Reconciler:              s,
		MaxConcurrentReconciles: sweeperWorkers,
		RateLimiter:             retries[sweepRequest](o, sweeperBackoff, sweeperMaxBackoff),
		LogConstructor: func(r *sweepRequest) logr.Logger {
			r = cmp.Or(r, &sweepRequest{})
			return mgr.GetLogger().WithValues("controller", "node-sweeper", "policy", r.Policy, "node", r.Node)
		},
	},
		source.TypedFunc[sweepRequest](func(_ context.Context, q sweepQueue) error {
			s.queue = q
			return nil
		}),
		source.TypedKind(mgr.GetCache(), &v1alpha1.NodeResourcePolicy{}, sweepPolicyEvents()),
		source.TypedKind(mgr.GetCache(), &corev1.Node{}, sweepNodeEvents(s)),
	)
}

// Reconcile does one request. Requests of one policy never overlap, so that a look at a node does not mix with a sweep.
func (s *sweeper) Reconcile(ctx context.Context, r sweepRequest) (reconcile.Result, error) {
	p := s.remember(r.Policy)
	if !p.mu.TryLock() {
		return reconcile.Result{RequeueAfter: wait.Jitter(sweeperBusy, sweeperBusyJitter)}, nil
	}
	defer p.mu.Unlock()
	var policy v1alpha1.NodeResourcePolicy
	// A deletion and a report follow the policy of now; a look at a node only leads to one of these.
	reader := s.live
	if r.Node != "" {
		reader = s.client
	}
	if err := reader.Get(ctx, types.NamespacedName{Name: r.Policy}, &policy); apierrors.IsNotFound(err) {
		s.forget(r, p)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading NodeResourcePolicy %s: %w", r.Policy, err)
	}
	if err := p.compile(&policy); err != nil {
		if r != (sweepRequest{Policy: r.Policy}) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, s.reportNotAccepted(ctx, &policy, err)
	}
	switch {
	case r.Reap:
		return s.reap(ctx, &policy, p)
	case r.Node != "":
		return reconcile.Result{}, s.lookAtNode(ctx, &policy, p, r.Node)
	default:
		return s.sweep(ctx, &policy, p)
	}
}

func (s *sweeper) remember(policy string) *sweptPolicy {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.policies[policy]
	if p == nil {
		p = &sweptPolicy{}
		s.policies[policy] = p
	}
	return p
}

// forget removes what is kept of a deleted policy. A request about a node read the cache only, and a new policy may have the name by now.
func (s *sweeper) forget(r sweepRequest, p *sweptPolicy) {
	s.mu.Lock()
	if s.policies[r.Policy] == p {
		delete(s.policies, r.Policy)
	}
	s.mu.Unlock()
	if r.Node == "" {
		s.missing.retain(r.Policy, nil)
		metrics.ForgetNodeSweeps(r.Policy)
	}
}

// compile compiles the policy unless that was done, and forgets what an older specification found.
func (p *sweptPolicy) compile(policy *v1alpha1.NodeResourcePolicy) error {
	if p.compiled != nil && p.uid == policy.UID && p.generation == policy.Generation {
		return nil
	}
	p.uid, p.generation = policy.UID, policy.Generation
	p.resource, p.candidates, p.troubled, p.refused = schema.GroupVersionResource{}, map[types.NamespacedName]types.UID{}, sets.New[string](), ""
	compiled, err := nodepolicy.Compile(policy)
	p.compiled = compiled
	return err
}

// requestSweep requests one sweep over every object for all events of a short time.
func (s *sweeper) requestSweep(policy string, p *sweptPolicy) {
	s.queue.AddAfter(sweepRequest{Policy: policy}, max(sweeperBatch, sweeperShare*p.took))
}

func (s *sweeper) nextSweep() reconcile.Result {
	return reconcile.Result{RequeueAfter: wait.Jitter(s.options.SweepInterval, sweeperJitter)}
}

func (s *sweeper) slowRetry() reconcile.Result {
	return reconcile.Result{RequeueAfter: wait.Jitter(min(s.options.SweepInterval, sweeperSlow), sweeperJitter)}
}

// sweepPolicyEvents requests a sweep when a policy is new, changed or deleted, or when its resource is served for the first time or no longer.
func sweepPolicyEvents() handler.TypedFuncs[*v1alpha1.NodeResourcePolicy, sweepRequest] {
	return queue.Changes(func(_ context.Context, before, after *v1alpha1.NodeResourcePolicy, q sweepQueue) {
		if before == nil || after == nil || before.UID != after.UID || before.Generation != after.Generation || awaitsResource(before) != awaitsResource(after) {
			q.Add(sweepRequest{Policy: cmp.Or(after, before).Name})
		}
	})
}

// awaitsResource: the webhook controller found that the API server does not serve what the policy guards.
func awaitsResource(policy *v1alpha1.NodeResourcePolicy) bool {
	accepted := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.PolicyAccepted)
	return accepted != nil && accepted.Reason == string(v1alpha1.ReasonResourceNotServed)
}

// sweepNodeEvents requests a look at the objects of a Node that was created, deleted or replaced, for every policy. The first sweeps look at
// the Nodes of the start.
func sweepNodeEvents(s *sweeper) handler.TypedFuncs[*corev1.Node, sweepRequest] {
	return handler.TypedFuncs[*corev1.Node, sweepRequest]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.Node], q sweepQueue) {
			s.missing.found(e.Object.Name)
			if !e.IsInInitialList {
				s.wakeForNode(ctx, e.Object.Name, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Node], q sweepQueue) {
			s.missing.found(e.ObjectNew.Name)
			if e.ObjectOld.UID != e.ObjectNew.UID {
				s.wakeForNode(ctx, e.ObjectNew.Name, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Node], q sweepQueue) {
			s.missing.found(e.Object.Name) // it existed until now
			s.wakeForNode(ctx, e.Object.Name, q)
		},
	}
}

func (s *sweeper) wakeForNode(ctx context.Context, node string, q sweepQueue) {
	var policies v1alpha1.NodeResourcePolicyList
	if err := s.client.List(ctx, &policies); err != nil {
		log.FromContext(ctx).Error(err, "Reading the policies from the cache failed; the next sweep finds what changed with the node", "node", node)
		return
	}
	for i := range policies.Items {
		q.Add(sweepRequest{Policy: policies.Items[i].Name, Node: node})
	}
}
