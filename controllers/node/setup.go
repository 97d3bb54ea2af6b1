// SPDX-License-Identifier: Apache-2.0

// Package node observes Nodes, and maintains a GuardedNode for each registration: which machines reported under the Node UID, and since when each is
// gone (internal/nodelife has the rules). The Lease holdfast-node-observation says since when Nodes have been observed without a gap.
//
//	notes       reports of Nodes, noted until they are written, also of deleted Nodes; complete up to a version
//	lifecycle   since when machines are gone: by caches for a wait, confirmed live for the end of it
//	reconcile   one Node UID: caches → nodelife.Next, and the queries → at most one write; then the deletion of an object that nothing needs
//	queries     the standing queries: those that controllers request (controllers/queries), as long as a record needs them
//	round       each minute: if unwritten objects remain for too long, or events may be lost, the observation begins again
package node

import (
	"context"
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
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=guardednodes,verbs=create;delete;get;list;update;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=ipallocations,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=holdfast-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=holdfast-system,resources=leases,resourceNames=holdfast-node-observation,verbs=get;update

const (
	// gather is how long events of one Node UID are collected before its object is written.
	gather = 200 * time.Millisecond
	// writeInterval is the shortest time between two writes of one object.
	writeInterval = time.Second
	// lookInterval is the interval of rounds, and of reads of the signs of a gone machine.
	lookInterval = nodelife.LookInterval
	// maxGap is the longest time between two complete rounds, or between two reads of the signs of a machine, without the delay beginning again.
	maxGap = 2 * lookInterval
	// retryInterval is the time until the next round after an incomplete one.
	retryInterval = 5 * time.Second
	// maxLag is how long the cache may lack a write. After that the object counts as deleted by another client.
	maxLag = time.Minute
)

// Options configure the controller.
type Options struct {
	Settings release.Settings
	// Namespace is the namespace of the manager, for the Lease.
	Namespace string
	// LastRetry is the longest back-off after a failure.
	LastRetry time.Duration
	// SimulatedQueues makes the queue work in the virtual time of a simulation (backoff.NewQueue).
	SimulatedQueues bool
	// Queries are the requested queries, which this controller writes. With evidence Kubelet there are none.
	Queries  *queries.Wanted
	Evidence release.Evidence
	// Watches counts the lists of the watches of Nodes and GuardedNodes.
	Watches *Watches
	// Kubelet reads the signs of a node's kubelet, from reads that began at since or later.
	Kubelet func(ctx context.Context, node string, since time.Time) (nodelife.Kubelet, error)
}

// request is for one Node UID; the zero request is for a round.
type request struct{ UID types.UID }

type requests = workqueue.TypedRateLimitingInterface[request]

// reconciler maintains the GuardedNodes. One worker uses it, so that writes are sequential; the fields below the mutex have other users too.
type reconciler struct {
	client  client.Client
	live    client.Reader
	clock   clock.PassiveClock
	options Options
	queue   requests
	// lifecycle is the lifecycle of machines.
	lifecycle *Lifecycle

	mu sync.Mutex
	// deleted are the objects that this process has deleted, until their event; lost is the deletion by another client that ends the observation.
	deleted map[types.UID]bool
	lost    string
	// acquired is when the present observation began, by the Lease; zero without one. lists is the number of lists then.
	acquired time.Time
	lists    int64
	// complete is when the last complete round began, and renewed when the Lease was last read. isWhole: this observation has had a complete round.
	complete, renewed time.Time
	isWhole           bool
	// reached is when the API server was last read live, and reachedSince since when it was without a gap.
	reached, reachedSince time.Time
	// disputed: the Lease had the observation of another manager when it was last read.
	disputed bool

	// counts are the metrics of queries.
	counts queries.Counts

	// looks are the reads of the signs of an object's gone machines.
	looks map[types.UID]look

	// wrote is the last write of an object.
	wrote map[types.UID]write
}

// look is when signs were last read, and since when without a gap; zero for as long as the observation.
type look struct{ since, last time.Time }

// write is a write of an object by this process.
type write struct {
	at      time.Time
	version string
}

// Setup registers the controller with the manager.
func Setup(mgr manager.Manager, clk clock.PassiveClock, o Options) (*Lifecycle, error) {
	r := newReconciler(mgr.GetClient(), mgr.GetAPIReader(), clk, o)
	return r.lifecycle, queue.Control(mgr, "node", controller.TypedOptions[request]{Reconciler: r, RateLimiter: backoff.RateLimiter[request](o.LastRetry),
		NewQueue: backoff.NewQueue[request](o.SimulatedQueues)},
		source.TypedFunc[request](func(_ context.Context, q requests) error {
			r.queue = q
			o.Watches.notes.lead()
			q.Add(request{})
			again := func() { q.Add(request{}) }
			o.Watches.changed.Store(&again)
			o.Queries.Subscribe(func(uid types.UID) { wake(q, uid) })
			return nil
		}),
		source.TypedKind(mgr.GetCache(), &v1alpha1.GuardedNode{}, r.objectEvents()),
		source.TypedKind(mgr.GetCache(), &corev1.Node{}, r.nodeEvents()),
		source.TypedKind(mgr.GetCache(), &v1alpha1.IPAllocation{}, r.recordEvents()),
	)
}

func newReconciler(cached client.Client, live client.Reader, clk clock.PassiveClock, o Options) *reconciler {
	r := &reconciler{client: cached, live: live, clock: clk, options: o, deleted: map[types.UID]bool{}, wrote: map[types.UID]write{}, looks: map[types.UID]look{}}
	r.lifecycle = newLifecycle(r)
	return r
}
