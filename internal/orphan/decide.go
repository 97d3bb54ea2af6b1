// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Decide says what to do about the entries of one sandbox without an owner. It is total: all facts have a decision.
func Decide(f Facts, now time.Time) Decision {
	d := decide(&f, now)
	if d.Action != Release {
		return d
	}
	switch {
	case !f.Live:
		return Decision{Row: d.Row, Action: Reread, Reason: d.Reason, Message: d.Message}
	case f.Entries.Get().TakenOver:
		// Nothing is left to release, and the sandbox that has the address by now need not wait for this one.
		return Decision{Row: d.Row, Action: Drop, Reason: d.Reason, Message: d.Message}
	}
	if held, inUse := elsewhere(&f); inUse {
		held.Proven = true
		return held
	}
	return d
}

func decide(f *Facts, now time.Time) Decision {
	if f.Owned {
		return Decision{Row: RowOwnerFound, Action: Drop, Reason: v1alpha1.ReasonOwnerFound, Message: "a pod UID can be shown to own these addresses"}
	}
	if d, unread := unknownFact(f); unread {
		return d
	}
	entries := f.Entries.Get()
	switch {
	case f.Entries.IsAbsent():
		return Decision{Row: RowNoAddresses, Action: Drop, Reason: v1alpha1.ReasonNoIPsHeld, Message: "no pool holds an address of this sandbox"}
	case f.Record.IsAbsent():
		return decideUnrecorded(f, entries, now)
	case entries.Unrecorded:
		return Decision{Row: RowEntryNotRecorded, Action: Adopt, Reason: v1alpha1.ReasonOwnerUnknown, Message: "a pool holds a further address of this sandbox"}
	case f.Addressed != nil:
		return decideAddressed(release.Decide(*f.Addressed, now))
	}
	if d, held := unqueried(f); held {
		return d
	}
	claim, d, held := chooseClaim(f.Record.Get().Claims)
	if held {
		return d
	}
	if d, open := decideQuery(f, now, queryMessage(claim)); open {
		return d
	}
	if claim != nil {
		return decideClaimed(f, claim)
	}
	return Decision{Row: RowAbsentOnAllNodes, Action: Release, Reason: v1alpha1.ReasonNoNodeHasSandbox,
		Message: "every node that was ever seen was queried about the sandbox, and none has or had it"}
}

// unknownFact is row ObservationFailed.
func unknownFact(f *Facts) (Decision, bool) {
	reads := []struct {
		what   string
		unread bool
		why    string
	}{
		{"what the pools hold of it", !f.Entries.IsRead(), f.Entries.Why()},
		{"its record", !f.Record.IsRead(), f.Record.Why()},
	}
	for _, read := range reads {
		if read.unread {
			return wait(RowObservationFailed, v1alpha1.ReasonObservationFailed, 0, "%s could not be read: %s", read.what, read.why), true
		}
	}
	return Decision{}, false
}

// decideUnrecorded is rows AwaitOwner and NotRecorded.
func decideUnrecorded(f *Facts, entries Entries, now time.Time) Decision {
	if left := entries.Since.Add(f.Settings.ReleaseDelay).Sub(now); left > 0 {
		return wait(RowAwaitOwner, v1alpha1.ReasonReleaseDelay, left, "no pod UID can be shown to own these addresses; an owner may still show itself")
	}
	return Decision{Row: RowNotRecorded, Action: Adopt, Reason: v1alpha1.ReasonOwnerUnknown, Message: "no pod UID can be shown to own these addresses"}
}

// unqueried is row NotQueried: no node is queried about the entries.
func unqueried(f *Facts) (Decision, bool) {
	switch {
	case f.Owner != ownership.KindSandbox:
		return decideOtherKind(f.Owner), true
	case f.Evidence != release.EvidenceAgent:
		return wait(RowNotQueried, v1alpha1.ReasonOwnerUnknown, 0,
			"no pod UID can be shown to own these addresses, and without agents no node is queried: they are held. Find out which pod's sandbox it is (kubectl holdfast who ADDRESS); "+
				"once no machine runs it, release it by hand: kubectl holdfast release ADDRESS --as-manager --reason TEXT. With evidence Agent every node would be queried"), true
	}
	return Decision{}, false
}

