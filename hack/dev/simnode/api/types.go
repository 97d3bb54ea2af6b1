// SPDX-License-Identifier: Apache-2.0

// Package api holds what the simulated nodes report about themselves over their
// control socket: nodes, sandboxes and the history of both. An observer builds
// its judgement on these alone.
package api

import "time"

// Node is one simulated machine.
type Node struct {
	Name string `json:"name"`
	// Ready is the Ready condition of the Node object, read live.
	Ready bool `json:"ready"`
	// Frozen reports whether its kubelet does nothing while its sandboxes live on.
	Frozen bool `json:"frozen"`
	// PoweredOff reports whether the machine is dead.
	PoweredOff bool `json:"poweredOff"`
	// APICut reports whether its CNI plugins cannot reach the API server.
	APICut bool `json:"apiCut"`
	// CutOff reports whether nothing on the machine can reach the API server, or be reached.
	CutOff bool `json:"cutOff"`
	// CNS reports whether its pod network has addresses only once its CNS has loaded
	// some; until then the node is not Ready.
	CNS bool `json:"cns,omitempty"`
	// CRI is the path of the socket at which the machine's container runtime serves
	// the CRI. No process listens there while the machine is off.
	CRI string `json:"cri"`
	// AgentPID is the process of Holdfast's agent on the machine; zero while none
	// runs.
	AgentPID int `json:"agentPID,omitempty"`
	// AgentStopped reports whether the agent is kept from starting.
	AgentStopped bool `json:"agentStopped,omitempty"`
}

// What the machines' container runtime calls itself.
const (
	RuntimeName    = "simulated"
	RuntimeVersion = "0.1.0"
)

// The states of a sandbox, as the CRI names them.
const (
	StateReady    = "READY"
	StateNotReady = "NOTREADY"
)

// Sandbox is one pod sandbox that exists or existed.
type Sandbox struct {
	// ID is 64 hex digits and never used twice.
	ID           string `json:"id"`
	Node         string `json:"node"`
	PodUID       string `json:"podUID"`
	PodNamespace string `json:"podNamespace"`
	PodName      string `json:"podName"`
	// Attempt counts the sandboxes of one pod UID on this machine, from 0.
	Attempt uint32 `json:"attempt"`
	// State is StateReady or StateNotReady. NOTREADY does not mean that it is
	// gone: it is so too while it is being made.
	State string `json:"state"`
	// Alive reports whether its process and its network namespace exist, so that its
	// addresses are on the wire.
	Alive     bool      `json:"alive"`
	CreatedAt time.Time `json:"createdAt"`
	// EndedAt is when it ceased to be alive.
	EndedAt *time.Time `json:"endedAt,omitempty"`
	// Addresses are those that CNI ADD put on its interfaces; they stay listed
	// after its end.
	Addresses []Address `json:"addresses"`
}

// Address is one address of a sandbox.
type Address struct {
	Interface string `json:"interface"`
	IP        string `json:"ip"`
	// Network is "namespace/name" of the NetworkAttachmentDefinition, or
	// ClusterNetwork.
	Network string `json:"network"`
}

// ClusterNetwork is the network of an address that comes from the cluster's own
// pod network.
const ClusterNetwork = "cluster"

// The kinds of events.
const (
	// EventCreate: the sandbox's network namespace exists.
	EventCreate = "create"
	// EventAdd: CNI ADD put an address on an interface.
	EventAdd = "add"
	// EventAddFailed: CNI ADD failed.
	EventAddFailed = "add-failed"
	// EventReady: the sandbox is up.
	EventReady = "ready"
	// EventEnd: the sandbox ceased to be alive.
	EventEnd = "end"
	// EventDel: CNI DEL ran, and nothing went wrong.
	EventDel = "del"
	// EventDelFailed: CNI DEL ran, and the deallocation failed, which whereabouts does
	// not report.
	EventDelFailed = "del-failed"
	// EventRemove: the sandbox's record in the runtime is gone.
	EventRemove = "remove"
	// EventInit: an init container of the machine's CNS said something.
	EventInit = "init"
	// EventCNS: the machine's CNS loaded prefixes.
	EventCNS = "cns"
	// EventAgent: a process of Holdfast's agent started or ended.
	EventAgent = "agent"
)

// What can be done to a machine through the control socket, each of which is a kind of event, too.
const (
	// EventFreeze hangs the kubelet: no heartbeat, no reaction, while the sandboxes live on. EventThaw lets it go on.
	EventFreeze = "freeze"
	EventThaw   = "thaw"
	// EventCutOff takes the machine's network away: neither kubelet nor CNI reaches the API server, while the sandboxes live on. It
	// outlives a boot. EventReconnect gives it back.
	EventCutOff    = "cut-off"
	EventReconnect = "reconnect"
	// EventPowerOff ends the machine and its sandboxes at once: no CNI DEL, no report. EventStart boots it, with another boot ID.
	EventPowerOff = "power-off"
	EventStart    = "start"
	// EventReplace powers the machine off and starts another one under its name, which takes over the Node object that is there.
	EventReplace = "replace"
	// EventCutCNI makes the CNI plugins find the API server's connection refused. It outlives a boot. EventMendCNI undoes it.
	EventCutCNI  = "cut-cni"
	EventMendCNI = "mend-cni"
	// EventStopAgent ends Holdfast's agent and keeps it from starting again. It outlives a boot. EventStartAgent undoes it.
	EventStopAgent  = "stop-agent"
	EventStartAgent = "start-agent"
)

// Forms of EventReplace.
const (
	// ReplaceAnew deletes the Node object before the new machine starts.
	ReplaceAnew = EventReplace + "?delete-node"
	// ReplaceUnreachable is that for a machine that cannot be powered off: it is cut off for good, and its sandboxes live on.
	ReplaceUnreachable = EventReplace + "?delete-node&old-lives"
)

// Event is one entry of the history. PodUID, SandboxID and IP are empty where
// they do not apply.
type Event struct {
	Time      time.Time `json:"time"`
	Node      string    `json:"node"`
	PodUID    string    `json:"podUID,omitempty"`
	SandboxID string    `json:"sandboxID,omitempty"`
	Event     string    `json:"event"`
	IP        string    `json:"ip,omitempty"`
	Message   string    `json:"message,omitempty"`
}
