// SPDX-License-Identifier: Apache-2.0

// Package release decides, purely, what happens to the addresses of one pod UID. It is the heart of Holdfast: read this
// table first. Decide tries the rows in order and the first that fits decides. Rows 5 to 10 judge each sandbox by itself.
//
//	 0  a fact could not be read                                     Wait(ObservationFailed)
//	 1  not deleting; terminal by the kubelet; entries remain        kubelet: its own kubelet, Node Ready and ReleaseDelay over:
//	                                                                 Release as in row 13, else Wait; rejected: Wait
//	                                                                 agent: after ReleaseDelay as row 12. The finalizer stays
//	 2  not deleting                                                 Keep: the record is kept true
//	                                                                 agent: of a pod with more than one sandbox, or whose machine has
//	                                                                 booted, Confirm; named a successor: Rewrite; never Release
//	 3  deleting, never bound to a node                              Unprotect(NeverScheduled)
//	 4  terminal by the kubelet (rejected too), no entries           Unprotect; cached facts will do
//	    the pod object is gone, no entries                           Unprotect: no sandbox of the record is left unproven. A recorded
//	                                                                 address whose entry was removed or taken over counts as an entry
//	 5  node tainted out-of-service and not Ready                    kubelet: Release(NodeOutOfService); no entries: Unprotect
//	                                                                 agent: Confirm with Fence; no response for ReleaseDelay, or
//	                                                                 ReadyForRelease: Release; DoNotRelease: Wait(SandboxRunning)
//	 6  Node object gone                                             Release after NodeGoneDelay without a sign of life (no entries:
//	                                                                 Unprotect); before it, on Hold, or where nobody recorded the
//	                                                                 sandbox's machine: Wait(NodeGone); where the last report of its
//	                                                                 agent was DoNotRelease: Wait(SandboxRunning)
//	 7  same machine and boot under a new Node UID                   go on as live; the record is re-addressed
//	 8  same machine, new boot                                       go on as live: its kubelet ends what the old boot left. A boot ID may
//	                                                                 have been read before the kubelet reported the new one, so it
//	                                                                 alone gives nothing away
//	    under a new Node UID too: perhaps a clone                    Wait(NodeReplaced) until that Node is NodeGoneDelay old, and on Hold;
//	                                                                 Wait(MachineUnknown) while another Node has the machine's IDs
//	 9  another machine under the name                               as 6, with Wait(NodeReplaced)
//	10  kubelet-finished by its own kubelet, entries remain          agent: as row 12, without row 11
//	                                                                 kubelet: Release: sandboxes that network-status shows; others once
//	                                                                 unchanged for SandboxCreationMax
//	11  grace period and slack not over                              Wait(GracePeriod)
//	12  agent mode, the Node is the recorded machine, Ready or not   Confirm; ReadyForRelease: Release; DoNotRelease: Wait(SandboxRunning);
//	                                                                 nothing: Wait(NodeUnreachable), or Wait(AgentNotResponding) of a Ready node
//	13  terminal before the deletion, or rejected, by its own
//	    kubelet; kubelet mode                                        Node Ready and ReleaseDelay over: Release, by row 10's rule for
//	                                                                 each sandbox. Rejected: only as in the next line
//	    rejected, or terminal by another hand (PodGC, another
//	    machine's kubelet), and the kubelet, since its node registered again, reports
//	    that there is no sandbox                                     the same
//	14  Node not Ready (entries or none)                             Wait(NodeUnreachable)
//	15  entries remain, kubelet mode                                 Wait(KubeletNotFinished)
//	16  no entries, but it may be starting or running                agent mode: Confirm AnySandbox; ReadyForRelease: Unprotect; else Wait
//	                                                                 kubelet mode: the Node registered after the deletion, and
//	                                                                 SandboxCreationMax ago: Unprotect; else Wait
//	17  anything else                                                Wait(Unclassified)
//
// Its own kubelet is that of the machine which is recorded for the sandbox (EndedOn). A kubelet ends whatever pods of its node's name are
// being deleted, also those of a machine that it replaced and knows nothing about; and that machine may be back by the time anybody
// looks. What the record has is the Node that stood from before the end until it was first seen (EndedUnder); it is never re-addressed.
// An end that is another machine's, or of which nobody can tell whose it is, is none in rows 1, 5, 10 and 13; agents are asked then. In row
// 4 it makes no difference whose it is: there is nothing to be given away.
//
// A termination that another account can have written as the kubelet's is, with agents, terminal by another hand (ProvenEnding), and a
// machine under the same Node UID that another account can have written there is none in row 9 (docs/decisions/0120).
//
// An entry that stands under two pod UIDs is never released (Wait(Conflict)); it holds only itself back.
//
// With agents, what a node says counts only as an answer to the very question that stands (Counts): sandbox, epoch, Node UID and boot
// are those of the mark, and a Node that was read after the answer still is that Node in that boot. A mark is set on live reads only,
// and anew where Node, boot or taint changed. A graceful end that leaves no entries (row 4) queries no agent.
//
// A report that counts and says that the sandbox is not gone wins over all other evidence in every row: over the kubelet's report of
// termination, and over the declaration that a node is dead if it was given under the same taint, or last before the Node object went
// (docs/decisions/0117). In rows 4 and 16 the same holds for a report on any sandbox of the pod that names one.
//
// A sandbox that no agent saw on the pod's node, and that only the time of its ADD ties to the pod, may run on another node. With agents, evidence
// about the pod's node alone (rows 1, 2, 5, 6, 9, 10 and 12) leads to Disown (docs/decisions/0132).
//
// Nor does a sandbox of which the record names no machine go back on evidence about the Node of today: with agents it is disowned once the grace period
// is over (docs/decisions/0148).
//
// Entries under the name of a pod that no pod UID can be shown to own are disowned before its Unprotect: the next pod with the name would inherit
// them (docs/decisions/0147).
//
// A sandbox whose address a later one of the pod has is judged by the same rows, and dropped from the record once it is proven gone. Until then
// the later one is not released (docs/decisions/0135).
//
// A Release rests on facts read live, past every cache: Decide answers Reread when they were not. An Unprotect may rest on
// caches when the record knows every address that the pod can be seen to have had, or when the pod was deleted unbound (nothing can be bound
// that is being deleted). That a UID is deleting and that the kubelet finished it are monotone: any cache will do for them.
package release
