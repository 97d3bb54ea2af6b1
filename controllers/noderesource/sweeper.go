// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// SweeperFieldManager is the field manager of what the sweeper writes: condition Swept and status.sweep of the policies.
const SweeperFieldManager = "holdfast-sweeper"

const (
	sweeperWorkers = 4
	// sweeperSettles is how long a sweep that an event asked for waits for more events; it is also about as long as the
	// garbage collector needs to begin.
	sweeperSettles = 2 * time.Second
	// sweeperShare bounds what share of the time sweeps that events ask for may take: one part in so many.
	sweeperShare = 5
	// sweeperSlow is how often is tried again what only an administrator can change: a missing CRD or permission.
	sweeperSlow = time.Minute
	// sweeperJitter spreads the periodic sweeps of several policies.
	sweeperJitter          = 0.1
	sweeperDefaultInterval = 10 * time.Minute
	sweeperDefaultDeletes  = 2
	sweeperBackoff         = time.Second
	sweeperMaxBackoff      = 5 * time.Minute
)

// sweepRequest asks for one policy's work: a sweep over every object (the zero value beside the policy's name), a look at
// the objects of one node, or the deletion of what sweeps found stale.
type sweepRequest struct {
	Policy string
	Node   string
	Reap   bool
}

type sweepQueue = workqueue.TypedRateLimitingInterface[sweepRequest]

// sweeper finds the objects that do not speak for the live Node, says so, and deletes them where their policy asks for it.
type sweeper struct {
	client   client.Client // cached reads; writes
	live     client.Reader
	objects  dynamic.Interface
	api      served.API
	recorder events.EventRecorder
	told     *eventlimit.Limit
	deletes  flowcontrol.PassiveRateLimiter
	missing  *missingNodes
	clock    clock.PassiveClock
	options  Options
	// queue is set when the controller starts its sources, before its workers run.
	queue sweepQueue

	mu       sync.Mutex
	policies map[string]*sweptPolicy
}

// sweptPolicy is what the sweeper remembers of one policy. One request at a time uses it, from begin to end.
type sweptPolicy struct {
	mu      sync.Mutex
	busy    bool
	waiting sets.Set[sweepRequest]

	uid        types.UID
	generation int64
	compiled   *nodepolicy.Compiled
	// resource is in the version that is read; empty while that is not known.
	resource schema.GroupVersionResource
	// candidates for deletion; the reaper looks at each again.
	candidates map[types.NamespacedName]types.UID
	// lastTried is the last object that the reaper tried to delete.
	lastTried types.NamespacedName
	// troubled are the nodes of which the last complete sweep found an object that is not in order.
	troubled sets.Set[string]
	// refused says why the reaper may not work; empty if it may.
	refused string
	took    time.Duration
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=noderesourcepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=noderesourcepolicies/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func setupSweeper(mgr manager.Manager, api served.API, o Options) error {
	s, err := newSweeper(mgr, api, o)
	if err != nil {
		return err
	}
	c, err := controller.NewTyped("node-sweeper", mgr, controller.TypedOptions[sweepRequest]{
		Reconciler:              s,
		MaxConcurrentReconciles: sweeperWorkers,
		RateLimiter:             retries[sweepRequest](o, sweeperBackoff, sweeperMaxBackoff),
		LogConstructor:          sweepLogger(mgr.GetLogger()),
	})
	if err != nil {
		return fmt.Errorf("setting up the sweeper of node-scoped resources: %w", err)
	}
	sources := []source.TypedSource[sweepRequest]{
		source.TypedFunc[sweepRequest](func(_ context.Context, queue sweepQueue) error {
			s.queue = queue
			return nil
		}),
		source.TypedKind(mgr.GetCache(), &v1alpha1.NodeResourcePolicy{}, sweepPolicyEvents()),
		source.TypedKind(mgr.GetCache(), &corev1.Node{}, sweepNodeEvents(s)),
	}
	for _, source := range sources {
		if err := c.Watch(source); err != nil {
			return fmt.Errorf("setting up the watches of the sweeper of node-scoped resources: %w", err)
		}
	}
	return nil
}

func newSweeper(mgr manager.Manager, api served.API, o Options) (*sweeper, error) {
	if o.SweepInterval <= 0 {
		o.SweepInterval = sweeperDefaultInterval
	}
	if o.DeletesPerSecond <= 0 {
		o.DeletesPerSecond = sweeperDefaultDeletes
	}
	objects, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making the client that reads node-scoped resources: %w", err)
	}
	return &sweeper{
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		objects:  objects,
		api:      api,
		recorder: mgr.GetEventRecorder("holdfast"),
		told:     eventlimit.New(o.Clock, sweepTold),
		deletes:  newDeleteLimit(o),
		missing:  newMissingNodes(),
		clock:    o.Clock,
		options:  o,
		policies: map[string]*sweptPolicy{},
	}, nil
}

func sweepLogger(base logr.Logger) func(*sweepRequest) logr.Logger {
	return func(r *sweepRequest) logr.Logger {
		logger := base.WithValues("controller", "node-sweeper")
		if r == nil {
			return logger
		}
		return logger.WithValues("policy", r.Policy, "node", r.Node)
	}
}

// Reconcile does one request. Requests of one policy never overlap, so that a look at a node does not mix with a sweep.
func (s *sweeper) Reconcile(ctx context.Context, r sweepRequest) (reconcile.Result, error) {
	p := s.remember(r.Policy)
	if !p.begin(r) {
		return reconcile.Result{}, nil
	}
	defer p.end(s.queue)
	var policy v1alpha1.NodeResourcePolicy
	// A deletion and a report follow what the policy says now; a look at a node only leads to one of these.
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
		return reconcile.Result{}, s.sayNotAccepted(ctx, &policy, err)
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

// begin says whether the request may be worked on now. If not, the end of the one that is brings it back to the queue, so
// that no worker waits.
func (p *sweptPolicy) begin(r sweepRequest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy {
		p.waiting.Insert(r)
		return false
	}
	p.busy = true
	return true
}

func (p *sweptPolicy) end(queue sweepQueue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = false
	for r := range p.waiting {
		queue.Add(r)
	}
	p.waiting.Clear()
}

func (s *sweeper) remember(policy string) *sweptPolicy {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.policies[policy]
	if p == nil {
		p = &sweptPolicy{waiting: sets.New[sweepRequest]()}
		s.policies[policy] = p
	}
	return p
}

// forget removes all traces of a policy that is gone. A request about a node has that from the cache only: whether there is a
// new policy of the name, the request that a deletion brings finds out.
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

// compile compiles the policy unless that was done. What was found by an older specification is void.
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

// askFor asks for a sweep over every object once events have settled, however many ask.
func (s *sweeper) askFor(policy string, p *sweptPolicy) {
	s.queue.AddAfter(sweepRequest{Policy: policy}, max(sweeperSettles, sweeperShare*p.took))
}

func (s *sweeper) nextSweep() reconcile.Result {
	return reconcile.Result{RequeueAfter: wait.Jitter(s.options.SweepInterval, sweeperJitter)}
}

func (s *sweeper) slowRetry() reconcile.Result {
	return reconcile.Result{RequeueAfter: wait.Jitter(min(s.options.SweepInterval, sweeperSlow), sweeperJitter)}
}
