// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The reasons for which admission refuses that another client releases an address, beside those of a wait.
const (
	// ReasonRecordHolds: a record still holds that pool, address and sandbox; Holdfast itself releases it.
	ReasonRecordHolds Reason = "RecordHolds"
	// ReasonPoolHolds: a pool still holds the address of a reservation for the same pod.
	ReasonPoolHolds Reason = "PoolHolds"
)

// The reasons for which admission lets an address go back.
const (
	// ReasonManagerRelease: the manager itself releases it.
	ReasonManagerRelease Reason = "ManagerRelease"
	// ReasonCNIDelete: the CNI DEL of the entry's own node, which is Ready or shuts down.
	ReasonCNIDelete Reason = "CNIDelete"
	// ReasonCNIDeleteDeferred: such a CNI DEL, of a pod of which a sandbox may not be recorded. The manager releases the address itself.
	ReasonCNIDeleteDeferred Reason = "CNIDeleteDeferred"
	// ReasonPodGone: no pod of that name exists, and no record holds the address.
	ReasonPodGone Reason = "PodGone"
	// ReasonNoSuchAddress: the offset stands for no address; the IPAM drops it with its next allocation, and a refused
	// allocation then returns an address that has no entry.
	ReasonNoSuchAddress Reason = "NoSuchAddress"
	// ReasonNotHeld: no pool holds the address of a reservation for its pod.
	ReasonNotHeld Reason = "NotHeld"
)
