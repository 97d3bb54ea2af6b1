// SPDX-License-Identifier: Apache-2.0

// Package audit compares the records of an IPAM with each other and with what live pods show: pools, reservations and slices. It
// reports contradictions, and repairs reservations. internal/ipamaudit finds, and internal/ipamrepair decides.
package audit

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/queue"
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
	// fullEvery is how many intervals pass until everything is compared anew: a lost event, or a node that came or went (isNode), must not
	// hide a contradiction for ever.
	fullEvery = 6
	// heldSoon is how long a held finding is audited again soon: what holds it may end without a change of a pool.
	heldSoon = time.Hour
	// auditDelay gathers changes of pools: an audit that confirms findings lists all reservations.
	auditDelay = time.Minute
	// confirmedPerAudit bounds how many findings one audit reads live; the next audit continues.
	confirmedPerAudit = 50
)

// request is the one key: everything is audited together.
type request struct{}

// Options configure the audit.
type Options struct {
	// Rules define which pods are protected.
	Rules protection.Rules
	// ReleaseDelay is how long a finding stands before it is confirmed and reported.
	ReleaseDelay time.Duration
	// Interval shortens the time between two audits, and LastRetry bounds that to the next try of one that failed.
	Interval, LastRetry time.Duration
	// SimulatedQueues fit a simulation (backoff.NewQueue).
	SimulatedQueues bool
	// Repair corrects what the audit finds; false only reports it.
	Repair bool
	// Pod and Node are the facts of a pod that was read live, and of a node, which is read live, as releases are decided on.
	Pod  func(ctx context.Context, pod *corev1.Pod) release.Pod
	Node func(ctx context.Context, name string) release.Fact[release.Node]
	// LookAt makes the orphan controller examine a sandbox, and Scheduled are the sandboxes that it will look at.
	LookAt    func(sandbox string)
	Scheduled func() []string
}

// auditor compares an IPAM's records with each other and with what live pods show, reports contradictions, and repairs what can be
// repaired: observe, compare, confirm live, repair, record.
//
// A finding stands for ReleaseDelay before it is looked at again, live, and reported once. So an ADD or a DEL in between is none.
type auditor struct {
	// client reads the cache and writes records, live reads the API server.
	client   client.Client
	live     client.Reader
	recorder events.EventRecorder
	clock    clock.PassiveClock
	options  Options
	backend  ipam.Repairable
	feed     queue.Feed[request]
	known    []*knownFinding
	// informers are those of client's cache; followed report whether each source of changes is synced.
	informers cache.Informers
	followed  []func() bool
	changes   changeLog
	last      baseline
	writes    flowcontrol.RateLimiter
	// unreported are the lines about repairs that records do not have yet.
	unreported unreportedLines
	// unread is the last call that gave no fact to decide about the present repair.
	unread error
}

// baseline is what the last audit found and rests on, so that the next one compares what changed since.
type baseline struct {
	result ipamaudit.Result
	// full is when everything was compared; followed: changes have been followed since.
	full       time.Time
	followed   bool
	unreadable bool
	divided    []*ipam.SlicePool
	scheduled  sets.Set[string]
}

// knownFinding is a finding of the last audit.
type knownFinding struct {
	ipamaudit.Finding
	since    time.Time
	reported bool
	// tried is when a repair was last considered; outcome is the last one reported. soon: the next audit may know more.
	tried   time.Time
	outcome outcome
	soon    bool
}

// Setup registers an audit of each backend with reservations that can be repaired. The leader audits.
func Setup(mgr manager.Manager, backends []ipam.Backend, clk clock.PassiveClock, o Options) error {
	for _, backend := range backends {
		repairable, ok := backend.(ipam.Repairable)
		if !ok {
			continue
		}
		a := newAuditor(mgr.GetClient(), mgr.GetAPIReader(), repairable, mgr.GetEventRecorder("holdfast"), clk, o)
		a.informers = mgr.GetCache()
		backend.Subscribe(a.poolChanged)
		err := queue.Control(mgr, "audit-"+backend.Name(), controller.TypedOptions[request]{Reconciler: a,
			RateLimiter: backoff.RateLimiter[request](o.LastRetry), NewQueue: backoff.NewQueue[request](o.SimulatedQueues)},
			a.feed.Source(func(context.Context) { a.feed.AddAfter(min(backoff.AfterStart, a.longest()), request{}) }))
		if err != nil {
			return err
		}
	}
	return nil
}

func newAuditor(cached client.Client, live client.Reader, backend ipam.Repairable, recorder events.EventRecorder, clk clock.PassiveClock, o Options) *auditor {
	return &auditor{client: cached, live: live, recorder: recorder, clock: clk, options: o, backend: backend,
		writes: flowcontrol.NewTokenBucketRateLimiter(repairsPerSecond, repairsAtOnce)}
}

// Reconcile audits once, and again after the interval, sooner after pools have changed. A failed audit is tried again with back-off.
func (a *auditor) Reconcile(ctx context.Context, _ request) (reconcile.Result, error) {
	if err := a.audit(ctx); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: a.interval()}, nil
}

