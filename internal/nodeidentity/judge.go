// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// statusSubresource is the one subresource that is judged, like the object itself: such a write has the owner references of the stored object.
const statusSubresource = "status"

// Judge decides on a write; of DELETE it needs the operation only. The assessment of ReadLive rests on the cache and must not be reported.
func Judge(w Write, e Evidence) Judgment {
	if a, passes := unconditional(w); passes {
		return Judgment{Outcome: Allow, Assessment: a}
	}
	if !judged(w) {
		return Judgment{Outcome: CouldNotTell, Assessment: unknown(w.New,
			fmt.Sprintf("operation %q on subresource %q is not one that is judged", w.Operation, w.Subresource))}
	}
	o, dropped := judgedObject(w)
	a := assess(w.Policy, o, e, dropped)
	if w.New.Deleting && w.Gains != "" {
		a.Message += fmt.Sprintf(" The object is being deleted, and this write adds %s. A write that adds no address is allowed.", w.Gains)
	}
	return Judgment{Outcome: outcome(w, e.Source, a.Reason), Assessment: a}
}

// judgedObject is the object after the write. Under presence IfPresent, an update that drops every UID is judged as if the object had kept them:
// otherwise it would allow every later write of a stale object.
func judgedObject(w Write) (_ Object, dropped bool) {
	o := w.New
	if w.Operation != admissionv1.Update || w.Policy.Presence != v1alpha1.UIDIfPresent ||
		len(o.References) > 0 || w.Old == nil || len(w.Old.References) == 0 {
		return o, false
	}
	o.References = slices.Clone(w.Old.References)
	if w.Policy.Annotation != "" {
		for i := range o.References {
			o.References[i].Name = o.NodeName
		}
	}
	return o, true
}

// unconditional reports whether the write passes for any Node. deletionTimestamp counts on UPDATE only, because no client can set it. An object that
// loses its last finalizer is deleted with the write.
func unconditional(w Write) (Assessment, bool) {
	switch {
	case w.Operation == admissionv1.Delete:
		return Assessment{Reason: v1alpha1.ReasonBeingDeleted, Message: w.New.describe() + " is deleted by this write."}, true
	case w.Operation != admissionv1.Update:
		return Assessment{}, false
	case w.New.Deleting && (w.Gains == "" || len(w.New.Finalizers) == 0):
		return Assessment{Reason: v1alpha1.ReasonBeingDeleted, Message: w.New.describe() + " is being deleted" + w.New.heldBy() + "."}, true
	case w.Removes:
		return Assessment{
			Reason:  v1alpha1.ReasonOnlyRemovals,
			Message: "The write only drops owner references or finalizers of " + w.New.describe() + ", or unblocks their deletion.",
		}, true
	default:
		return Assessment{}, false
	}
}

func judged(w Write) bool {
	return (w.Operation == admissionv1.Create || w.Operation == admissionv1.Update) &&
		(w.Subresource == "" || w.Subresource == statusSubresource)
}

func outcome(w Write, source Source, reason v1alpha1.Reason) Outcome {
	if reason == v1alpha1.ReasonNamesNoNode {
		return Allow
	}
	if source == Cached {
		if reason == v1alpha1.ReasonNodeUIDMatches && keepsIdentity(w) {
			return Allow
		}
		return ReadLive
	}
	switch reason {
	case v1alpha1.ReasonNodeUIDMatches:
		return Allow
	case v1alpha1.ReasonNodeMissing:
		if w.Policy.MissingNode == v1alpha1.MissingNodeAllow {
			return Allow
		}
		return Refuse
	case v1alpha1.ReasonNodeNameMismatch, v1alpha1.ReasonNodeUIDMissing, v1alpha1.ReasonStaleNodeUID:
		return Refuse
	default:
		return CouldNotTell
	}
}

// keepsIdentity reports whether the write is an update that leaves the node's name and the set of references as they were.
func keepsIdentity(w Write) bool {
	return w.Operation == admissionv1.Update && w.Old != nil && w.Old.NodeName == w.New.NodeName &&
		sets.New(w.New.References...).Equal(sets.New(w.Old.References...))
}
