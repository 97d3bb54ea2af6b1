// SPDX-License-Identifier: Apache-2.0

// Package audit compares the records of an IPAM with each other and with what live pods show: pools, reservations and slices. It
// reports contradictions, and repairs reservations. internal/ipamaudit finds, and internal/ipamrepair decides.
package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/ipamrepair"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	// auditInterval is how often the records are compared when nothing changes. A shorter Options.Interval shortens it.
	auditInterval = 10 * time.Minute
	// heldSoon is for how long the next audit of a finding that is held comes soon: what holds it may end, and that changes no pool.
	heldSoon = time.Hour
	// auditDelay gathers changes of pools: each audit lists all reservations.
	auditDelay = time.Minute
	// auditTold bounds how many findings one audit reads live; the next goes on.
	auditTold = 50
)

// Options configure the audit.
type Options struct {
	// Rules say which pods are protected.
	Rules protection.Rules
	// ReleaseDelay is how long a finding stands before it is confirmed and reported.
	ReleaseDelay time.Duration
	// Interval shortens the time between two audits, and LastRetry bounds that to the next try of one that failed.
	Interval, LastRetry time.Duration
	// Repair corrects what the audit finds; false only reports it.
	Repair bool
	// Pod and Node are the facts of a pod that was read live, and of a node, which is read live, as releases are decided on.
	Pod  func(ctx context.Context, pod *corev1.Pod) release.Pod
	Node func(ctx context.Context, name string) release.Fact[release.Node]
	// LookAt has the orphan controller look at a sandbox, and Scheduled are the sandboxes that it will look at.
	LookAt    func(sandbox string)
	Scheduled func() []string
}

// auditor compares an IPAM's records with each other and with what live pods show, reports contradictions, and repairs what can be
// repaired: observe, compare, confirm live, repair, record.
//
// A finding stands for ReleaseDelay before it is looked at again, live, and told once. So an ADD or a DEL in between is none.
type auditor struct {
	// client reads the cache and writes records, live reads the API server.
	client   client.Client
	live     client.Reader
	recorder events.EventRecorder
	clock    clock.PassiveClock
	options  Options
	backend  ipam.Repairable
	changed  chan struct{}
	known    []*knownFinding
	writes   flowcontrol.RateLimiter
	// failures are the audits in a row that have failed.
	failures int
	// unsaid are the lines about repairs that records do not have yet.
	unsaid unsaidLines
	// unread is the last call that gave no fact to decide about the present repair.
	unread error
}

// knownFinding is a finding of the last audit.
type knownFinding struct {
	ipamaudit.Finding
	since time.Time
	told  bool
	// tried is when a repair was last thought about; the last outcome was said already. soon: the next audit can tell more.
	tried   time.Time
	outcome outcome
	soon    bool
}

// Setup registers an audit of each backend with reservations that can be repaired.
func Setup(mgr manager.Manager, backends []ipam.Backend, clk clock.PassiveClock, o Options) error {
	for _, backend := range backends {
		repairable, ok := backend.(ipam.Repairable)
		if !ok {
			continue
		}
		a := newAuditor(mgr.GetClient(), mgr.GetAPIReader(), repairable, mgr.GetEventRecorder("holdfast"), clk, o)
		backend.Subscribe(func(ipam.Event) { a.wake() })
		if err := mgr.Add(a); err != nil {
			return fmt.Errorf("setting up the audit of %s: %w", backend.Name(), err)
		}
	}
	return nil
}

func newAuditor(cached client.Client, live client.Reader, backend ipam.Repairable, recorder events.EventRecorder, clk clock.PassiveClock, o Options) *auditor {
	return &auditor{client: cached, live: live, recorder: recorder, clock: clk, options: o, backend: backend, changed: make(chan struct{}, 1),
		writes: flowcontrol.NewTokenBucketRateLimiter(repairsPerSecond, repairsAtOnce)}
}

// NeedLeaderElection: one audit in the cluster is enough.
func (a *auditor) NeedLeaderElection() bool { return true }

func (a *auditor) wake() {
	select {
	case a.changed <- struct{}{}:
	default: // it will look anyway
	}
}

// Start audits at once, then at every interval, and sooner after pools have changed. A failed audit is tried again with back-off.
func (a *auditor) Start(ctx context.Context) error {
	for {
		err := a.audit(ctx)
		if a.failures++; err == nil {
			a.failures = 0
		}
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Auditing the IPAM failed; it is tried again", "backend", a.backend.Name())
		}
		if !a.pause(ctx) {
			return nil
		}
	}
}

// interval is the time to the next audit if no pool changes.
func (a *auditor) interval() time.Duration {
	interval := auditInterval
	if sweep := a.options.Interval; sweep > 0 {
		interval = min(interval, sweep)
	}
	if slices.ContainsFunc(a.known, func(k *knownFinding) bool { return !k.told || k.soon }) || !a.backend.HasSynced() {
		interval = min(interval, max(a.options.ReleaseDelay, time.Second))
	}
	if a.failures > 0 {
		interval = min(interval, backoff.After(a.failures, a.options.LastRetry))
	}
	return interval
}

