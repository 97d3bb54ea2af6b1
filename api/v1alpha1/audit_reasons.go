// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The reasons of events about IPAM data that contradicts itself or a running pod. They are reported and never repaired.
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
)
