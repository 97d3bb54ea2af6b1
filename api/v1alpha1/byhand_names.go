// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The reasons of events about what a person does by hand (kubectl holdfast release and unhold).
const (
	// ReasonReleaseByHand: a person is about to release an address, and gives the reason.
	ReasonReleaseByHand Reason = "ReleaseByHand"
	// ReasonReleasedByHand: the address was released to its pool by a person.
	ReasonReleasedByHand Reason = "ReleasedByHand"
	// ReasonProtectionRemovedByUser: a user takes the finalizer off a pod that is being deleted (kubectl holdfast unhold).
	ReasonProtectionRemovedByUser Reason = "ProtectionRemovedByUser"
)

// UnholdAnnotation on a pod is a statement about its addresses and the reason for which a user takes the finalizer off:
// "Kept: …" or "GivenUp: …". The policy holdfast-finalizer wants it in the same write, from an account that may unhold ipallocations.
const UnholdAnnotation = "holdfast.dev/unhold"

// UnholdStatement is what a user states about the addresses of a pod, of which the sandbox may run on.
type UnholdStatement string

// The statements.
const (
	// UnholdKept: each entry of the pod has the tombstone of its record, so that no pod of the same name gets the address. Only of a pod that
	// is being deleted: no client may write a tombstone before that.
	UnholdKept UnholdStatement = "Kept"
	// UnholdGivenUp: another pod may get the addresses.
	UnholdGivenUp UnholdStatement = "GivenUp"
)

// Because is the value of UnholdAnnotation.
func (s UnholdStatement) Because(reason string) string { return string(s) + ": " + reason }

// UnholdVerb is the verb on ipallocations that breaking the glass needs.
const UnholdVerb = "unhold"

// ReleasedByHandAnnotation on a record lists, as JSON and oldest first, what persons released of its addresses: the last
// MaxReleasedByHand of them, each with time, user, reason, address, pool and sandbox.
const ReleasedByHandAnnotation = "holdfast.dev/released-by-hand"

// MaxReleasedByHand is how many of them a record remembers: the newest.
const MaxReleasedByHand = 10
