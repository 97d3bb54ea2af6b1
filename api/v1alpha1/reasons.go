// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reason is why an address is held or released, as one PascalCase word. The same constant stands in the event, the
// pod condition, the record's condition, the metric and the log line.
type Reason string

// The reasons of a wait. Each has one meaning and one page in docs/runbook.
const (
	// ReasonPodInUse: the pod is not being deleted; its addresses are its own.
	ReasonPodInUse Reason = "PodInUse"
	// ReasonObservationFailed: a fact that the decision needs could not be read. Unknown is never "gone".
	ReasonObservationFailed Reason = "ObservationFailed"
	// ReasonGracePeriod: the pod's grace period, plus slack, is not over.
	ReasonGracePeriod Reason = "GracePeriod"
	// ReasonReleaseDelay: the persisted delay before a release is not over.
	ReasonReleaseDelay Reason = "ReleaseDelay"
	// ReasonKubeletNotFinished: kubelet mode, and the kubelet has not reported that the pod ended.
	ReasonKubeletNotFinished Reason = "KubeletNotFinished"
	// ReasonNodeUnreachable: the Node is not Ready and has no out-of-service taint.
	ReasonNodeUnreachable Reason = "NodeUnreachable"
	// ReasonNodeGone: the Node object is deleted; waiting for nodeGoneDelay, or held by choice.
	ReasonNodeGone Reason = "NodeGone"
	// ReasonNodeReplaced: another machine has the node's name.
	ReasonNodeReplaced Reason = "NodeReplaced"
	// ReasonMachineUnknown: no record names the machine that ran the sandbox, and the Node of today may be another one.
	ReasonMachineUnknown Reason = "MachineUnknown"
	// ReasonAwaitingNodeResponse: an agent was queried about a sandbox and has not responded.
	ReasonAwaitingNodeResponse Reason = "AwaitingNodeResponse"
	// ReasonSandboxRunning: the node's agent reports that the sandbox is not gone.
	ReasonSandboxRunning Reason = "SandboxRunning"
	// ReasonSandboxUnconfirmed: the kubelet finished the pod, but may not have known this sandbox: its address has not been on record for
	// sandboxCreationMax yet.
	ReasonSandboxUnconfirmed Reason = "SandboxUnconfirmed"
	// ReasonSandboxDisowned: nothing but the moment of its ADD ties a sandbox to the pod, and its node never had it: its addresses become an
	// orphan's.
	ReasonSandboxDisowned Reason = "SandboxDisowned"
	// ReasonMayBeStarting: no address is recorded, but a sandbox may still be starting.
	ReasonMayBeStarting Reason = "MayBeStarting"
	// ReasonConflict: one address under two pod UIDs, neither proven gone; neither is released.
	ReasonConflict Reason = "Conflict"
	// ReasonUnclassified: no row of the decision table fits. Its metric must stay zero.
	ReasonUnclassified Reason = "Unclassified"
	// ReasonOwnerUnknown: an IPAM entry that no pod UID can be shown to own; held as an orphan.
	ReasonOwnerUnknown Reason = "OwnerUnknown"
	// ReasonReleaseFailed: a pool or a record could not be written, for a release or to keep an address from the next pod; it is tried again.
	ReasonReleaseFailed Reason = "ReleaseFailed"
	// ReasonUnprotectFailed: the finalizer could not be taken off; it is tried again.
	ReasonUnprotectFailed Reason = "UnprotectFailed"
	// ReasonAddressKept: the pod object is deleted and its sandbox is not proven gone; a tombstone keeps the address from other pods.
	ReasonAddressKept Reason = "AddressKept"
	// ReasonProtectedAgain: a pod that holds an address, or may get one, had the label without the finalizer, or had lost it, and has it again.
	ReasonProtectedAgain Reason = "ProtectedAgain"
)

// The reasons of a release or of taking the finalizer off.
const (
	// ReasonKubeletFinished: the kubelet reported the pod's end after its deletion, which follows StopPodSandbox.
	ReasonKubeletFinished Reason = "KubeletFinished"
	// ReasonPodCompleted: the kubelet reported a terminal phase before any deletion (completed Job, eviction, rejection).
	ReasonPodCompleted Reason = "PodCompleted"
	// ReasonSandboxGone: the node's agent has shown the sandbox to be gone.
	ReasonSandboxGone Reason = "SandboxGone"
	// ReasonNodeOutOfService: the Node has the out-of-service taint and is not Ready: an administrator declared it off.
	ReasonNodeOutOfService Reason = "NodeOutOfService"
	// ReasonNeverScheduled: the pod was never bound to a node.
	ReasonNeverScheduled Reason = "NeverScheduled"
	// ReasonNoIPsHeld: no pool holds an address for this pod UID.
	ReasonNoIPsHeld Reason = "NoIPsHeld"
	// ReasonNotGuarded: every network of the pod is provably outside what the backends manage.
	ReasonNotGuarded Reason = "NotGuarded"
)

// The reasons of events about IPAM data that cannot be used as it is.
const (
	// ReasonMalformedPool: a pool, or one entry of it, cannot be read; it is reported and never written.
	ReasonMalformedPool Reason = "MalformedPool"
	// ReasonUnsafeReleaseRefused: admission refused a removal because the address is, or may be, in use.
	ReasonUnsafeReleaseRefused Reason = "UnsafeReleaseRefused"
	// ReasonUnsafeReleaseWarned: admission allowed such a removal, and warned about it (unsafeReleases.mode Warn).
	ReasonUnsafeReleaseWarned Reason = "UnsafeReleaseWarned"
	// ReasonMalformedNetworks: a networks annotation or a NetworkAttachmentDefinition cannot be read; the pod is protected.
	ReasonMalformedNetworks Reason = "MalformedNetworks"
)
