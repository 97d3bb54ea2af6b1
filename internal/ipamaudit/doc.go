// SPDX-License-Identifier: Apache-2.0

// Package ipamaudit compares, purely, what an IPAM has recorded with what live pods show, and finds contradictions. An IPAM
// makes them by itself: whereabouts completes an ADD whose entry it could not write, skips reservations, and deletes those of
// others (hack/dev/test/guarded has specs for these). A finding is a candidate: facts are read one after the other
// while addresses are allocated and released, so it is read again, later and live, before it is reported.
//
//	EntryMissing         a live pod shows an address of a managed network, and no pool has it for the pod
//	ReservationMissing   a live pod shows the address of its entry, and nothing reserves it
//	ReservationForeign   so, and the reservation of the address names another pod
//	ReservationOrphaned  a reservation stands for no entry, and its pod does not show the address
//	AddressInTwoPools    two live pods show one address of one network, each from its own pool
//	SliceMoved           an entry stands in the pool of a node whose slice another node has by now, or none
//	PodWithoutSlice      a pod's node has no slice of its network, so neither ADD nor DEL works
//	EntryUnaccounted     nothing leads Holdfast to an entry: no record, no pod, no look that is scheduled
//
// Absence is concluded only from pools that could be read: Facts.Unreadable and Facts.Doubtful hold it back.
package ipamaudit
