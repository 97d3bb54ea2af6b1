// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamrepair"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

const (
	// repairsPerSecond and repairsAtOnce limit the writes of repairs: if many reservations are broken at once, the cluster is broken,
	// and its API server has more to do.
	repairsPerSecond, repairsAtOnce = 2, 10
)

// outcome is the outcome of a finding, as last reported.
type outcome struct {
	result  v1alpha1.RepairResult
	reason  v1alpha1.Reason
	message string
}

// written are the reasons of events about writes.
var written = map[ipamrepair.Action]v1alpha1.Reason{
	ipamrepair.Create: v1alpha1.ReasonReservationCreated, ipamrepair.Give: v1alpha1.ReasonReservationGiven,
	ipamrepair.Mark: v1alpha1.ReasonReservationMarked, ipamrepair.Restore: v1alpha1.ReasonReservationRestored,
	ipamrepair.Delete: v1alpha1.ReasonReservationDeleted,
}

// repair decides about findings that were confirmed just now, does what was decided, and reports changes.
func (a *auditor) repair(ctx context.Context, standing []*knownFinding) error {
	if len(standing) == 0 {
		return nil
	}
	var failures []error
	a.unread = nil
	reads := a.readRepairs(ctx, standing)
	shared := a.unread
	for _, k := range standing {
		k.soon, a.unread = false, shared
		facts, object := a.repairFacts(ctx, k.Finding, reads)
		decision := ipamrepair.Decide(facts)
		if a.unread != nil && decision.Action == ipamrepair.Hold {
			// Not worth an event: later ones of the same reason about the same object would only be counted, under this text.
			failures = append(failures, fmt.Errorf("deciding about %s: %w", k.Kind, a.unread))
			continue
		}
		result, err := a.act(ctx, k, decision, object)
		failures = append(failures, err, a.conclude(ctx, k, result))
	}
	return errors.Join(failures...)
}

// factOf is a fact that was read, or could not be: then the audit has failed, with any decision, and is retried soon.
func factOf[T any](a *auditor, value T, err error) release.Fact[T] {
	if err != nil {
		a.unread = err
	}
	return release.FactOf(value, err)
}

// act does what was decided. A reservation that changed in between is no failure: the next audit looks again.
func (a *auditor) act(ctx context.Context, k *knownFinding, d ipamrepair.Decision, r ipam.Reservation) (outcome, error) {
	switch {
	case d.Action == ipamrepair.Done:
		return k.outcome, nil
	case d.Action == ipamrepair.Hold:
		k.soon = a.clock.Since(k.since) < heldSoon
		return outcome{result: v1alpha1.RepairHeld, reason: v1alpha1.ReasonRepairHeld, message: d.Message}, nil
	case written[d.Action] == "":
		return outcome{result: v1alpha1.RepairReported, reason: k.Kind, message: d.Message}, nil
	case !a.options.Repair:
		return outcome{result: v1alpha1.RepairReported, reason: k.Kind, message: "nothing is written, because audit.mode is Report; in mode Repair: " + d.Message}, nil
	}
	if err := a.writes.Wait(ctx); err != nil {
		return k.outcome, err
	}
	k.soon = true
	err := a.write(ctx, d, r)
	if errors.Is(err, ipam.ErrChanged) {
		log.FromContext(ctx).Info("A reservation changed before its repair; the next audit looks again", "found", err.Error())
		return k.outcome, nil
	}
	if errors.Is(err, shadow.ErrWithheld) {
		k.soon = false
		return outcome{result: v1alpha1.RepairReported, reason: k.Kind, message: "nothing is written, because the mode is Shadow; in mode Guard: " + d.Message}, nil
	}
	if err != nil {
		return outcome{result: v1alpha1.RepairFailed, reason: v1alpha1.ReasonRepairFailed, message: err.Error()},
			fmt.Errorf("repairing %s: %w", k.Kind, err)
	}
	return outcome{result: v1alpha1.RepairRepaired, reason: written[d.Action], message: d.Message}, nil
}

func (a *auditor) write(ctx context.Context, d ipamrepair.Decision, r ipam.Reservation) error {
	switch d.Action {
	case ipamrepair.Create:
		return a.backend.CreateReservation(ctx, ipam.Reservation{Name: d.Name, PodRef: d.PodRef, Interface: d.Interface})
	case ipamrepair.Give, ipamrepair.Restore:
		return a.backend.GiveReservation(ctx, r, d.PodRef, d.Interface)
	case ipamrepair.Mark:
		return a.backend.GiveReservation(ctx, r, ipam.ReservationTombstone(r.PodRef), r.Interface)
	case ipamrepair.Delete:
		return a.backend.DeleteReservation(ctx, r)
	default:
		return fmt.Errorf("no write for action %d", d.Action)
	}
}

// conclude reports the outcome of a finding: event, metric, log, and a line in the records of the address. What was only
// reported has had its event.
func (a *auditor) conclude(ctx context.Context, k *knownFinding, o outcome) error {
	if o == k.outcome {
		return nil
	}
	metrics.Repairs.WithLabelValues(string(k.Kind), string(o.result)).Inc()
	log.FromContext(ctx).Info("A contradiction in the IPAM's records", "backend", a.backend.Name(), "kind", k.Kind, "result", o.result, "message", o.message)
	if o.result != v1alpha1.RepairReported {
		kind := corev1.EventTypeWarning
		if o.result == v1alpha1.RepairRepaired {
			kind = corev1.EventTypeNormal
		}
		a.recorder.Eventf(a.about(k.Finding), nil, kind, string(o.reason), "Repair", "%s", eventlimit.Note(o.message))
	}
	k.outcome = o
	// What was repaired is no finding any more at the next audit: the line is kept, and not the finding.
	a.unreported.add(unreported{finding: k.Finding, line: a.lineOf(k.Finding, o)})
	if len(a.unreported) > 1 {
		return nil // others wait, and may fail again: all are tried once, at the end of the audit
	}
	return a.writeUnreported(ctx)
}
