// SPDX-License-Identifier: Apache-2.0

// Package release decides, purely, what happens to the addresses of one pod UID. It is the heart of Holdfast: read this
// table first. Decide tries the rows in order, and the first that fits decides. "Kubelet" and "agent" are the kinds of evidence.
//
// A pod that is not being deleted:
//
//	PodInUse                  it is not terminated by its kubelet,   Keep: the record is kept true
//	                          or has no entries                      agent: of a pod with more than one sandbox, or whose machine has
//	                                                                 booted, Confirm; named a successor: Rewrite; never Release
//
// From here on each fact has to be read:
//
//	ObservationFailed         a fact could not be read               Wait(ObservationFailed); also in later rows
//	Unclassified              no evidence is configured, or an       Wait(Unclassified)
//	                          ending or a list is not as specified
//	PodCompleted              not deleting, terminated by its        kubelet: as TerminatedBeforeDeletion; rejected: Wait
//	                          kubelet, entries remain                agent: after ReleaseDelay as AwaitRuntimeReport. The finalizer stays
//
// A pod that is being deleted, or is gone. With entries, each sandbox is judged by itself from MachineUnknown on; without, no row fits that is
// about a sandbox:
//
//	NeverScheduled            the pod was never bound to a node      Unprotect(NeverScheduled)
//	NoAddresses               no entries; terminated by the kubelet  Unprotect; cached facts will do. Not while the agent reports a
//	                          (rejected too), or the object is gone  sandbox of the pod. A recorded address whose entry was removed
//	                                                                 or taken over counts as an entry
//	MachineUnknown            no machine is recorded for the sandbox agent: Disown once the grace period is over
//	                                                                 kubelet, and the Node is there: Wait(MachineUnknown)
//	AddressConflict           an address stands under two pod UIDs,  Wait(Conflict); it holds only itself back
//	                          or the agent saw another pod's sandbox agent: Disown the sandbox of another pod
//	PossibleClone             same machine IDs, another boot and     Wait(NodeReplaced) until that Node is NodeGoneDelay old, and on Hold;
//	                          Node UID: a clone, or a reboot         Wait(MachineUnknown) while another Node has the machine's IDs
//	SandboxReplaced           kubelet: the same machine made a later Drop
//	                          sandbox of the pod with its addresses
//	NodeDeleted               the Node object is gone                Release after NodeGoneDelay without a sign that its machine is alive (no entries:
//	                                                                 Unprotect); before it, on Hold, or where no machine is recorded:
//	                                                                 Wait(NodeGone); where the last report of its agent was
//	                                                                 DoNotRelease: Wait(SandboxRunning)
//	NodeReplaced              another machine has the node's name    as NodeDeleted, with Wait(NodeReplaced)
//	NodeOutOfService          the node is tainted out-of-service     kubelet: Release(NodeOutOfService); no entries: Unprotect
//	                          and not Ready                          agent: Confirm with OutOfService; no response for ReleaseDelay, or
//	                                                                 ReadyForRelease: Release; DoNotRelease: Wait(SandboxRunning)
//	TerminatedAfterDeletion   its own kubelet reported termination   agent: as AwaitRuntimeReport, without GracePeriod
//	                          after the deletion, entries remain     kubelet: Release: sandboxes that network-status shows; others once
//	                                                                 unchanged for SandboxCreationMax
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
// A machine that is back in the same boot under a new Node UID is the same machine: its rows are those of a live Node, and the record takes the
// new UID. So is one with a new boot under the same Node UID: its kubelet terminates what the old boot left. A boot ID alone releases nothing,
// because it may have been read before the kubelet reported the new one.
//
// Its own kubelet is that of the machine which is recorded for the sandbox (EndedOn). A kubelet terminates all pods of its node's name that
// are being deleted, also those of a machine that it replaced and knows nothing about, and that machine may be back by the time of the
// decision. What the record has is the Node that stood from before the termination until it was first seen (EndedUnder); it is never
// re-addressed. A termination that cannot be attributed to the sandbox's machine is ignored in PodCompleted, NodeOutOfService,
// TerminatedAfterDeletion and TerminatedBeforeDeletion; agents are queried then. In NoAddresses it makes no difference: nothing is released.
//
// A termination that another account can have written as the kubelet's is, with agents, one by another client (ProvenEnding), and a
// machine under the same Node UID that another account can have written is ignored in NodeReplaced (docs/decisions/0120).
//
// Where kubelet and controller manager are one process (k3s, MicroK8s), PodGC writes under the kubelet's field manager too. A termination there is
// EndingShared: with agents it is the kubelet's in NoAddresses, and in no other row; without agents it counts nowhere (docs/decisions/0283).
//
// With agents, a report counts only if it responds to the query that stands (Counts): sandbox, epoch, Node UID and boot are those of the
// query, and a Node that was read after the report still is that Node in that boot. A query is made on live reads only, and again
// when Node, boot or taint changed. A graceful termination that leaves no entries (NoAddresses) queries no agent.
//
// A report that counts and says that the sandbox is not gone wins over all other evidence in every row: over the kubelet's report of
// termination, and over the declaration that a node is dead if it was given under the same taint, or last before the Node object was deleted
// (docs/decisions/0117). In NoAddresses and MayBeStarting the same holds for a report on any sandbox of the pod that names one.
//
// A sandbox that no agent saw on the pod's node, and that only the time of its ADD ties to the pod, may run on another node. With agents,
// evidence about the pod's node alone leads to Disown, in every row (docs/decisions/0132, 0148).
//
// Entries under the name of a pod that no pod UID can be shown to own are disowned before its Unprotect, and in every row once its object is gone:
// the next pod with the name would inherit them (docs/decisions/0147, 0277).
//
// A sandbox whose address a later one of the pod has is judged by the same rows, and dropped from the record once it is proven gone. Until then
// the later one is not released (docs/decisions/0135).
//
// A Release rests on facts read live, past every cache: Decide answers Reread when they were not. An Unprotect may rest on
// caches when the record knows every address that the pod can be seen to have had, or when the pod was deleted unbound (nothing can be bound
// that is being deleted). That a UID is deleting and that the kubelet finished it are monotone: any cache will do for them.
package release
