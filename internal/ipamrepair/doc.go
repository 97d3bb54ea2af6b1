// SPDX-License-Identifier: Apache-2.0

// Package ipamrepair decides, purely, what is written about a contradiction that internal/ipamaudit found, once it has stood
// for the release delay and was found again by live reads. Only reservations are ever written: an entry without a pod takes the
// way of every release, and an entry that is missing cannot be put back without its sandbox ID.
//
//	EntryMissing         reserve the address for the pod that shows it, where nothing does; the entry itself is only reported
//	ReservationMissing   reserve the address for the pod that shows it
//	ReservationForeign   give it to the pod that shows the address, if the pod that it names is gone
//	ReservationOrphaned  if its pod is gone, or has other addresses, mark it; marked for the delay, and still for nothing: remove it
//	AddressInTwoPools    nothing: both are live
//	SliceMoved           nothing: the entry of a live pod stays, that of a dead one is released as always
//	EntryUnaccounted     nothing: the orphan controller looks at the entry
//	PodWithoutSlice      nothing: only the IPAM's own controller can give a slice
//
// A pod is gone when a live read finds none of its name, or one that its kubelet has finished on the machine that is recorded
// for its sandboxes, or for a pod that Holdfast does not hold, on any (internal/release, internal/releaseguard).
//
// A reservation names no UID, so a live pod of its name may be a successor. That pod is shown to have other addresses once its ADDs are over and its
// own record exists: neither its network-status nor any record has the reservation's address then. Its network-status holds the reservation also where it
// counts as no claim, as after its network was deleted: the reservation has its name.
//
// A reservation is removed only where, by live reads, no pod that may run shows its address, no entry that it could stand for
// has the address, and no record does. What is unknown holds.
//
// The mark is a reference that no pod can have (ipam.ReservationTombstone). whereabouts lets a pod take an address
// that is reserved under its own name without writing the reservation again, so that one of the same name could take it over
// while it is removed, and the reservation's version would not show it. Marked, it keeps the address from every pod; and
// an ADD that had read it before has ended, and left an entry, when the delay is over.
package ipamrepair
