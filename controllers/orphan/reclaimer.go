// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// reclaimerGather is how long wakes are gathered: Leases change one by one.
const reclaimerGather = 250 * time.Millisecond

// reclaimer keeps the node inventory, knows which orphans all nodes are asked about, and gives the addresses of those back of
// which every node is silent, many at once. It only runs where agents are the evidence.
//
// Caches say when a look is worth it. A look reads the Leases, then the Nodes, then the records, then the pools, all past the caches.
type reclaimer struct {
	orphans   *Reconciler
	inventory *inventoryStore
	leases    *agentLeases
	woken     chan struct{}
	// changed: a Lease or a Node is not as it was when the asked orphans were woken last.
	changed atomic.Bool
	feed    queue.Feed[sandboxID]
	nodes   atomic.Pointer[[]orphan.Node]

	mu sync.Mutex
	// asked are the open questions of this process, complete those that the caches show to be answered by all.
	asked map[sandboxID]askedAll
	// voided is when this process sent a query that another one has replaced since.
	voided   map[sandboxID]time.Time
	complete sets.Set[sandboxID]
	// turn are those that wait for room.
	turn sets.Set[sandboxID]
	// traced: the records were looked through for Nodes that went before there was a list.
	traced bool
}

func newReclaimer(of *Reconciler) *reclaimer {
	return &reclaimer{orphans: of, woken: make(chan struct{}, 1), asked: map[sandboxID]askedAll{}, voided: map[sandboxID]time.Time{},
		complete: sets.New[sandboxID](), turn: sets.New[sandboxID](),
		inventory: &inventoryStore{live: of.live, writer: of.client, namespace: of.options.ManagerNamespace},
		leases:    &agentLeases{live: of.live, namespace: of.options.AgentNamespace, newInformer: of.options.NewInformer}}
}

func (k *reclaimer) setup(mgr manager.Manager) error {
	if k.orphans.options.Evidence != release.EvidenceAgent {
		return nil
	}
	if err := k.leases.setup(mgr, k.nodesChanged); err != nil {
		return err
	}
	return mgr.Add(k)
}

// NeedLeaderElection: one reclaimer in the cluster is enough.
func (k *reclaimer) NeedLeaderElection() bool { return true }

// nodesChanged is called for each change of a Lease or a Node.
func (k *reclaimer) nodesChanged() {
	k.changed.Store(true)
	k.wake()
}

func (k *reclaimer) wake() {
	select {
	case k.woken <- struct{}{}:
	default: // it will look anyway
	}
}

// Start looks whenever something has changed, and once a minute while a machine has no Node. A round that failed is made again with
// back-off.
func (k *reclaimer) Start(ctx context.Context) error {
	const factor, steps = 2, 1 << 16
	fresh := wait.Backoff{Duration: backoff.First, Factor: factor, Steps: steps, Cap: k.orphans.options.LastRetry}
	backoff := fresh
	k.wake()
	for ctx.Err() == nil {
		again, err := k.round(ctx)
		if err == nil {
			backoff = fresh
		} else if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Looking after addresses without an owner failed; it is tried again")
			again = backoff.Step()
		}
		k.pause(ctx, again)
	}
	return nil
}

// pause waits for the next round: for the time, if there is one, or for a wake.
func (k *reclaimer) pause(ctx context.Context, again time.Duration) {
	due := make(<-chan time.Time)
	if again > 0 {
		timer := time.NewTimer(again)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return
	case <-due:
		return
	case <-k.woken:
	}
	gather := time.NewTimer(reclaimerGather)
	defer gather.Stop()
	select {
	case <-ctx.Done():
	case <-gather.C:
	}
}

// round looks at the caches, and past them where that is worth it; again is when to look next though nothing has changed.
func (k *reclaimer) round(ctx context.Context) (again time.Duration, err error) {
	without, err := k.lookCached(ctx)
	if err != nil {
		return 0, err
	}
	complete := k.takeComplete()
	if !without && len(complete) == 0 && k.isTraced() {
		return 0, nil
	}
	if again, err = k.lookLive(ctx, complete); err != nil {
		k.retry(complete...)
		return 0, err
	}
	return again, nil
}

