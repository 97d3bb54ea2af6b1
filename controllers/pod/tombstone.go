// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// keepFromSuccessors puts tombstones on the entries of a pod whose object is gone while its sandbox may live: an IPAM gives the entry of a
// name to the next pod of that name. So it does where the entry of a later sandbox was removed while an earlier one may use the address. Only
// a live view will do: a record that the cache still has, and that went with its proven release, would bring an entry back that nothing leads to.
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
			case errors.Is(result.Err, ipam.ErrChanged): // taken over by now: the next pass sees it, and reports the conflict
				log.FromContext(ctx).Info("No tombstone for an address whose sandbox may live", "entry", result.Request.Key.String(), "found", result.Err.Error())
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

// takeBack removes the entries again that were made for a record which is gone by now: another leader has released its addresses meanwhile, and
// nothing would lead to them.
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
	if err := r.live.Get(ctx, types.NamespacedName{Name: string(v.uid)}, &v1alpha1.IPAllocation{}); !apierrors.IsNotFound(err) {
		return false, err
	}
	for _, result := range backend.Release(ctx, made) {
		err = errors.Join(err, shadow.Ignore(result.Err))
	}
	return true, err
}

// givesUp says whether a decision takes the addresses of a sandbox out of the record: then no tombstone of it is left behind. One that is disowned
// has the tombstone of the pod's record until it gets that of the orphan's, which is created in between.
func givesUp(d release.Decision, sandbox string) bool {
	if d.Withheld != nil {
		d = *d.Withheld
	}
	return (d.Aim() == release.Release || d.Aim() == release.Drop) && slices.Contains(d.Sandboxes, sandbox)
}

// unproven are the entries that the next pod of the name would inherit, and the recorded addresses that were removed from the pool, but for those
// that the decision gives up.
func (v *view) unproven(backend string, d release.Decision) []ipam.Request {
	var requests []ipam.Request
	for i := range v.held {
		held := &v.held[i]
		if givesUp(d, held.SandboxID) {
			continue
		}
		inherited := v.podFact.IsAbsent() && !held.Superseded && !held.Conflict && held.Releasing == ""
		if held.Backend == backend && (inherited || held.Removed) {
			requests = append(requests, ipam.Request{Key: held.Key, Record: string(v.uid)})
		}
	}
	return slices.Clip(requests)
}
