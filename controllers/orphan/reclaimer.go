// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// Wakes are collected until there was none for reclaimerQuiet, for reclaimerGather at most: orphans are found, and agents respond, one by one. Every
// agent watches the queries, so that one write of many saves as many times the agents, and what is proven together is removed from a pool together.
const (
	reclaimerQuiet  = 500 * time.Millisecond
	reclaimerGather = 10 * time.Second
)

// reclaimer writes the queries to all nodes, and releases the addresses of orphans that no node has or had, many at once. It only runs in
// the leader, with evidence Agent.
//
// Caches decide when live reads are made: of the queries, the responses, the Nodes, the records and the pools, in this order.
type reclaimer struct {
	orphans *Reconciler
	// read are live reports for which the Nodes are not confirmed yet.
	read  *reports
	woken chan struct{}
	// changed: a response, a query or a Node changed since the orphans were queued last.
	changed atomic.Bool
	feed    queue.Feed[sandboxID]
	// held is until when orphans that a live look held are not looked at again because of other orphans' responses.
	held    map[sandboxID]time.Time
	reports atomic.Pointer[reports]

	mu sync.Mutex
	// wanted are the orphans about which all nodes are to be queried, and turns counts these requests.
	wanted map[sandboxID]wantedQuery
	turns  int64
	// complete are those to which all nodes have responded by the caches.
	complete sets.Set[sandboxID]
	// readFor are those that became complete before the live reports were read, and not again since.
	readFor sets.Set[sandboxID]
	// unwritten is why the queries could not be written; empty if they were.
	unwritten string
}

func newReclaimer(of *Reconciler) *reclaimer {
	return &reclaimer{orphans: of, woken: make(chan struct{}, 1), held: map[sandboxID]time.Time{}, wanted: map[sandboxID]wantedQuery{}, complete: sets.New[sandboxID]()}
}

func (k *reclaimer) setup(mgr manager.Manager) error {
	if k.orphans.options.Evidence != release.EvidenceAgent {
		return nil
	}
	return mgr.Add(k)
}

// nodesChanged is called for each change of the queries, a Node or a GuardedNode.
func (k *reclaimer) nodesChanged() {
	k.changed.Store(true)
	k.wake()
}

func (k *reclaimer) wake() {
	select {
	case k.woken <- struct{}{}:
	default: // a round is already requested
	}
}

// Start makes a round after each change, and once a minute while a machine has no Node. A failed round is retried with back-off.
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
			log.FromContext(ctx).Error(err, "Reconciling addresses without an owner failed; trying again")
			again = backoff.Step()
		}
		k.pause(ctx, again)
	}
	return nil
}

// pause waits for the next round: for the given time, unless it is zero, or until the wakes before it are collected.
func (k *reclaimer) pause(ctx context.Context, again time.Duration) {
	due := make(<-chan time.Time)
	if again > 0 {
		timer := time.NewTimer(again)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-due:
		k.changed.Store(true) // a delay may be over
	case <-k.woken:
		k.gather(ctx, due)
	}
}

// gather collects wakes, and ends early when the next round is due.
func (k *reclaimer) gather(ctx context.Context, due <-chan time.Time) {
	quiet, long := time.NewTimer(reclaimerQuiet), time.NewTimer(reclaimerGather)
	defer quiet.Stop()
	defer long.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due:
			k.changed.Store(true)
			return
		case <-long.C:
			return
		case <-quiet.C:
			return
		case <-k.woken:
			quiet.Reset(reclaimerQuiet)
		}
	}
}

// round evaluates the caches, writes the queries, and makes live reads where needed; again is the time until the next round without a change. Queries
// that cannot be written hold up no orphan that was queried before.
func (k *reclaimer) round(ctx context.Context) (again time.Duration, err error) {
	if again, err = k.lookCached(ctx); err != nil {
		return 0, err
	}
	unwritten := k.writeQueries(ctx)
	k.noteUnwritten(unwritten)
	complete := k.takeComplete()
	if len(complete) == 0 {
		return again, unwritten
	}
	isConfirmed, err := k.lookLive(ctx, complete)
	if err != nil || !isConfirmed {
		k.retry(complete...)
		again = nodelife.ConfirmAgain
	}
	return again, errors.Join(unwritten, err)
}

