// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

const (
	// auditInterval is how often the records are compared when nothing changes. A shorter SweepInterval shortens it.
	auditInterval = 10 * time.Minute
	// auditDelay gathers changes of pools: each audit lists all reservations.
	auditDelay = time.Minute
	// auditTold bounds how many findings one audit reads live; the next goes on.
	auditTold = 50
)

// auditor compares an IPAM's records with each other and with what live pods show, and reports what contradicts. It writes
// nothing but events: what is wrong here was done by the IPAM, and only its user can tell which side to give up.
//
// A finding stands for ReleaseDelay before it is looked at again, live, and told once. So an ADD or a DEL in between is none.
type auditor struct {
	*core
	backend ipam.Auditable
	changed chan struct{}
	known   []*knownFinding
}

// knownFinding is a finding of the last audit.
type knownFinding struct {
	ipamaudit.Finding
	since time.Time
	told  bool
}

func setupAudit(mgr manager.Manager, shared *core, _ *router) error {
	for _, backend := range shared.backends {
		auditable, ok := backend.(ipam.Auditable)
		if !ok {
			continue
		}
		a := &auditor{core: shared, backend: auditable, changed: make(chan struct{}, 1)}
		backend.Subscribe(func(ipam.Event) { a.wake() })
		if err := mgr.Add(a); err != nil {
			return fmt.Errorf("setting up the audit of %s: %w", backend.Name(), err)
		}
	}
	return nil
}

// NeedLeaderElection: one audit in the cluster is enough.
func (a *auditor) NeedLeaderElection() bool { return true }

func (a *auditor) wake() {
	select {
	case a.changed <- struct{}{}:
	default: // it will look anyway
	}
}

// Start audits at once, then at every interval, and sooner after pools have changed. A failed audit is made up for by the
// next.
func (a *auditor) Start(ctx context.Context) error {
	for {
		if err := a.audit(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Auditing the IPAM failed; the next audit tries again", "backend", a.backend.Name())
		}
		if !a.pause(ctx) {
			return nil
		}
	}
}

// pause waits for the next audit; false at the end.
func (a *auditor) pause(ctx context.Context) bool {
	interval := auditInterval
	if sweep := a.options.SweepInterval; sweep > 0 {
		interval = min(interval, sweep)
	}
	if slices.ContainsFunc(a.known, func(k *knownFinding) bool { return !k.told }) || !a.backend.HasSynced() {
		interval = min(interval, max(a.options.Settings.ReleaseDelay, time.Second))
	}
	due := time.NewTimer(interval)
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
	known := make([]*knownFinding, 0, len(found))
	for _, finding := range found {
		k := &knownFinding{Finding: finding, since: a.clock.Now()}
		if i := slices.IndexFunc(a.known, func(k *knownFinding) bool { return k.IsSame(finding) }); i >= 0 {
			k.since, k.told = a.known[i].since, a.known[i].told
		}
		known = append(known, k)
	}
	a.known = known
}

// confirm looks again at what has stood long enough, live, and tells what is still so.
func (a *auditor) confirm(ctx context.Context) error {
	var due []*knownFinding
	for _, k := range a.known {
		if !k.told && a.clock.Since(k.since) >= a.options.Settings.ReleaseDelay && len(due) < auditTold {
			due = append(due, k)
		}
	}
	if len(due) == 0 {
		return nil
	}
	facts, err := a.observeLive(ctx, due)
	if err != nil {
		return err
	}
	still := ipamaudit.Audit(facts)
	for _, k := range due {
		if i := slices.IndexFunc(still, k.IsSame); i >= 0 {
			k.told = true
			a.tell(ctx, k.Finding)
		} else {
			k.since = a.clock.Now()
		}
	}
	return nil
}

// tell reports a finding on the pod, or on the reservation that has none.
func (a *auditor) tell(ctx context.Context, finding ipamaudit.Finding) {
	var about runtime.Object = &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", UID: finding.UID}
	if finding.Kind == v1alpha1.ReasonReservationOrphaned {
		about = a.backend.ReservationReference(finding.Reservation)
	} else if ref, ok := podRefOf(finding.PodRef); ok {
		about = &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: ref.Namespace, Name: ref.Name, UID: finding.UID}
	}
	message := finding.Message()
	a.recorder.Eventf(about, nil, corev1.EventTypeWarning, string(finding.Kind), "Audit", "%s", message)
	log.FromContext(ctx).Info("The IPAM's records contradict themselves", "backend", a.backend.Name(), "kind", finding.Kind, "finding", message)
}
