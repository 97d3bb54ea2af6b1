// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The reasons of an agent's ReadyForRelease.
const (
	// ReasonSandboxAbsent: the node had the sandbox, and a complete list of the runtime no longer shows it.
	ReasonSandboxAbsent Reason = "SandboxAbsent"
	// ReasonSandboxStopped: the runtime lists the sandbox as not ready, with no container that could run and its network
	// namespace closed.
	ReasonSandboxStopped Reason = "SandboxStopped"
	// ReasonSandboxNeverListed: no complete list of the runtime showed the sandbox for longer than sandboxCreationMax.
	ReasonSandboxNeverListed Reason = "SandboxNeverListed"
	// ReasonNoSandbox: queried about every sandbox of a pod UID, no complete list of the runtime showed one that is not gone for longer
	// than sandboxCreationMax.
	ReasonNoSandbox Reason = "NoSandbox"
)

// The reasons of an agent's DoNotRelease.
const (
	// ReasonSandboxReady: the runtime lists the sandbox as ready.
	ReasonSandboxReady Reason = "SandboxReady"
	// ReasonContainerNotExited: a container of a sandbox that is not ready has not exited.
	ReasonContainerNotExited Reason = "ContainerNotExited"
	// ReasonNetworkNamespaceOpen: the sandbox is not ready, but its network namespace, and so its address, still stands.
	ReasonNetworkNamespaceOpen Reason = "NetworkNamespaceOpen"
	// ReasonNetworkNamespaceUnknown: the sandbox is not ready, and the runtime did not report whether its network namespace is closed.
	ReasonNetworkNamespaceUnknown Reason = "NetworkNamespaceUnknown"
	// ReasonSandboxListed: the sandbox is not ready, and for this runtime only absence from its list counts as gone.
	ReasonSandboxListed Reason = "SandboxListed"
	// ReasonSandboxNotSeen: this agent never saw the sandbox; it may be starting until sandboxCreationMax has passed.
	ReasonSandboxNotSeen Reason = "SandboxNotSeen"
	// ReasonSandboxOfThisNode: in a query to all nodes: this one had the sandbox, and is to be queried by its Node UID.
	ReasonSandboxOfThisNode Reason = "SandboxOfThisNode"
	// ReasonSandboxReplaced: the sandbox is gone, but another sandbox of the same pod UID is not, and may use its address.
	ReasonSandboxReplaced Reason = "SandboxReplaced"
	// ReasonSandboxNotLoaded: the runtime does not list the sandbox, but its processes may live: the runtime failed to load it when it
	// was restarted.
	ReasonSandboxNotLoaded Reason = "SandboxNotLoaded"
)

// The reasons for which an agent does not respond.
const (
	// ReasonRuntimeUnreachable: the container runtime cannot be reached.
	ReasonRuntimeUnreachable Reason = "RuntimeUnreachable"
	// ReasonListFailed: the container runtime gave no list that is complete for certain.
	ReasonListFailed Reason = "ListFailed"
	// ReasonUIDConflict: the runtime lists two ready sandboxes of one pod UID, one UID under two names, or one sandbox under
	// another UID than before.
	ReasonUIDConflict Reason = "UIDConflict"
	// ReasonNotThisMachine: the Node object of the agent's name is not the machine on which it runs, or not the Node for which
	// its token was issued.
	ReasonNotThisMachine Reason = "NotThisMachine"
	// ReasonResponding: the agent responds to queries.
	ReasonResponding Reason = "Responding"
)