// decideOtherKind is row NotQueried for entries that no sandbox owns: every node would report their owner as absent.
func decideOtherKind(owner ownership.Kind) Decision {
	if owner == ownership.KindResourceClaim {
		return wait(RowNotQueried, v1alpha1.ReasonOwnedByResourceClaim, 0, "a ResourceClaim owns these addresses, and its driver releases them: they are held. Nothing to do while the claim "+
			"exists (kubectl holdfast who ADDRESS); if the claim is gone and the entry stays, release it by hand: kubectl holdfast release ADDRESS --as-manager --reason TEXT")
	}
	return wait(RowNotQueried, v1alpha1.ReasonOwnerKindUnknown, 0, "no container runtime uses IDs of this form, so Holdfast does not know what owns these addresses: they are "+
		"held, and no node is queried. Find out what wrote the entry (kubectl holdfast who ADDRESS); once its owner is gone, release it by hand: kubectl holdfast release ADDRESS --as-manager --reason TEXT")
}

// decideAddressed is row ClaimedByNode: a claimed sandbox is judged like that of a deleted pod, by the same table.
func decideAddressed(d release.Decision) Decision {
	decided := Decision{Row: RowClaimedByNode, Reason: d.Reason, Message: d.Message, After: d.After, OutOfService: d.OutOfService}
	switch d.Action {
	case release.Release:
		decided.Action = Release
	case release.Confirm:
		decided.Action = Confirm
	case release.Reread:
		decided.Action = Reread
	case release.Unprotect:
		decided.Action = Drop
	case release.Wait, release.Keep:
		decided.Action = Wait
	default:
		return wait(RowClaimedByNode, v1alpha1.ReasonUnclassified, 0, "the decision table of pods gives %s for a sandbox that a node has claimed", d.Action)
	}
	return decided
}

// chooseClaim gives the claim for rows OwnerNamedByNode and QueryOneNode, nil without one; held is row ConflictingClaims.
func chooseClaim(claims []Claim) (chosen *Claim, d Decision, held bool) {
	live := 0
	for i := range claims {
		claim := &claims[i]
		if !claim.Pod.IsRead() {
			return nil, wait(RowObservationFailed, v1alpha1.ReasonObservationFailed, 0, "pod UID %s, with which node %s has seen the sandbox, could not be read: %s",
				claim.PodUID, claim.NodeName, claim.Pod.Why()), true
		}
		if claim.Live {
			live++
		}
		if chosen == nil || claim.rank() > chosen.rank() {
			chosen = claim
		}
	}
	switch {
	case live > 1, live == 0 && len(claims) > 1, live == 1 && !chosen.Live: // a claim of a gone Node does not win against a live one
		return nil, wait(RowConflictingClaims, v1alpha1.ReasonClaimedTwice, 0, "%d nodes report that they have, or had, this sandbox or another one of its pod, and no two can have it: the addresses are held", len(claims)), true
	case chosen != nil && chosen.NodeName == "":
		return nil, wait(RowConflictingClaims, v1alpha1.ReasonClaimantUnknown, 0, "Node UID %s reported that it has, or had, this sandbox, but no object names its machine any more: "+
			"the addresses are held; release them by hand once you know that it is gone: kubectl holdfast release ADDRESS --as-manager --reason TEXT", chosen.NodeUID), true
	}
	return chosen, Decision{}, false
}

// rank orders claims: those that name a live pod first, then those of live Nodes.
func (c *Claim) rank() int {
	switch {
	case c.Pod.IsKnown() && c.NodeName != "":
		return 2
	case c.Live:
		return 1
	}
	return 0
}

