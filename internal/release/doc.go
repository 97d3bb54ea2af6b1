// SPDX-License-Identifier: Apache-2.0

// Package release decides, purely, what happens to the addresses of one pod UID. Its table is the core of Holdfast. Decide tries the rows in
// order, and the first that fits decides. "Kubelet" and "agent" are the kinds of evidence.
//
// A pod that is not being deleted:
//
//	PodInUse                  it is not terminated by its kubelet,   Keep: the record is kept up to date
//	                          or has no entries                      agent: of a pod with more than one sandbox, or whose machine has
//	                                                                 booted, Confirm; named a successor: Rewrite; never Release; eight
//	                                                                 followed ones at once, and one batch of orphans (0323)
//
// From here on each fact has to be read:
//
//	ObservationFailed         a fact could not be read               Wait(ObservationFailed); also in later rows
//	Unclassified              no evidence is configured, or an       Wait(Unclassified)
//	                          ending or a list is not as specified
//	PodCompleted              not deleting, terminated by its        kubelet: as TerminatedBeforeDeletion; rejected: Wait
//	                          kubelet, entries remain                agent: after ReleaseDelay, or at once if another pod has the
//	                                                                 address, as AwaitRuntimeReport. The finalizer stays
//
// A pod that is being deleted, or is deleted. With entries, each sandbox is judged by itself from MachineUnknown on; without entries, no row
// about a sandbox fits:
//
//	NeverScheduled            the pod was never bound to a node      Unprotect(NeverScheduled)
//	NoAddresses               no entries; terminated by the kubelet  Unprotect; cached facts will do. Not while the agent reports a
//	                          (rejected too), or the object is gone  sandbox of the pod. A recorded address whose entry was removed
//	                                                                 or taken over counts as an entry
//	MachineUnknown            no machine is recorded for the sandbox Wait(MachineUnknown) where the record has no room for it;
//	                                                                 agent: Disown once the grace period is over
//	                                                                 kubelet, and the Node is there: Wait(MachineUnknown)
//	AddressConflict           an address stands under two pod UIDs,  Wait(Conflict); it holds only itself back
//	                          or the agent saw another pod's sandbox agent: Disown the sandbox of another pod
//	PossibleClone             same machine IDs, another boot and     Wait(NodeReplaced) until that Node is NodeGoneDelay old, and on Hold;
//	                          Node UID: a clone, or a reboot         Wait(MachineUnknown) while another Node has the machine's IDs
//	SandboxReplaced           kubelet: the same machine made a later Drop
//	                          sandbox of the pod, which follows it
//	NodeDeleted               the Node object is gone                Release after NodeGoneDelay without a sign that its machine is alive (no entries:
//	                                                                 Unprotect); before it, on Hold, or where no machine is recorded:
//	                                                                 Wait(NodeGone); where the last report of its agent was
//	                                                                 DoNotRelease: Wait(SandboxRunning)
//	NodeReplaced              another machine has the node's name    as NodeDeleted, with Wait(NodeReplaced)
//	NodeOutOfService          the node is tainted out-of-service     kubelet: Release(NodeOutOfService); no entries: Unprotect
//	                          and not Ready                          agent: Confirm with OutOfService; no response for ReleaseDelay since
//	                                                                 ReachedSince, or ReadyForRelease: Release; DoNotRelease:
//	                                                                 Wait(SandboxRunning)
//	TerminatedAfterDeletion   its own kubelet reported termination   agent: as AwaitRuntimeReport, without GracePeriod
//	                          after the deletion, entries remain     kubelet: Release once its entries are unchanged for
//	                                                                 SandboxCreationMax
//	GracePeriod               grace period and slack not over        Wait(GracePeriod)
//	AwaitRuntimeReport        agent; the Node is the recorded        Confirm; ReadyForRelease: Release; DoNotRelease: Wait(SandboxRunning);
//	                          machine, Ready or not                  nothing: Wait(NodeUnreachable), or Wait(AgentNotResponding) if Ready
//	TerminatedBeforeDeletion  kubelet; its own kubelet reported      Node Ready and ReleaseDelay over: Release, by the rule of
//	                          termination before the deletion        TerminatedAfterDeletion for each sandbox
//	                          rejected, or terminated by another     the same, once the kubelet, since its node registered again,
//	                          client (PodGC, another machine)        reports that there is no sandbox
//	NodeNotReady              kubelet; the Node is not Ready         Wait(NodeUnreachable)
//	AwaitKubeletReport        kubelet; entries remain                Wait(KubeletNotFinished)
//	MayBeStarting             no entries, but the pod may be         agent: Confirm AnySandbox; ReadyForRelease: Unprotect; else Wait
//	                          starting or running                    kubelet: the Node registered after the deletion, and
//	                                                                 SandboxCreationMax ago: Unprotect; else Wait
//
// A machine that registered again in the same boot under a new Node UID is the same machine: the rows of a live Node apply, and the record gets
// the new UID. The same applies to a new boot under the same Node UID: its kubelet terminates the pods of the old boot. A boot ID alone is no
// evidence, because it may have been read before the kubelet reported the new one.
//
// Its own kubelet is that of the machine that is recorded for the sandbox (EndedOn). A kubelet terminates all pods of its node's name that are
// being deleted, also those of a machine that it replaced, and that machine may be back by the time of the decision. The record has the Node
// that existed from before the termination until that was first seen (EndedUnder), and it never changes. A termination that cannot be
// attributed to the sandbox's machine is ignored in PodCompleted, NodeOutOfService,
// TerminatedAfterDeletion and TerminatedBeforeDeletion; agents are queried then. In NoAddresses it makes no difference: nothing is released.
//
// With agents, a termination that another account may have written counts as one by another client (ProvenEnding), and another machine under the
// same Node UID that another account may have written is ignored in NodeReplaced (docs/decisions/0120).
//
// Where kubelet and controller manager are one process (k3s, MicroK8s), PodGC writes under the kubelet's field manager too. A termination there is
// EndingShared: with agents it counts as the kubelet's in NoAddresses only; without agents it never counts (docs/decisions/0283).
//
// With agents, a report counts only if it is the response to the standing query (Counts): it has the sandbox, epoch, Node UID and boot of the
// query, and the Node, read after the report, is still that Node in that boot. A query is made on live reads only, and again after a change of
// Node, boot or taint. After a graceful termination without entries (NoAddresses) no agent is queried.
//
// A DoNotRelease that counts wins over all other evidence in every row: over the kubelet's report of termination, and over the out-of-service
// taint or the deletion of the Node object if it was given under the same taint, or was the last report before the deletion
// (docs/decisions/0117). In NoAddresses and MayBeStarting the same applies to a report that names a sandbox of the pod.
//
// A sandbox that no agent saw on the pod's node, and that only the time of its ADD ties to the pod, may run on another node. With agents,
// evidence about the pod's node alone leads to Disown, in every row (docs/decisions/0132, 0148).
//
// Entries under the name of a pod that no pod UID can be shown to own are disowned before its Unprotect, and in every row once its object is
// deleted: the next pod with the name would inherit them (docs/decisions/0147, 0277).
//
// If a later sandbox of the pod has the address of an earlier one, or has another in its place (docs/decisions/0317), the earlier one is judged by
// the same rows, and dropped from the record once it is proven gone. Until then no later one with the same address is released
// (docs/decisions/0135).
//
// A Release requires live reads: otherwise Decide gives Reread. An Unprotect may rest on caches if the record has every address that the pod can
// be seen to have had, or if the pod was deleted unbound, because a pod that is being deleted cannot be bound. That a UID is being deleted, and
// that the kubelet terminated it, are monotone facts: any cache is good enough for them. An agent's report about any sandbox of the pod is not: once
// it is queried about that, reads have to be live.
package release
