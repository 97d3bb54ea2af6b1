// SPDX-License-Identifier: Apache-2.0

// Package stores audits the IPAM stores of the agent's node: it reads them, then lists the runtime, and reports the findings of
// internal/nodestore by metric, event on the Node and log line. If configured, it reclaims the addresses of sandboxes that are proven gone.
package stores

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodestore"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

const (
	// watchInterval is how often the stores are checked for a change, by the times of their folders. Unlike inotify this works on every kind of
	// mount and takes none of the node's few instances.
	watchInterval = time.Second
	// minRest is the shortest time between the starts of two passes.
	minRest = 5 * time.Second
)

// Source reads stores.
type Source interface {
	// Read gives a reading of every store, those that could not be read included.
	Read() []nodestore.Reading
	// Fingerprint changes with the stores. It may miss a change.
	Fingerprint() string
}

// Reclaimer removes an entry whose sandbox is proven gone, if the store still has exactly that entry. The reason says whether it did.
type Reclaimer interface {
	Reclaim(ctx context.Context, e nodestore.Entry) (v1alpha1.Reason, error)
}

// Options of an Auditor. All are required, but for Reclaimers, Clock and Log.
type Options struct {
	// NodeName is the node on which the agent runs.
	NodeName string
	// Backends are those of the sources: their metrics exist from the start.
	Backends []nodestore.Backend
	// Sources are the stores.
	Sources []Source
	// Reclaimers reclaim leaked addresses, by the source of the store (nodestore.Store.Source); leaks of other sources are only reported.
	Reclaimers map[string]Reclaimer
	// Lister lists the runtime of the node's kubelet.
	Lister sandbox.Lister
	// Self gives the agent's own pod, and the Node for which it may respond; see agent.Agent.
	Self func() (podUID, nodeUID types.UID)
	// Events writes events on the Node.
	Events client.Writer
	// Interval is how often the stores are read while they do not change; shorter than handshake.MaxGap.
	Interval time.Duration
	// Settings are the delays of the handshake.
	Settings handshake.Settings
	// Clock is the real one except in tests.
	Clock clock.WithTicker
	// Log gets one line for each finding. Default: none.
	Log logr.Logger
}

// Auditor is the audit of one node's stores.
type Auditor struct {
	options Options
	clock   clock.WithTicker
	log     logr.Logger
	audit   *nodestore.Audit
	events  *eventWriter
	// prints are the fingerprints before the last reading, and began when that pass began.
	prints string
	began  time.Time
	// failed are the entries whose reclaim failed and was reported.
	failed sets.Set[nodestore.Entry]
}

// New makes an auditor.
func New(o Options) (*Auditor, error) {
	if o.NodeName == "" || len(o.Sources) == 0 || o.Lister == nil || o.Self == nil || o.Events == nil || o.Interval <= 0 || o.Interval >= handshake.MaxGap || o.Settings.SandboxCreationMax <= 0 {
		return nil, errors.New("making the audit of the node's stores: every option but Reclaimers, Clock and Log is required, and Interval has to be shorter than " + handshake.MaxGap.String())
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Auditor{options: o, clock: o.Clock, log: o.Log, audit: nodestore.NewAudit(o.Settings), failed: sets.New[nodestore.Entry](),
		events: &eventWriter{writer: o.Events, nodeName: o.NodeName, clock: o.Clock, log: o.Log}}, nil
}

// Start runs until ctx ends.
func (a *Auditor) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		a.pass(ctx)
		a.rest(ctx)
	}
	return nil
}

// rest waits until the next pass is due.
func (a *Auditor) rest(ctx context.Context) {
	timer := a.clock.NewTimer(min(a.options.Interval, watchInterval))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		since := a.clock.Now().Sub(a.began)
		if since >= a.options.Interval || since >= minRest && a.fingerprint() != a.prints {
			return
		}
		timer.Reset(min(a.options.Interval-since, watchInterval))
	}
}

func (a *Auditor) fingerprint() string {
	var all strings.Builder
	for _, s := range a.options.Sources {
		all.WriteString(s.Fingerprint())
	}
	return all.String()
}

// pass reads the stores, then lists the runtime: in the other order a sandbox that is being created would look leaked.
func (a *Auditor) pass(ctx context.Context) {
	a.began, a.prints = a.clock.Now(), a.fingerprint()
	var readings []nodestore.Reading
	for _, s := range a.options.Sources {
		readings = append(readings, s.Read()...)
	}
	read := a.clock.Now()
	look := a.look(ctx, readings)
	report := a.audit.Compare(readings, read, look)
	a.measure(report)
	a.report(report)
	a.reclaim(ctx, report.Gone)
	_, nodeUID := a.options.Self()
	a.events.write(ctx, nodeUID)
}

// look lists the runtime, if a store has an entry.
func (a *Auditor) look(ctx context.Context, readings []nodestore.Reading) handshake.Look {
	if !slices.ContainsFunc(readings, func(r nodestore.Reading) bool { return len(r.Entries) > 0 }) {
		metrics.NodeStoreAudits.WithLabelValues(metrics.NodeStoreAudited).Inc()
		return handshake.Look{}
	}
	podUID, _ := a.options.Self()
	listing, err := a.options.Lister.List(ctx, sandbox.Queried{})
	look := sandbox.LookOf(listing, err, podUID)
	result := metrics.NodeStoreAudited
	if look.Listing == nil {
		result = string(look.Failure.Reason)
		a.log.V(1).Info("The stores of this node are not compared", "reason", result, "why", look.Failure.Message)
	}
	metrics.NodeStoreAudits.WithLabelValues(result).Inc()
	return look
}