// lookCached puts every Node of the cache on the list, and wakes the orphans about which all are asked; without says whether a machine of
// the list has no Node there.
func (k *reclaimer) lookCached(ctx context.Context) (without bool, err error) {
	var cached corev1.NodeList
	if err := k.orphans.client.List(ctx, &cached, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the Nodes of the cache: %w", err)
	}
	present := presentNodes(cached.Items)
	uids := sets.New[string]()
	err = k.inventory.change(ctx, func(inventory orphan.Inventory) error {
		for i := range present {
			inventory.See(present[i].Name, present[i].Identity())
			uids.Insert(orphan.KeyOf(present[i].Identity()))
		}
		for key, seen := range inventory {
			without = without || seen.Gone != nil || !uids.Has(key)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	inventory, _ := k.inventory.snapshot()
	nodes := inventory.Nodes(present, k.leases.cached(ctx))
	k.nodes.Store(&nodes)
	k.countMissing(nodes)
	if k.changed.Swap(false) {
		k.feed.Add(k.allAsked()...)
	}
	return without, nil
}

// lookLive reads Leases and Nodes, keeps the list, and gives back what no node claims; again is when a machine without a Node
// is to be looked at next.
func (k *reclaimer) lookLive(ctx context.Context, complete []sandboxID) (again time.Duration, err error) {
	acknowledged, traces, err := k.leases.read(ctx)
	if err != nil {
		return 0, err
	}
	present, err := k.readNodes(ctx)
	if err != nil {
		return 0, err
	}
	if traces, err = k.addTraces(ctx, traces); err != nil {
		return 0, err
	}
	if err = k.keep(ctx, present, traces); err != nil {
		return 0, err
	}
	inventory, _ := k.inventory.snapshot()
	nodes := inventory.Nodes(present, acknowledged)
	if before := k.nodes.Swap(&nodes); before == nil || len(*before) != len(nodes) {
		k.feed.Add(k.allAsked()...) // somebody came, or is gone for good
	}
	k.countMissing(nodes)
	metrics.NodesSeen.WithLabelValues(metrics.NodeLive).Set(float64(len(present)))
	metrics.NodesSeen.WithLabelValues(metrics.NodeGone).Set(float64(len(nodes) - len(present)))
	return k.goneDue(inventory), k.reclaim(ctx, complete, nodes)
}

// reclaim decides about orphans on live facts, and gives back together what may go.
func (k *reclaimer) reclaim(ctx context.Context, ids []sandboxID, nodes []orphan.Node) error {
	if len(ids) == 0 {
		return nil
	}
	views, err := k.orphans.lookLive(ctx, ids, release.Known(nodes))
	if err != nil {
		return err
	}
	var gone []*view
	var decisions []orphan.Decision
	for _, v := range views {
		d := orphan.Decide(v.facts, k.orphans.clock.Now())
		if d.Action == orphan.Release {
			gone, decisions = append(gone, v), append(decisions, d)
			continue
		}
		result, err := k.orphans.act(ctx, v, d)
		if err = shadow.Ignore(err); err != nil {
			log.FromContext(ctx).Error(err, "Looking after a sandbox without an owner failed; it is tried again", "sandbox", v.id)
			k.feed.Add(v.id)
			continue
		}
		if result.RequeueAfter > 0 {
			k.feed.AddAfter(result.RequeueAfter, v.id)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return shadow.Ignore(k.orphans.release(ctx, gone, decisions))
}

// cachedNodes is what the caches, or the last look, showed of every Node ever seen.
func (k *reclaimer) cachedNodes() release.Fact[[]orphan.Node] {
	if nodes := k.nodes.Load(); nodes != nil {
		return release.Known(*nodes)
	}
	return release.Unknown[[]orphan.Node]("the node inventory was not read yet")
}
