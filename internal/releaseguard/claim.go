// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// judgeClaimed judges the removal of an entry that a ResourceClaim owns. The podref is a consumer's name, or a placeholder: a pod may hold the address by
// it, but neither its absence nor its termination is evidence.
func judgeClaimed(w *Write, c *Case) Judgment {
	rival := rivalHolds(w, c)
	if del := all(driverRelease(w, c), opposite(rival)); del.verdict == yes {
		return Judgment{Outcome: Allow, Reason: v1alpha1.ReasonCNIDelete}
	}
	// Any client may give the entry of a pod that has no record yet the ID of a claim.
	held := some(rival, claimHolds(c), podHolds(w, c))
	if held.verdict == no {
		return Judgment{Outcome: Allow, Reason: v1alpha1.ReasonResourceClaimGone}
	}
	return Judgment{Outcome: Refuse, Reason: held.reason, Message: fmt.Sprintf(
		"%s: %s of pool %s (ID %q, interface %q, podref %q) belongs to a ResourceClaim: %s. Nothing to do: its driver releases it on the claim's node, and any client "+
			"may once the claim is deleted and no pod of that name may use it. Who has it: kubectl holdfast who %s", v1alpha1.ReasonUnsafeReleaseRefused, c.subject(), w.Pool, c.SandboxID, c.Interface, c.PodRef, held.text, c.subject())}
}

// driverRelease reports whether the driver on the claim's node releases the address, with the same kind of token as CNI DEL.
func driverRelease(w *Write, c *Case) check {
	if a := runsCNI(w); a.verdict != yes {
		return a
	}
	switch {
	case !c.Claim.IsRead():
		return unknown("ResourceClaim "+c.SandboxID, c.Claim.Why())
	case w.ReconcilerShared:
		return conclude(no, "", "the IPAM's reconciler shares these pods")
	}
	node := c.Claim.Get().NodeName
	if node == "" {
		return conclude(no, "", "the claim is allocated to no single node")
	}
	return all(writesFrom(w, node), isReady(w, node))
}

func claimHolds(c *Case) check {
	switch {
	case c.Claim.IsAbsent():
		return check{verdict: no}
	case !c.Claim.IsKnown():
		return unknown("ResourceClaim "+c.SandboxID, c.Claim.Why())
	}
	return conclude(yes, v1alpha1.ReasonOwnedByResourceClaim, "ResourceClaim %s has this UID and exists", c.Claim.Get().Name)
}

// ownerUnknown reports whether the entry's ID is one that no container runtime makes: then no pod's end is its owner's.
func ownerUnknown(c *Case) check {
	if ownership.KindOf(c.SandboxID) == ownership.KindUnknown {
		return conclude(yes, v1alpha1.ReasonOwnerKindUnknown, "no container runtime makes the ID %q, so its owner is of a kind that Holdfast does not know", c.SandboxID)
	}
	return check{verdict: no}
}