// decideClaimed is rows OwnerNamedByNode and QueryOneNode: one node has claimed the sandbox, and no other can have it.
func decideClaimed(f *Facts, claim *Claim) Decision {
	d := Decision{Row: RowQueryOneNode, Action: Address, Reason: v1alpha1.ReasonAwaitingNodeResponse, Claim: *claim,
		Message: "node " + claim.NodeName + " reports that it has, or had, the sandbox or another one of its pod: waiting for its report that it is gone"}
	if claim.Pod.IsKnown() && !f.Entries.Get().Tombstone {
		d.Row, d.Action, d.Reason = RowOwnerNamedByNode, Attribute, v1alpha1.ReasonOwnerFound
		d.Message = "node " + claim.NodeName + " has seen the sandbox with the UID of pod " + claim.Pod.Get()
	}
	if !f.Live {
		d.Action = Reread
	}
	return d
}

func queryMessage(claim *Claim) string {
	if claim != nil {
		return "node " + claim.NodeName + " reported that it has, or had, the sandbox of these addresses or another one of its pod; its report counts once every other node is known not to have it"
	}
	return "no pod UID can be shown to own these addresses: every node is queried whether it has, or had, their sandbox"
}

// decideQuery is the rows QueryAllNodes to AwaitAcknowledgments: true while the query to all nodes is open.
func decideQuery(f *Facts, now time.Time, what string) (Decision, bool) {
	query := f.Query
	switch {
	case query.Epoch == 0 && !f.HasCapacity:
		return wait(RowQueryAllNodes, v1alpha1.ReasonOrphanQueued, 0,
			"no pod UID can be shown to own these addresses; every node will be queried about their sandbox once there are fewer other queries"), true
	case query.Epoch == 0 || query.DisownedBy != f.Record.Get().DisownedBy:
		return Decision{Row: RowQueryAllNodes, Action: QueryAll, Reason: v1alpha1.ReasonAwaitingAllNodes, Message: what}, true
	case !f.Nodes.IsKnown() || len(f.Nodes.Get()) == 0: // a node ran the sandbox, so an empty list is a failed read
		return wait(RowObservationFailed, v1alpha1.ReasonObservationFailed, 0, "which nodes there are, and what their agents acknowledge, could not be read: %s", f.Nodes.Why()), true
	}
	if left := query.Since.Add(max(f.Settings.NodeGoneDelay, f.Settings.ReleaseDelay)).Sub(now); left > 0 {
		return wait(RowAwaitDeletedNodes, v1alpha1.ReasonAwaitingAllNodes, left, "%s", what), true
	}
	if missing, names := missing(f, now); missing > 0 {
		return wait(RowAwaitAcknowledgments, v1alpha1.ReasonAwaitingAllNodes, 0, "%s; a report of each has to count, and %s", what, names), true
	}
	return Decision{}, false
}

// elsewhere holds an address that another pod or record uses by now.
func elsewhere(f *Facts) (Decision, bool) {
	switch {
	case !f.Shown.IsRead():
		return wait(RowObservationFailed, v1alpha1.ReasonObservationFailed, 0, "whether a live pod shows one of these addresses could not be read: %s", f.Shown.Why()), true
	case !f.Rival.IsRead():
		return wait(RowObservationFailed, v1alpha1.ReasonObservationFailed, 0, "whether another record holds one of these addresses could not be read: %s", f.Rival.Why()), true
	case f.Shown.IsKnown():
		return wait(RowAbsentOnAllNodes, v1alpha1.ReasonAddressShown, 0, "the sandbox is gone, but the network-status of pod %s shows one of its addresses: they are held", f.Shown.Get()), true
	case f.Rival.IsKnown():
		return wait(RowAbsentOnAllNodes, v1alpha1.ReasonConflict, 0, "the sandbox is gone, but IPAllocation %s holds one of its addresses for another sandbox: they are held", f.Rival.Get()), true
	}
	return Decision{}, false
}
