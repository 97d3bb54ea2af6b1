// SPDX-License-Identifier: Apache-2.0

package ipamaudit

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Kinds are all kinds of findings.
var Kinds = []v1alpha1.Reason{
	v1alpha1.ReasonEntryMissing, v1alpha1.ReasonReservationMissing, v1alpha1.ReasonReservationForeign,
	v1alpha1.ReasonReservationOrphaned, v1alpha1.ReasonAddressInTwoPools, v1alpha1.ReasonSliceMoved, v1alpha1.ReasonPodWithoutSlice,
	v1alpha1.ReasonEntryUnaccounted,
}

// Finding is one contradiction.
type Finding struct {
	Kind v1alpha1.Reason
	// PodRef is the pod's, or the one in an orphaned reservation, or in an entry of a slice that moved; UID is empty in the
	// first, and in the second where no live pod shows the address.
	PodRef string
	UID    types.UID
	// IP is invalid for an orphaned reservation, whose name has it, and for a pod without a slice.
	IP        netip.Addr
	Interface string
	// Pool is the pool with the address's entry; empty where there is none.
	Pool string
	// SandboxID is that of an entry to which nothing leads.
	SandboxID string
	// Other is who else is named, and OtherPool where, for an address in two pools.
	Other, OtherPool string
	// Reservation is "namespace/name"; empty where none was found.
	Reservation string
	// Network is that of the address as network-status names it; empty where the finding is not about such an address.
	Network string
	// Slice is the divided range's object, Node the node for which the pool was made or on which the pod is, and Owner the node
	// that has the slice now.
	Slice, Node, Owner string
	// Bare: only the pod's annotation has the address, no record (Result.Bounded).
	Bare bool
}

// Identity is the finding without what may change, as it does when further pods come into the same contradiction.
func (f Finding) Identity() Finding {
	id := Finding{Kind: f.Kind, PodRef: f.PodRef, UID: f.UID, IP: f.IP, Interface: f.Interface, SandboxID: f.SandboxID}
	if f.Kind == v1alpha1.ReasonReservationOrphaned {
		id.Reservation = f.Reservation
	}
	if f.Slice != "" {
		id.Slice, id.Pool = f.Slice, f.Pool
	}
	return id
}

// IsSame reports whether both findings are about one contradiction.
func (f Finding) IsSame(other Finding) bool { return f.Identity() == other.Identity() }

// Message describes what was found, what was expected, and what to do.
func (f Finding) Message() string {
	switch f.Kind {
	case v1alpha1.ReasonSliceMoved, v1alpha1.ReasonPodWithoutSlice:
		return f.sliceMessage()
	case v1alpha1.ReasonEntryUnaccounted:
		if record, isTombstone := strings.CutPrefix(f.PodRef, v1alpha1.TombstonePrefix+"/"); isTombstone {
			return fmt.Sprintf("pool %s has %s with the tombstone of record %s, which does not exist any more: Holdfast neither releases it nor queries about it. "+
				"Once no machine runs sandbox %s, delete the entry from the pool", f.Pool, f.IP, record, f.SandboxID)
		}
		return fmt.Sprintf("pool %s has %s for pod %s and sandbox %s, and Holdfast has no record of it, no pod that leads to it, and no look at it ahead: expected one of these. "+
			"Holdfast looks at it now; if this comes back, report it as a bug. Who has it: kubectl holdfast who %s", f.Pool, f.IP, f.PodRef, f.SandboxID, f.IP)
	default:
		return f.addressMessage()
	}
}

func (f Finding) sliceMessage() string {
	if f.Kind == v1alpha1.ReasonPodWithoutSlice {
		return fmt.Sprintf("pod %s (UID %s) is on node %s, which has no slice in NodeSlicePool %s; expected one, without which the IPAM can neither give "+
			"the pod an address nor take one back. See the IPAM's node-slice controller, and whether the range has a slice for every node.",
			f.PodRef, f.UID, f.Node, f.Slice)
	}
	owner := "node " + f.Owner + " has"
	if f.Owner == "" {
		owner = "no node has"
	}
	user := "of " + f.PodRef
	if f.UID != "" {
		user = fmt.Sprintf("that pod %s (UID %s) uses", f.PodRef, f.UID)
	}
	return fmt.Sprintf("pool %s of node %s has an entry of %s %s, but %s the slice %s now; expected the slice to stay while entries of it "+
		"remain, since its new node hands the same addresses out again. Replace the pod if it lives; the entry of a deleted pod is released as always.",
		f.Pool, f.Node, f.IP, user, owner, f.Slice)
}

func (f Finding) addressMessage() string {
	subject := fmt.Sprintf("pod %s (UID %s) uses %s on %s", f.PodRef, f.UID, f.IP, f.Interface)
	switch f.Kind {
	case v1alpha1.ReasonEntryMissing:
		found := "no pool has recorded it"
		if f.Other != "" {
			found = fmt.Sprintf("pool %s has it for %s", f.Pool, f.Other)
		}
		return fmt.Sprintf("%s, but %s; expected an entry for the pod, without which the address can be handed out again. "+
			"Replace the pod, and see the IPAM's log on its node.", subject, found)
	case v1alpha1.ReasonReservationMissing:
		return fmt.Sprintf("%s from pool %s, and no reservation stands for it; expected one, without which an overlapping range can hand the "+
			"address out again. Replace the pod, or create the reservation.", subject, f.Pool)
	case v1alpha1.ReasonReservationForeign:
		return fmt.Sprintf("%s from pool %s, but reservation %s names %s; expected it to name this pod. One of both uses an address that is the "+
			"other's, or soon will: replace the one whose entry is the younger.", subject, f.Pool, f.Reservation, f.Other)
	case v1alpha1.ReasonAddressInTwoPools:
		return fmt.Sprintf("%s from pool %s, and %s has the same address from pool %s; expected one user. Replace one of both pods.",
			subject, f.Pool, f.Other, f.OtherPool)
	default:
		return fmt.Sprintf("reservation %s of pod %s stands for no entry of any pool; expected it to be removed with its entry. It takes an address from "+
			"every overlapping range: delete it once the pod does not run.", f.Reservation, f.PodRef)
	}
}
