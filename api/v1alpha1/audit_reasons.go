// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The kinds of contradictions between what an IPAM has recorded and what pods show, as reasons of events. What becomes of each
// is a RepairResult.
const (
	// ReasonEntryMissing: a live pod uses an address that no pool has recorded for it.
	ReasonEntryMissing Reason = "EntryMissing"
	// ReasonReservationMissing: a live pod's entry has no reservation, so an overlapping range can hand the address out again.
	ReasonReservationMissing Reason = "ReservationMissing"
	// ReasonReservationForeign: the reservation of a live pod's address names another pod.
	ReasonReservationForeign Reason = "ReservationForeign"
	// ReasonReservationOrphaned: a reservation stands for no entry of any pool.
	ReasonReservationOrphaned Reason = "ReservationOrphaned"
	// ReasonAddressInTwoPools: two live pods have one address of one network, each from another pool.
	ReasonAddressInTwoPools Reason = "AddressInTwoPools"
	// ReasonSliceMoved: an entry stands in the pool of a node, but another node, or none, has the pool's slice now.
	ReasonSliceMoved Reason = "SliceMoved"
	// ReasonPodWithoutSlice: a pod's node has no slice of its network, so neither ADD nor DEL works for the pod.
	ReasonPodWithoutSlice Reason = "PodWithoutSlice"
	// ReasonEntryUnaccounted: nothing leads Holdfast to an entry: no record, no pod, and no scheduled look.
	ReasonEntryUnaccounted Reason = "EntryUnaccounted"
)

// The reasons of events about repairs.
const (
	// ReasonReservationCreated: a reservation was made for an address that a live pod uses.
	ReasonReservationCreated Reason = "ReservationCreated"
	// ReasonReservationGiven: a reservation of a deleted pod was given to the live pod that uses the address.
	ReasonReservationGiven Reason = "ReservationGiven"
	// ReasonReservationMarked: a reservation that stands for nothing was marked, so that no pod takes it over before it is removed.
	ReasonReservationMarked Reason = "ReservationMarked"
	// ReasonReservationRestored: a reservation that was marked has an entry again, and was given back to its pod.
	ReasonReservationRestored Reason = "ReservationRestored"
	// ReasonReservationDeleted: a reservation that stood for nothing was removed.
	ReasonReservationDeleted Reason = "ReservationDeleted"
	// ReasonRepairHeld: a repair waits until what it rests on is proven.
	ReasonRepairHeld Reason = "RepairHeld"
	// ReasonRepairFailed: a repair was tried and failed; it is tried again.
	ReasonRepairFailed Reason = "RepairFailed"
)
