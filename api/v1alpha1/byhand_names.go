// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The reasons of events about an address that a person releases (kubectl holdfast release).
const (
	// ReasonReleaseByHand: a person is about to release an address, and says why.
	ReasonReleaseByHand Reason = "ReleaseByHand"
	// ReasonReleasedByHand: the address went back to its pool by a person's hand.
	ReasonReleasedByHand Reason = "ReleasedByHand"
)

// ReleasedByHandAnnotation on a record lists, as JSON and oldest first, what persons released of its addresses: the last
// MaxReleasedByHand of them, each with time, user, reason, address, pool and sandbox.
const ReleasedByHandAnnotation = "holdfast.dev/released-by-hand"

// MaxReleasedByHand is how many of them a record remembers: the newest.
const MaxReleasedByHand = 10