// lookCached evaluates the reports in the caches, and queues the orphans with a query to all nodes after a change; due is the time until the delay
// of a machine without a Node is over.
func (k *reclaimer) lookCached(ctx context.Context) (due time.Duration, err error) {
	known, err := k.orphans.options.Machines.Known(ctx)
	if err != nil {
		return 0, err
	}
	seen, err := k.cachedReports(ctx)
	if err != nil {
		return 0, err
	}
	nodes := orphan.Nodes(known, seen.acknowledged, k.orphans.clock.Now())
	seen.nodes = release.Known(nodes)
	seen.observedSince(known.Acquired, k.orphans.clock.Now())
	before := k.reports.Swap(seen)
	if before != nil {
		k.feed.Add(withdrawn(before, seen)...)
	}
	k.countMissing(seen)
	metrics.NodesSeen.WithLabelValues(metrics.NodeLive).Set(float64(len(known.Nodes)))
	metrics.NodesSeen.WithLabelValues(metrics.NodeGone).Set(float64(len(nodes) - len(known.Nodes)))
	if k.changed.Swap(false) || before == nil || len(before.nodes.Get()) != len(nodes) {
		now := k.orphans.clock.Now()
		maps.DeleteFunc(k.held, func(_ sandboxID, until time.Time) bool { return !now.Before(until) })
		k.feed.Add(sets.List(sets.KeySet(seen.queries).Difference(sets.KeySet(k.held)))...)
	}
	return k.goneDue(nodes), nil
}

// withdrawn are the sandboxes that are not queried any more. Their orphans may still wait: another client may have deleted the queries.
func withdrawn(before, now *reports) []sandboxID {
	return sets.List(sets.KeySet(before.queries).Difference(sets.KeySet(now.queries)))
}

// lookLive reads queries, responses, Nodes and GuardedNodes live, and releases the orphans that no node has or had; false while the Nodes are not
// confirmed.
func (k *reclaimer) lookLive(ctx context.Context, complete []sandboxID) (isConfirmed bool, err error) {
	now := k.orphans.clock.Now() // before the reads, which then confirm that a delay is over
	isKept := k.read != nil && now.Sub(k.read.at).Abs() < nodelife.Reuse
	if !isKept {
		k.noteRead(complete)
		if k.read, err = k.readReports(ctx); err != nil {
			return false, err
		}
	}
	machines, err := k.orphans.options.Machines.All(ctx, k.read.at)
	if err != nil || machines == nil {
		return false, err
	}
	read := k.read
	k.read = nil
	read.observedSince(machines.Acquired, now)
	read.nodes = release.Known(orphan.Nodes(machines, read.acknowledged, k.orphans.clock.Now()))
	k.countMissing(read)
	if isKept { // orphans that became complete after the responses were read are queued again
		k.feed.Add(k.completeSince(complete)...)
	}
	return true, k.reclaim(ctx, complete, read, now)
}

// noteRead records for which orphans the reports are about to be read.
func (k *reclaimer) noteRead(ids []sandboxID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.readFor = sets.New(ids...)
}

// completeSince are those of the orphans that became complete since the reports were read.
func (k *reclaimer) completeSince(ids []sandboxID) []sandboxID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return sets.List(sets.New(ids...).Difference(k.readFor))
}

// reclaim decides about orphans on live facts, and releases together those that may be released.
func (k *reclaimer) reclaim(ctx context.Context, ids []sandboxID, read *reports, now time.Time) error {
	views, err := k.orphans.lookLive(ctx, ids, read)
	if err != nil {
		return err
	}
	var gone []*view
	var decisions []orphan.Decision
	for _, v := range views {
		d := orphan.Decide(v.facts, now)
		if d.Action == orphan.Release {
			gone, decisions = append(gone, v), append(decisions, d)
			continue
		}
		result, err := k.orphans.act(ctx, v, d)
		if err = shadow.Ignore(err); err != nil {
			log.FromContext(ctx).Error(errors.Join(err, k.orphans.explainFailure(ctx, v, d, err)),
				"Reconciling a sandbox without an owner failed; trying again", "sandbox", v.id)
			result.RequeueAfter = nodelife.LookInterval
		}
		if result.RequeueAfter > 0 {
			if d.Row != orphan.RowAwaitAcknowledgments && d.Row != orphan.RowQueryAllNodes { // other nodes' responses end these
				k.held[v.id] = now.Add(result.RequeueAfter)
			}
			k.feed.AddAfter(result.RequeueAfter, v.id)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return shadow.Ignore(k.orphans.release(ctx, gone, decisions))
}
