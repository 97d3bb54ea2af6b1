// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/controllers/audit"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/liveness"
	"github.com/holdfast-dev/holdfast/controllers/node"
	"github.com/holdfast-dev/holdfast/controllers/orphan"
	"github.com/holdfast-dev/holdfast/controllers/pod"
	"github.com/holdfast-dev/holdfast/controllers/poolusage"
	"github.com/holdfast-dev/holdfast/controllers/protect"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/controllers/relabel"
	"github.com/holdfast-dev/holdfast/controllers/slice"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// Options configure the controllers.
type Options struct {
	// Backends are the IPAMs whose entries are guarded.
	Backends []ipam.Backend
	// Evidence is the source of the proof that a sandbox is gone.
	Evidence release.Evidence
	// Settings are the delays of the decision table.
	Settings release.Settings
	// ManagerNamespace holds the Lease of the observation of Nodes.
	ManagerNamespace string
	// MaxQueries is how many orphans all nodes are queried about at once.
	MaxQueries int
	// Rules define which pods are protected; the late protection and the early unprotect follow them like the webhook.
	Rules protection.Rules
	// Repair corrects what the audit finds; false only reports it.
	Repair bool
	// Shadow has what would be done reported, and not done; nil does it. The backends have to be such that only report, too.
	Shadow *shadow.Reporter
	// Concurrency is how many pods, and how many orphans, are reconciled at once.
	Concurrency int
	// SweepInterval is how often all pods are paged for finalizers without a label.
	SweepInterval time.Duration
	// PoliciesSince is the time from which admission policies keep other accounts from writing what a kubelet reports; zero where they are not in
	// force. PoliciesSince reads it.
	PoliciesSince func(context.Context) (time.Time, error)
	// LastRetry is the longest back-off of what failed. Default: 30s.
	LastRetry time.Duration
	// SimulatedQueues has the queues of the controllers fit a simulation in virtual time (backoff.NewQueue).
	SimulatedQueues bool
	// NodeWatches counts where the watches of Nodes and GuardedNodes began anew.
	NodeWatches *node.Watches
	// Clock is the real one except in tests.
	Clock clock.PassiveClock
}

// Setup registers every controller with the manager. Call it once, before the manager starts; the backends must have been
// set up already.
func Setup(ctx context.Context, mgr manager.Manager, o Options) error {
	o.LastRetry = cmp.Or(o.LastRetry, backoff.Last)
	if err := index.Setup(ctx, mgr.GetCache()); err != nil {
		return err
	}
	seen, err := witness.Watch(ctx, mgr.GetCache(), o.Clock)
	if err != nil {
		return err
	}
	observer := liveness.New(mgr.GetAPIReader(), o.Clock, o.PoliciesSince)
	routes := &router{client: mgr.GetClient(), backends: o.Backends, recorder: mgr.GetEventRecorder("holdfast")}
	wanted := queries.NewWanted()
	nodes, err := node.Setup(mgr, o.Clock, node.Options{
		Settings: o.Settings, Namespace: o.ManagerNamespace, LastRetry: o.LastRetry, Watches: o.NodeWatches, Kubelet: observer.Kubelet,
		SimulatedQueues: o.SimulatedQueues, Queries: wanted, Evidence: o.Evidence,
	})
	if err != nil {
		return err
	}
	pods, err := pod.Setup(mgr, o.Clock, pod.Options{Backends: o.Backends, Evidence: o.Evidence, Settings: o.Settings, Queries: wanted, Rules: o.Rules,
		Shadow: o.Shadow, Concurrency: o.Concurrency, LastRetry: o.LastRetry, SimulatedQueues: o.SimulatedQueues,
		PoliciesSince: o.PoliciesSince, Witness: seen, Liveness: observer, Gone: nodes.Gone, ReachedSince: nodes.ReachedSince, Running: routes.queue()})
	if err != nil {
		return err
	}
	orphans, err := orphan.Setup(mgr, o.Clock, orphan.Options{MaxQueries: o.MaxQueries, Queries: wanted,
		Backends: o.Backends, Evidence: o.Evidence, Settings: o.Settings, Rules: o.Rules, Shadow: o.Shadow, Concurrency: o.Concurrency, LastRetry: o.LastRetry,
		SimulatedQueues: o.SimulatedQueues, PoliciesSince: o.PoliciesSince, Witness: seen, Liveness: observer, Machines: nodes,
		Running: routes.queue()})
	if err != nil {
		return err
	}
	protector, err := protect.Setup(mgr, seen, protect.Options{Backends: o.Backends, Rules: o.Rules, Shadow: o.Shadow, LastRetry: o.LastRetry,
		SimulatedQueues: o.SimulatedQueues, Running: routes.queue()})
	if err != nil {
		return err
	}
	routes.changed, routes.replayed, routes.late = looks{pods.Look, orphans.Look}, looks{pods.Replay, orphans.Replay}, protector.Look
	for _, backend := range o.Backends {
		backend.Subscribe(routes.route)
	}
	metrics.OldestHold.From(seen.OldestHolds)
	if err := poolusage.Setup(mgr, o.Backends); err != nil {
		return err
	}
	if err := relabel.Setup(mgr, o.SweepInterval); err != nil {
		return err
	}
	if err := audit.Setup(mgr, o.Backends, o.Clock, audit.Options{
		Rules: o.Rules, ReleaseDelay: o.Settings.ReleaseDelay, Interval: o.SweepInterval, LastRetry: o.LastRetry, SimulatedQueues: o.SimulatedQueues, Repair: o.Repair,
		Pod: pods.Facts, Node: func(ctx context.Context, name string) release.Fact[release.Node] {
			return liveness.Node(ctx, mgr.GetAPIReader(), name)
		},
		LookAt: routes.lookAt, Scheduled: orphans.Scheduled,
	}); err != nil {
		return err
	}
	return slice.Setup(mgr, o.Backends, o.Clock, o.LastRetry, o.SimulatedQueues)
}
