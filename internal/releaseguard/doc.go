// SPDX-License-Identifier: Apache-2.0

// Package releaseguard judges, purely, whether a client other than Holdfast may take an entry out of a pool. It is called
// by admission, about writes after which an entry is missing or stands under another pod reference.
//
// For each such removal, in this order:
//
//	1  the writer is the manager                                            allow
//	   the entry gets the tombstone of the record that holds it, and its
//	   pod is being deleted or absent: no pod gets the address              allow
//	2  it is CNI DEL: the entry's node is Ready or shuts down, and the writer's
//	   token belongs to that node's pod of a trusted DaemonSet; and no record
//	   has the address for a rival sandbox; with agents, deferred where no
//	   record shows that it has every sandbox that had the address          allow
//	3  the pod is absent or kubelet-finished, and no record holds that pool
//	   and address, for this sandbox or another                             allow
//	4  the offset stands for no address, and the write adds an entry        allow, with a warning: a refused ADD is worse
//	5  anything else: the address is in use; or a fact that 2 or 3 need
//	   could not be read                                                    refuse
//
// An entry with a UID as its ID belongs to a ResourceClaim. Instead of 2 to 5, the driver may remove it on the node that the claim is
// allocated to (the token of row 2, where no reconciler shares it), or once no claim has that UID and no pod of its reference may use the
// address. An entry with an ID that no container runtime makes has an owner that cannot be looked up: row 3 never applies.
//
// The entry's node is that of the record which holds the entry; without one, that of the pod of its reference. Where the
// IPAM's reconciler shares the DaemonSet's pods, 2 is for pods that are being deleted only, or the reconciler could free
// what it takes for orphaned on its own node.
//
// A rival is another sandbox for which a record has the address. whereabouts gives a pod the entry that an earlier pod of
// its name left, and the DEL of one would then free an address that the other may use. Holdfast releases it once both are
// proven gone. An earlier sandbox of the live pod itself is one too: a change of an entry's ID is not judged, because a refused
// ADD is worse, so an entry that its record does not confirm may carry the ID of another pod's sandbox (decision 0110).
//
// Kubelet-finished (internal/release, EndingFinished) is accepted only where the Node is the machine that was recorded for
// the sandbox, and that machine's kubelet wrote the end (release.EndedOn): a replacement kubelet finishes the pods of a machine that it
// never ran, and that machine may be back by now. With agents it is accepted only where admission policies kept other accounts
// from writing it, as in the controllers (release.Evidence.Ending). A pod that Holdfast holds is not finished before the machine is recorded.
//
// A reservation may not be removed while a pool holds its address for its pod, CNI DEL included: whereabouts takes the entry out
// of the pool first, so that its own DEL finds none there. What does find one is the loser of a race for an address that
// deletes the winner's reservation by name, a reconciler that has the name wrong, or a DEL whose write of the pool failed.
//
// Nor may it be removed while its pod shows the address in its network-status and is not kubelet-finished under the Node object on which it
// began, but for the CNI DEL of the pod's own node: whereabouts completes an ADD with the address even if it could not write the entry, and then the
// reservation is all that keeps others from it.
//
// Whereabouts completes a refused ADD with an address that no pool has recorded. Its ADD never takes an entry away, but for
// offsets that it cannot read back. That is row 4.
//
// What row 2 cannot distinguish: whereabouts' pod control loop runs in the DaemonSet's pods too, and removes by podref.
package releaseguard
