// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Reap reports whether a stale object may be deleted: by live evidence, every reference has the name of the object's node and the UID of a Node that is
// gone, and it has no other owner and no deletion timestamp. The reason is StaleNodeUID or NodeMissing if it may; the message says why it may not.
// For NodeMissing, the caller has to wait until the Node was missing for nodeGoneDelay.
func Reap(p Policy, o Object, e Evidence) (bool, Assessment) {
	a := Assess(p, o, e)
	if a.Reason != v1alpha1.ReasonStaleNodeUID && a.Reason != v1alpha1.ReasonNodeMissing {
		return false, a
	}
	if e.Source != Live {
		return false, unknown(o, "the Node was not read live")
	}
	if o.Deleting {
		a.Reason = v1alpha1.ReasonBeingDeleted
		a.Message = o.describe() + " is being deleted already" + o.heldBy() + "."
		return false, a
	}
	if why := spared(o, a); why != "" {
		a.Message += " It is not deleted: " + why + "."
		return false, a
	}
	return true, a
}

// spared is why a stale object may not be deleted; empty if it may.
func spared(o Object, a Assessment) string {
	switch {
	case len(o.References) == 0:
		return "it carries no UID of a Node, so nothing shows that its Node existed"
	case slices.ContainsFunc(o.References, func(r Reference) bool { return r.UID == "" }):
		return "a reference of it has an empty UID, which no Node ever had"
	case slices.ContainsFunc(o.References, func(r Reference) bool { return r.UID == a.LiveUID }):
		return "it carries the UID of the live Node too"
	case o.OtherOwners != 0:
		return fmt.Sprintf("%d of its owner references name other owners", o.OtherOwners)
	default:
		return ""
	}
}
