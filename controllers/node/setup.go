// SPDX-License-Identifier: Apache-2.0

// Package node observes Nodes, and keeps a GuardedNode for each registration: which machines reported under the Node UID, and since when none does
// (internal/nodelife has the rules). The Lease holdfast-node-observation says since when Nodes have been observed without a gap.
//
//	notes       what a Node reports is noted until it is written, also if the Node is deleted meanwhile; the notes are complete up to a version
//	lifecycle   since when machines are gone, for all who ask: by caches for a wait, confirmed live for the end of it
//	reconcile   one Node UID: caches → nodelife.Next, and the queries → at most one write; then the deletion of an object that nothing needs
//	queries     which queries stand: those that passes want (controllers/queries), as long as a record needs them
//	round       each minute: is all written? If not since too long ago, or if events may be lost, the observation begins again
package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=guardednodes,verbs=create;delete;get;list;update;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=ipallocations,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=holdfast-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=holdfast-system,resources=leases,resourceNames=holdfast-node-observation,verbs=get;update

const (
	// gather is how long events of one Node UID are gathered before its object is written.
	gather = 200 * time.Millisecond
	// writeInterval is the shortest time between two writes of one object.
	writeInterval = time.Second
	// lookInterval is also how often a round is made.
	lookInterval = nodelife.LookInterval
	// maxGap is the longest time between two complete rounds, or between two looks for a machine, of which a delay is counted.
	maxGap = 2 * lookInterval
	// retryInterval is when a round is made again of which not all was written.
	retryInterval = 5 * time.Second
	// maxLag is how long the cache is waited for after a write. What it has not by then, another client has deleted.
	maxLag = time.Minute
)

// Options configure the controller.
type Options struct {
	Settings nodelife.Settings
	// Namespace is the manager's, for the Lease.
	Namespace string
	// LastRetry is the longest back-off of what failed.
	LastRetry time.Duration
	// SimulatedQueues has the queue fit a simulation in virtual time (backoff.NewQueue).
	SimulatedQueues bool
	// Queries are those that passes want, which this controller writes. With evidence of kubelets alone no query stands.
	Queries  *queries.Wanted
	Evidence release.Evidence
	// Watches counts the lists of the watches of Nodes and GuardedNodes.
	Watches *Watches
	// Kubelet reads what there is to see of a node's kubelet. What was read before since is not used.
	Kubelet func(ctx context.Context, node string, since time.Time) (nodelife.Kubelet, error)
}

// request asks for one Node UID; the zero request for a round.
type request struct{ UID types.UID }

type queue = workqueue.TypedRateLimitingInterface[request]

// reconciler keeps the GuardedNodes. One worker uses it, so that writes follow one another; what is below the mutex has other users too.
type reconciler struct {
	client  client.Client
	live    client.Reader
	clock   clock.PassiveClock
	options Options
	queue   queue
	// lifecycle says what has become of machines.
	lifecycle *Lifecycle

	mu sync.Mutex
	// deleted are the objects that this process has deleted, until their event; lost says what another client did that ends the observation.
	deleted map[types.UID]bool
	lost    string
	// acquired is when the present observation began, as the Lease has it; zero while there is none. lists are those that were counted then.
	acquired time.Time
	lists    int64
	// complete is when the last complete round began, and renewed when the Lease was last looked at. isWhole: this observation has had one.
	complete, renewed time.Time
	isWhole           bool
	// disputed: the Lease had the observation of another manager when it was last read.
	disputed bool

	// counts are the metrics of queries.
	counts queries.Counts

	// wrote is the last write of an object, and looked when a machine of it that is gone was last looked for.
	wrote  map[types.UID]write
	looked map[types.UID]time.Time
}

// write is a write of an object by this process.
type write struct {
	at      time.Time
	version string
}

// Setup registers the controller with the manager.
func Setup(mgr manager.Manager, clk clock.PassiveClock, o Options) (*Lifecycle, error) {
	r := newReconciler(mgr.GetClient(), mgr.GetAPIReader(), clk, o)
	c, err := controller.NewTyped("node", mgr, controller.TypedOptions[request]{Reconciler: r, RateLimiter: backoff.RateLimiter[request](o.LastRetry),
		NewQueue: backoff.NewQueue[request](o.SimulatedQueues)})
	if err != nil {
		return nil, fmt.Errorf("setting up the controller of GuardedNodes: %w", err)
	}
	sources := []source.TypedSource[request]{
		source.TypedFunc[request](func(_ context.Context, q queue) error {
			r.queue = q
			q.Add(request{})
			again := func() { q.Add(request{}) }
			o.Watches.changed.Store(&again)
			o.Queries.Subscribe(func(uid types.UID) { wake(q, uid) })
			return nil
		}),
		source.TypedKind(mgr.GetCache(), &v1alpha1.GuardedNode{}, r.objectEvents()),
		source.TypedKind(mgr.GetCache(), &corev1.Node{}, r.nodeEvents()),
		source.TypedKind(mgr.GetCache(), &v1alpha1.IPAllocation{}, r.recordEvents()),
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return nil, fmt.Errorf("setting up the watches of the controller of GuardedNodes: %w", err)
		}
	}
	return r.lifecycle, nil
}

func newReconciler(cached client.Client, live client.Reader, clk clock.PassiveClock, o Options) *reconciler {
	r := &reconciler{client: cached, live: live, clock: clk, options: o, deleted: map[types.UID]bool{}, wrote: map[types.UID]write{}, looked: map[types.UID]time.Time{}}
	r.lifecycle = newLifecycle(r)
	return r
}
