// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// guarded: the pod carries our finalizer.
func (v *view) guarded() bool {
	return v.pod != nil && controllerutil.ContainsFinalizer(v.pod, v1alpha1.Finalizer)
}

// goOnUnreleased follows a release that was only reported. The addresses stay in their pool, and the record, which has the proof, stays
// with them: mode Guard gives them back by it. A pod that the guard stamped before goes on as the table says of what is left of it
// without them, and so is let go by the same proofs as ever.
func (r *PodReconciler) goOnUnreleased(ctx context.Context, v *view, d release.Decision) (again bool, result reconcile.Result, err error) {
	if !v.guarded() {
		return false, result, shadow.ErrWithheld
	}
	next := release.Decide(v.without(d.Sandboxes, r.options), r.clock.Now())
	switch {
	case next.Action == release.Unprotect:
		if err := r.takeFinalizerOff(ctx, v, next); err != nil {
			return false, result, err
		}
		r.forget(v.uid)
		v.unlabeled = nil
		return false, result, nil
	case next.Action == release.Confirm:
		if err := r.mayAsk(ctx, v, next); err != nil {
			return false, result, err
		}
		return r.confirm(ctx, v, next)
	case next.Action != release.Wait:
		return false, result, shadow.ErrWithheld
	}
	next.Message = stayTaken + next.Message
	result, err = r.hold(ctx, v, next)
	return false, result, err
}

// stayTaken begins what is said of a pod as if the entries were gone that are only reported.
const stayTaken = "apart from addresses of sandboxes that are proven gone, which stay in their pools while the mode is Shadow: "

// onlyWithheld: the guard holds the pod at its end, and whatever pools still hold for it would be released in mode Guard. For a question
// about any sandbox of the pod that is as good as nothing: an entry of another sandbox, which would make it void, is not among them.
func (c *core) onlyWithheld(v *view) bool {
	if c.options.Shadow == nil || !v.guarded() || v.pod.DeletionTimestamp == nil {
		return false
	}
	d := release.Decide(v.observation(c.options), c.clock.Now())
	if d.Action != release.Release && d.Intended != release.Release {
		return false
	}
	return !slices.ContainsFunc(v.held, func(held heldEntry) bool { return !slices.Contains(d.Sandboxes, held.SandboxID) })
}

// without is the observation as it would be if the entries of these sandboxes were gone.
func (v *view) without(sandboxes []string, o Options) release.Observation {
	observation := v.observation(o)
	observation.Unowned = slices.DeleteFunc(observation.Unowned, func(id string) bool { return slices.Contains(sandboxes, id) })
	if !observation.Sandboxes.IsKnown() {
		return observation
	}
	rest := slices.DeleteFunc(slices.Clone(observation.Sandboxes.Get()), func(s release.Sandbox) bool { return slices.Contains(sandboxes, s.ID) })
	observation.Sandboxes = release.Known(rest)
	if len(rest) == 0 {
		observation.Sandboxes = release.Absent[[]release.Sandbox]()
	}
	return observation
}

// mayAsk stands before a question to a node. A pod that the guard holds is asked about, also in a shadow, because nothing else may end
// its wait; no other is, nor one that lives on.
func (r *PodReconciler) mayAsk(ctx context.Context, v *view, d release.Decision) error {
	if v.guarded() && v.pod.DeletionTimestamp != nil {
		return nil
	}
	return r.options.Shadow.Withhold(ctx, shadow.Ask, "about the sandboxes of "+v.podName(), d.Message)
}
