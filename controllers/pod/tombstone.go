// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/served"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// keepFromSuccessors adds tombstones to the entries of a deleted pod whose sandbox may be alive: an IPAM gives the entry of a name to the next pod of
// that name. It does the same if the entry of a later sandbox was removed while an earlier one may use the address. It requires a live view: by a
// record that the cache still has after its proven release, it would create an entry again that no object leads to.
func (r *Reconciler) keepFromSuccessors(ctx context.Context, v *view, d release.Decision) (again bool, err error) {
	if v.record == nil {
		return false, nil
	}
	var failures []error
	var kept []string
	for _, backend := range r.options.Backends {
		requests := v.unproven(backend.Name(), d)
		if len(requests) == 0 {
			continue
		}
		if !v.live {
			return true, nil
		}
		results := backend.Tombstone(ctx, requests)
		if taken, err := r.takeBack(ctx, v, backend, results); taken || err != nil {
			failures = append(failures, err)
			continue
		}
		for _, result := range results {
			switch {
			case errors.Is(result.Err, ipam.ErrChanged): // taken over: the next pass reports the conflict
				log.FromContext(ctx).Info("No tombstone for an address whose sandbox may be alive", "entry", result.Request.Key.String(), "found", result.Err.Error())
			case result.Err != nil:
				failures = append(failures, shadow.Ignore(result.Err))
			default:
				kept = append(kept, result.Request.IP.String())
			}
		}
	}
	if len(kept) > 0 {
		r.event(v, d, v1alpha1.ReasonAddressKept, "the pod object or the entry is gone, and the sandbox is not proven gone: "+strings.Join(kept, ", ")+
			" stays out of the pool until it is. Nothing to do. Why: kubectl holdfast explain "+string(v.uid))
	}
	return len(kept) > 0, errors.Join(failures...)
}

// takeBack removes entries that were created for a record that is deleted by now: another leader has released its addresses, and no object would lead
// to the entries.
func (r *Reconciler) takeBack(ctx context.Context, v *view, backend ipam.Backend, results []ipam.Result) (taken bool, err error) {
	var made []ipam.Request
	for _, result := range results {
		wasRemoved := func(held facts.Held) bool { return held.Key == result.Request.Key && held.Removed }
		if result.Err == nil && slices.ContainsFunc(v.held, wasRemoved) {
			made = append(made, result.Request)
		}
	}
	if len(made) == 0 {
		return false, nil
	}
	if err := r.live.Get(ctx, types.NamespacedName{Name: string(v.uid)}, &v1alpha1.IPAllocation{}); !served.IsAbsent(err) {
		return false, err
	}
	for _, result := range backend.Release(ctx, made) {
		err = errors.Join(err, shadow.Ignore(result.Err))
	}
	return true, err
}

// givesUp says whether a decision removes the addresses of a sandbox from the record: then it needs no tombstone. A disowned sandbox keeps that of the
// pod's record until the orphan's record is created.
func givesUp(d release.Decision, sandbox string) bool {
	if d.Withheld != nil {
		d = *d.Withheld
	}
	return (d.Aim() == release.Release || d.Aim() == release.Drop) && slices.Contains(d.Sandboxes, sandbox)
}

// isInherited says whether the next pod of the name would inherit an entry. In a conflict the name has to be the pod's, and no live pod of it shows the
// address.
func (v *view) isInherited(held *facts.Held) bool {
	isOfName := held.Owner != nil && *held.Owner == v.ref() && !facts.ShowsAddress(v.sameName, held.Key)
	return v.podFact.IsAbsent() && !held.Superseded && (!held.Conflict || isOfName) && held.Releasing == ""
}

// isLeftToALater says whether a removed entry is made again for a later sandbox of the UID, with which the earlier one stays followed: the pool has one
// entry for all.
func (v *view) isLeftToALater(held *facts.Held, d release.Decision) bool {
	recorded := facts.RecordedAddress(v.record, held.Key)
	return recorded != nil && slices.ContainsFunc(v.held, func(later facts.Held) bool {
		a := facts.RecordedAddress(v.record, later.Key)
		return facts.Same(later.Key, held.Key) && later.Removed && a != nil && facts.ProvesAbsence(a.PoolResourceVersion, recorded.PoolResourceVersion) &&
			!givesUp(d, later.SandboxID)
	})
}

// unproven are the entries that the next pod of the name would inherit, and the recorded addresses that were removed from the pool, except those that
// the decision gives up.
func (v *view) unproven(backend string, d release.Decision) []ipam.Request {
	var requests []ipam.Request
	for i := range v.held {
		held := &v.held[i]
		if givesUp(d, held.SandboxID) || v.isLeftToALater(held, d) {
			continue
		}
		if held.Backend == backend && (v.isInherited(held) || held.Removed) {
			requests = append(requests, ipam.Request{Key: held.Key, Record: string(v.uid)})
		}
	}
	return slices.Clip(requests)
}