// longest is the time between two audits when nothing is due sooner.
func (a *auditor) longest() time.Duration {
	if sweep := a.options.Interval; sweep > 0 {
		return min(auditInterval, sweep)
	}
	return auditInterval
}

// interval is the time to the next audit if no pool changes and the last one has not failed.
func (a *auditor) interval() time.Duration {
	interval := a.longest()
	if slices.ContainsFunc(a.known, func(k *knownFinding) bool { return !k.reported || k.soon }) || !a.backend.HasSynced() {
		interval = min(interval, max(a.options.ReleaseDelay, time.Second))
	}
	return interval
}

func (a *auditor) audit(ctx context.Context) error {
	err := a.compare(ctx)
	return errors.Join(err, a.writeUnreported(ctx))
}

func (a *auditor) compare(ctx context.Context) error {
	if !a.backend.HasSynced() {
		return nil // unknown is not empty
	}
	followed, err := a.follow(ctx)
	if err != nil {
		log.FromContext(ctx).Info("Cannot follow what changes; each audit compares everything", "backend", a.backend.Name(), "found", err.Error())
	}
	taken := a.changes.take()
	taken.all = taken.all || !followed || !a.last.followed || a.clock.Since(a.last.full) >= fullEvery*a.longest()
	examined := false
	defer func() {
		if !examined { // also after a panic, which the controller recovers
			a.changes.giveBack(taken)
		}
	}()
	if err = a.examine(ctx, taken, followed); err != nil {
		return err
	}
	examined = true
	a.remember(a.last.result.Bounded())
	err = a.confirm(ctx)
	for _, kind := range ipamaudit.Kinds {
		standing := 0
		for _, k := range a.known {
			if k.reported && k.Kind == kind {
				standing++
			}
		}
		metrics.Inconsistencies.WithLabelValues(string(kind)).Set(float64(standing))
	}
	return err
}

// examine audits what changed, or everything, and leaves the result in a.last.
func (a *auditor) examine(ctx context.Context, c changes, followed bool) error {
	divided, err := a.backend.SlicePools(ctx)
	if err != nil {
		return err
	}
	scheduled := sets.New(a.options.Scheduled()...) // as of the beginning
	a.addSandboxes(&c, scheduled)
	c.all = c.all || !equality.Semantic.DeepEqual(divided, a.last.divided)
	if c.isEmpty() {
		return nil // the findings of the last audit stand
	}
	r := a.read(divided)
	if c.all {
		facts, err := a.observeAll(ctx, r)
		if err != nil {
			return err
		}
		a.last = baseline{result: ipamaudit.Examine(facts), full: a.clock.Now(), followed: followed, unreadable: facts.Unreadable, divided: r.divided}
	} else {
		facts, scope, err := a.observeChanged(ctx, r, c)
		if err != nil {
			return err
		}
		a.last.result = a.last.result.With(ipamaudit.Examine(facts), scope)
	}
	a.last.scheduled = scheduled
	if r.networks.Err() != nil { // nothing is known of a network, so that findings may be left out
		a.changes.addAll()
	}
	return nil
}

// remember replaces what was known by what is found now, and keeps since when.
func (a *auditor) remember(found []ipamaudit.Finding) {
	before := make(map[ipamaudit.Finding]*knownFinding, len(a.known))
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

// confirm reads findings that have stood long enough again, live, reports those that still stand, and considers their repair.
func (a *auditor) confirm(ctx context.Context) error {
	due := a.due()
	if len(due) == 0 {
		return nil
	}
	facts, err := a.observeLive(ctx, due)
	if err != nil {
		return err
	}
	found := ipamaudit.Examine(facts).Findings
	var standing []*knownFinding
	for _, k := range due {
		k.tried = a.clock.Now()
		i := slices.IndexFunc(found, k.IsSame)
		if i < 0 {
			k.since, k.reported = a.clock.Now(), false
			continue
		}
		k.Finding = found[i]
		if !k.reported {
			k.reported = true
			a.report(ctx, k.Finding)
		}
		standing = append(standing, k)
	}
	return a.repair(ctx, standing)
}

// due are the findings that have stood for long enough: those that are not reported yet, then those whose repair was considered
// the longest ago.
func (a *auditor) due() []*knownFinding {
	var due []*knownFinding
	for _, k := range a.known {
		if a.clock.Since(k.since) >= a.options.ReleaseDelay && !a.isReported(k) {
			due = append(due, k)
		}
	}
	slices.SortStableFunc(due, func(x, y *knownFinding) int { return x.tried.Compare(y.tried) })
	return due[:min(len(due), confirmedPerAudit)]
}

// isReported: a finding is fully reported, and nothing is to be written.
func (a *auditor) isReported(k *knownFinding) bool {
	return k.reported && k.outcome.result != "" && (!a.options.Repair || !ipamrepair.Writes(k.Kind))
}

// report emits an event on the pod or, if no live pod is involved, on the reservation or the pool.
func (a *auditor) report(ctx context.Context, finding ipamaudit.Finding) {
	message := finding.Message()
	if finding.Kind == v1alpha1.ReasonEntryUnaccounted {
		a.options.LookAt(finding.SandboxID)
	}
	if _, marked := ipam.ReservationOwner(finding.PodRef); !marked { // the finding was reported before its mark
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
