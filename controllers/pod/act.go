// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/served"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// release removes the entries of the decided sandboxes from their pools. The view is live, and the backend compares every field of an entry again.
// The caller then observes again, unless only taken-over addresses were left: those need no release, and the pod is unprotected at once.
func (r *Reconciler) release(ctx context.Context, v *view, d release.Decision) (done bool, err error) {
	metrics.Decisions.WithLabelValues(string(d.Action), string(d.Reason)).Inc()
	sandboxes := sets.New(d.Sandboxes...)
	var failures []error
	var released []string
	var gone []ipam.Key
	for _, backend := range r.options.Backends {
		requests := v.requests(backend.Name(), sandboxes)
		if len(requests) == 0 {
			continue
		}
		for _, result := range backend.Release(ctx, requests) {
			switch err := r.account(ctx, d, result); {
			case err != nil:
				failures = append(failures, err)
			case result.Err == nil:
				released = append(released, result.Request.IP.String())
				gone = append(gone, result.Request.Key)
			}
		}
	}
	if len(released) > 0 {
		// One event for all: events with one reason about one pod are a series, which keeps the first note.
		r.event(v, d, d.Reason, "released "+strings.Join(released, ", ")+": "+d.Message)
	}
	if err := r.explainFailure(ctx, v, d, errors.Join(failures...)); err != nil {
		return false, err
	}
	rest := func(held facts.Held) bool { return !held.Superseded || !sandboxes.Has(held.SandboxID) }
	if v.hasEnded() && len(v.unowned) == 0 && !slices.ContainsFunc(v.held, rest) {
		return true, r.unprotect(ctx, v, d)
	}
	return false, r.explainRefused(ctx, v, d, r.dropProven(ctx, v, sandboxes, gone))
}

// disown moves the entries of the decided sandboxes to an orphan. The orphan's record is written first, since it keeps the podref by which the
// reservation is found. Then a tombstone keeps the entries from the next pod with the same name, and the pod's record loses them last: after a
// failed write the sandbox is still in the record of the pod, or its entries have the name of the pod.
func (r *Reconciler) disown(ctx context.Context, v *view, d release.Decision) error {
	metrics.Decisions.WithLabelValues(string(d.Action), string(d.Reason)).Inc()
	for _, orphan := range v.orphansOf(d, metav1.NewTime(r.clock.Now())) {
		if err := r.recordOrphan(ctx, orphan); err != nil {
			return err
		}
	}
	for _, backend := range r.options.Backends {
		for _, result := range backend.Tombstone(ctx, v.disowned(backend.Name(), d)) {
			if result.Err != nil && !errors.Is(result.Err, ipam.ErrChanged) {
				return result.Err
			}
		}
	}
	disowned := func(a v1alpha1.AddressRecord) bool { return slices.Contains(d.Sandboxes, a.SandboxID) }
	if v.record != nil && slices.ContainsFunc(v.record.Spec.Addresses, disowned) {
		record := v.record.DeepCopy()
		record.Spec.Addresses = slices.DeleteFunc(record.Spec.Addresses, disowned)
		record.Spec.Sandboxes = slices.DeleteFunc(record.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return slices.Contains(d.Sandboxes, s.ID) })
		if err := r.writeRecord(ctx, v, record); err != nil {
			return err
		}
	}
	r.event(v, d, d.Reason, d.Message)
	return nil
}

// orphansOf are the orphans' records of the decided sandboxes, with the former podref.
func (v *view) orphansOf(d release.Decision, now metav1.Time) []*v1alpha1.IPAllocation {
	var orphans []*v1alpha1.IPAllocation
	for _, id := range d.Sandboxes {
		orphan := records.OfOrphan(id, now)
		orphan.Spec.PodNamespace, orphan.Spec.PodName, orphan.Spec.DisownedBy = v.ref().Namespace, v.ref().Name, v.uid
		if v.record != nil {
			for _, a := range v.record.Spec.Addresses {
				if a.SandboxID == id {
					orphan.Spec.Addresses = append(orphan.Spec.Addresses, a)
				}
			}
		}
		for i := range v.unowned {
			if v.unowned[i].SandboxID == id {
				orphan.Spec.Addresses = append(orphan.Spec.Addresses, records.AddressOf(&v.unowned[i].Entry, now))
			}
		}
		orphans = append(orphans, orphan)
	}
	return orphans
}

// recordOrphan writes the record of a disowned sandbox. An existing one is kept and written too, so that a concurrent decision to delete it, because
// the pod's record has the sandbox, fails with a conflict.
func (r *Reconciler) recordOrphan(ctx context.Context, orphan *v1alpha1.IPAllocation) error {
	var exists v1alpha1.IPAllocation
	switch err := r.live.Get(ctx, client.ObjectKeyFromObject(orphan), &exists); {
	case served.IsAbsent(err):
		return records.Put(ctx, r.client, orphan)
	case err != nil:
		return fmt.Errorf("reading the record %s of a disowned sandbox: %w", orphan.Name, err)
	}
	before := exists.DeepCopy()
	exists.Spec.DisownedBy = orphan.Spec.DisownedBy
	for _, a := range orphan.Spec.Addresses {
		if key, err := ipam.KeyOf(&a); err == nil && facts.RecordedAddress(&exists, key) == nil {
			exists.Spec.Addresses = append(exists.Spec.Addresses, a)
		}
	}
	if equality.Semantic.DeepEqual(before.Spec, exists.Spec) {
		return nil
	}
	return records.Put(ctx, r.client, &exists)
}