// pause waits for the next audit; false at the end.
func (a *auditor) pause(ctx context.Context) bool {
	due := time.NewTimer(a.interval())
	defer due.Stop()
	gather := make(<-chan time.Time)
	changed := a.changed
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due.C:
			return true
		case <-gather:
			return true
		case <-changed:
			changed = nil
			soon := time.NewTimer(auditDelay)
			defer soon.Stop()
			gather = soon.C
		}
	}
}

func (a *auditor) audit(ctx context.Context) error {
	err := a.compare(ctx)
	return errors.Join(err, a.sayUnsaid(ctx))
}

func (a *auditor) compare(ctx context.Context) error {
	if !a.backend.HasSynced() {
		return nil // unknown is not empty
	}
	facts, err := a.observe(ctx)
	if err != nil {
		return err
	}
	a.remember(ipamaudit.Audit(facts))
	err = a.confirm(ctx)
	for _, kind := range ipamaudit.Kinds {
		standing := 0
		for _, k := range a.known {
			if k.told && k.Kind == kind {
				standing++
			}
		}
		metrics.Inconsistencies.WithLabelValues(string(kind)).Set(float64(standing))
	}
	return err
}

// remember replaces what was known by what is found now, and keeps since when.
func (a *auditor) remember(found []ipamaudit.Finding) {
	before := make(map[ipamaudit.Identity]*knownFinding, len(a.known))
	for _, k := range a.known {
		before[k.Identity()] = k
	}
	known := make([]*knownFinding, 0, len(found))
	for _, finding := range found {
		k := &knownFinding{Finding: finding, since: a.clock.Now()}
		if earlier := before[finding.Identity()]; earlier != nil {
			*k = *earlier
			k.Finding = finding
		}
		known = append(known, k)
	}
	a.known = known
}

// confirm looks again at what has stood long enough, live, tells what is still so, and thinks about its repair.
func (a *auditor) confirm(ctx context.Context) error {
	due := a.due()
	if len(due) == 0 {
		return nil
	}
	facts, err := a.observeLive(ctx, due)
	if err != nil {
		return err
	}
	found := ipamaudit.Audit(facts)
	var standing []*knownFinding
	for _, k := range due {
		k.tried = a.clock.Now()
		i := slices.IndexFunc(found, k.IsSame)
		if i < 0 {
			k.since, k.told = a.clock.Now(), false
			continue
		}
		k.Finding = found[i]
		if !k.told {
			k.told = true
			a.tell(ctx, k.Finding)
		}
		standing = append(standing, k)
	}
	return a.repair(ctx, standing)
}

// due are the findings that have stood for long enough: those that nobody was told of, then those whose repair was thought about
// the longest ago.
func (a *auditor) due() []*knownFinding {
	var due []*knownFinding
	for _, k := range a.known {
		if a.clock.Since(k.since) >= a.options.ReleaseDelay && !a.isReported(k) {
			due = append(due, k)
		}
	}
	slices.SortStableFunc(due, func(x, y *knownFinding) int { return x.tried.Compare(y.tried) })
	return due[:min(len(due), auditTold)]
}

// isReported: everything has been said of a finding, and nothing is to be written.
func (a *auditor) isReported(k *knownFinding) bool {
	return k.told && k.outcome.result != "" && (!a.options.Repair || !ipamrepair.Writes(k.Kind))
}

// tell reports a finding on the pod; or, where no live one has to do with it, on the reservation or the pool.
func (a *auditor) tell(ctx context.Context, finding ipamaudit.Finding) {
	message := finding.Message()
	if finding.Kind == v1alpha1.ReasonEntryUnaccounted {
		a.options.LookAt(finding.SandboxID)
	}
	if _, marked := ipam.ReservationOwner(finding.PodRef); !marked { // that was told before its mark
		a.recorder.Eventf(a.about(finding), nil, corev1.EventTypeWarning, string(finding.Kind), "Audit", "%s", message)
	}
	log.FromContext(ctx).Info("The IPAM's records contradict themselves", "backend", a.backend.Name(), "kind", finding.Kind, "finding", message)
}

// about is the object of a finding's events.
func (a *auditor) about(finding ipamaudit.Finding) runtime.Object {
	ref, ok := ipam.ParsePodRef(finding.PodRef)
	switch {
	case finding.Kind == v1alpha1.ReasonReservationOrphaned:
		return a.backend.ReservationReference(finding.Reservation)
	case finding.UID == "" || !ok:
		return a.backend.PoolReference(finding.Pool)
	default:
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: ref.Namespace, Name: ref.Name, UID: finding.UID}
	}
}