// explainFailure explains a failed release, or that an address could not be kept from the next pod of the name, and returns the error. A release that
// is withheld is no failure, and neither is a late cache.
func (r *Reconciler) explainFailure(ctx context.Context, v *view, d release.Decision, err error) error {
	if shadow.Ignore(err) == nil || errors.Is(err, records.ErrStale) {
		return err
	}
	return r.explainWrite(ctx, v, d, v1alpha1.ReasonReleaseFailed, err)
}

// explainWrite explains a failed write, and returns the error.
func (r *Reconciler) explainWrite(ctx context.Context, v *view, d release.Decision, reason v1alpha1.Reason, err error) error {
	d.Reason, d.Message = reason, err.Error()
	if r.held.set(v.uid, d.Reason) {
		r.event(v, d, d.Reason, d.Message)
	}
	return errors.Join(err, r.explainOnPod(ctx, v, d), r.explainOnRecord(ctx, v, d))
}

// explainRefused explains a write of a record that is refused, and returns the error. Other errors are expected to pass.
func (r *Reconciler) explainRefused(ctx context.Context, v *view, d release.Decision, err error) error {
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		return err
	}
	return r.explainFailure(ctx, v, d, err)
}

// explainRefusal is explainRefused for the record of a pod that is being deleted, if nothing about the pod is decided.
func (r *Reconciler) explainRefusal(ctx context.Context, v *view, err error) error {
	if !v.podFact.IsKnown() || !v.podFact.Get().Deleting || errors.Is(err, records.ErrStale) {
		return err
	}
	d := release.Decision{Row: release.RowObservationFailed, Action: release.Wait, Reason: v1alpha1.ReasonObservationFailed, Message: err.Error()}
	if errors.Is(err, records.ErrRefused) {
		return r.explainFailure(ctx, v, d, err)
	}
	_, explained := r.explain(ctx, v, d)
	return errors.Join(err, explained)
}

// hasEnded says whether no sandbox of the pod can start any more, so that a proof about its last sandbox is one about the pod.
func (v *view) hasEnded() bool {
	return v.podFact.IsAbsent() || (v.podFact.Get().Deleting && facts.Ending(v.podFact, v.record) == release.EndingFinished)
}

func (v *view) requests(backend string, sandboxes sets.Set[string]) []ipam.Request {
	var requests []ipam.Request
	for i := range v.held {
		held := &v.held[i]
		if held.Backend == backend && !held.Superseded && sandboxes.Has(held.SandboxID) {
			requests = append(requests, ipam.Request{Key: held.Key, Record: string(v.uid)})
		}
	}
	return requests
}

// disowned are the entries of the decided sandboxes that get the tombstone of the orphan's record. A tombstone of the pod's record is replaced, and a
// removed entry is created again, unless another sandbox has the address.
func (v *view) disowned(backend string, d release.Decision) []ipam.Request {
	var requests []ipam.Request
	for _, held := range slices.Concat(v.held, v.unowned) {
		if held.Backend != backend || (held.Superseded && !held.Removed) || !slices.Contains(d.Sandboxes, held.SandboxID) {
			continue
		}
		request := ipam.Request{Key: held.Key, Record: v1alpha1.OrphanPrefix + held.SandboxID}
		if held.Releasing != "" {
			request.PodRef = v1alpha1.TombstonePrefix + "/" + held.Releasing
		}
		requests = append(requests, request)
	}
	return requests
}

// account counts one release. An entry that changed since it was read is no failure: the next pass sees it.
func (r *Reconciler) account(ctx context.Context, d release.Decision, result ipam.Result) error {
	switch {
	case errors.Is(result.Err, ipam.ErrChanged):
		log.FromContext(ctx).Info("An entry changed before its release; observing again", "entry", result.Request.Key.String(), "found", result.Err.Error())
		return nil
	case errors.Is(result.Err, shadow.ErrWithheld):
		return result.Err
	case result.Err != nil:
		metrics.ReleaseFailures.WithLabelValues(result.Request.Backend, string(d.Reason)).Inc()
		return result.Err
	}
	metrics.Releases.WithLabelValues(result.Request.Backend, string(d.Reason)).Inc()
	log.FromContext(ctx).Info("Released", "entry", result.Request.Key.String(), "reason", d.Reason)
	return nil
}

// dropProven removes addresses from the record whose sandbox is proven gone: those that another UID took over, which ends the conflict, and those of
// a deleted pod that were released, so that no pass adds a tombstone again.
func (r *Reconciler) dropProven(ctx context.Context, v *view, sandboxes sets.Set[string], released []ipam.Key) error {
	if v.record == nil {
		return nil
	}
	proven := func(a v1alpha1.AddressRecord) bool {
		key, err := ipam.KeyOf(&a)
		if err != nil || !sandboxes.Has(a.SandboxID) {
			return false
		}
		taken := slices.ContainsFunc(v.held, func(held facts.Held) bool { return held.Superseded && held.Key == key })
		return taken || (v.podFact.IsAbsent() && slices.Contains(released, key))
	}
	record := v.record.DeepCopy()
	record.Spec.Addresses = slices.DeleteFunc(record.Spec.Addresses, proven)
	if len(record.Spec.Addresses) == len(v.record.Spec.Addresses) {
		return nil
	}
	return r.writeRecord(ctx, v, record)
}
