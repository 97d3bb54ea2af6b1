// SPDX-License-Identifier: Apache-2.0

package release

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Evidence is what shows that a sandbox is gone. The zero value is invalid.
type Evidence uint8

// The kinds of evidence.
const (
	// EvidenceKubelet: the status of the pod, written by the kubelet.
	EvidenceKubelet Evidence = iota + 1
	// EvidenceAgent: the node's container runtime, read by the agent.
	EvidenceAgent
)

// Observation is the state of one pod UID at one moment.
type Observation struct {
	// Evidence is the mode of the installation.
	Evidence Evidence
	// UID is the pod's.
	UID types.UID
	// Live says that every fact that can change back was read live.
	Live bool
	// Withholds: the mode is Shadow, and the pod was protected before. A Release or Disown is only reported, and the pod is unprotected by the same
	// evidence.
	Withholds bool
	// Recorded: the record has every address that the pod can be seen to have had, so that pools without them, in a later version than the
	// recorded one, are not just late caches.
	Recorded bool
	// Pod is Absent if a live read gave NotFound, or another UID under the name.
	Pod Fact[Pod]
	// Last is the recorded state of a deleted pod. It is only used if Pod is Absent.
	Last Pod
	// Sandboxes are the sandboxes of this UID that still have entries in a pool; Absent if there are none.
	Sandboxes Fact[[]Sandbox]
	// Unowned are sandboxes with an entry under the name of the pod that no pod UID can be shown to own. They are only set for a pod that is being
	// deleted, or is deleted: the next pod with its name would inherit the entries.
	Unowned []string
	// Disowning: an orphan that the pod disowned still holds one of its addresses. It only keeps a live pod from disowning more.
	Disowning bool
	// Node is the Node object with the node name of the pod.
	Node Fact[Node]
	// NodeGoneSince is since when the recorded Node is proven deleted without a sign that its machine is alive; persisted. Unknown if a read of such
	// signs failed.
	NodeGoneSince Fact[time.Time]
	// PoliciesSince is since when admission policies refuse reports of a kubelet by other accounts; zero if they are not in force. It is only used
	// with EvidenceAgent.
	PoliciesSince time.Time
	// ReachedSince is since when the manager has reached the API server without a gap; zero where that does not matter. Before that an agent may
	// not have been able to respond.
	ReachedSince time.Time
	// Twin names another Node with the machine ID and system UUID of a machine that the Node resembles; empty if there is none.
	Twin string
	// SignOfLife is what last restarted NodeGoneSince, for the message; empty if nothing did.
	SignOfLife string
	// Any is the query about every sandbox of this UID (v1alpha1.AnySandbox). It is only used with EvidenceAgent.
	Any Exchange
	// NotResponding is why the agent of the node does not respond, if reported: for the message.
	NotResponding NotResponding
	// Settings are the installation's delays.
	Settings Settings
}

// Settings are the delays of the table.
type Settings struct {
	ReleaseDelay       time.Duration
	GracePeriodSlack   time.Duration
	SandboxCreationMax time.Duration
	NodeGoneDelay      time.Duration
	// ResponseWithin is how long the agent of a Ready node may take to respond before that is reported. It only changes the message.
	ResponseWithin time.Duration
	// HoldGoneNodes: the deletion of a Node object is no proof.
	HoldGoneNodes bool
}

// Pod is the part of a pod that the table needs.
type Pod struct {
	// Deleting: deletionTimestamp is set.
	Deleting bool
	// Deadline is deletionTimestamp, at which the grace period is over.
	Deadline time.Time
	// DeletionRequested is when the deletion was requested, to the second; zero if it was not, or is unknown.
	DeletionRequested time.Time
	// Bound: the pod has a node.
	Bound bool
	// Ending is what the kubelet reported.
	Ending Ending
	// TornDown is when the kubelet last wrote that the deleted pod has no sandbox any more; zero if it did not.
	TornDown time.Time
	// EndedSince is when the ending was first proven; persisted, zero until recorded.
	EndedSince time.Time
	// EndedBy is the recorded machine whose kubelet wrote the ending; persisted, and never changed. While it is not Known, EndedUnder may show that
	// it is the machine of the Node that was read.
	EndedBy Fact[Machine]
	// EndWritten is when the kubelet last wrote the status that shows the ending: for messages only, see EndedUnder.
	EndWritten time.Time
	// Begun is when the pod was bound or, if that is not recorded, created; zero if unknown.
	Begun time.Time
	// AliveNodeUID is the recorded UID of a Node object that existed before the pod terminated; empty if unknown.
	AliveNodeUID types.UID
}

// Sandbox is one pod sandbox that still has entries, or whose addresses later sandboxes of the pod have.
type Sandbox struct {
	// ID is the sandbox ID as the IPAM recorded it.
	ID string
	// Machine is the machine that was recorded for the sandbox; Absent or Unknown until a live read of the Node succeeds.
	Machine Fact[Machine]
	// Attribution is the evidence that ties it to the pod UID.
	Attribution v1alpha1.Attribution
	// UnchangedSince is since when its entries are unchanged; persisted.
	UnchangedSince time.Time
	// Query is the standing query about it, and Response the last one of the queried Node's agent; Absent if there is none. They are only used with
	// EvidenceAgent.
	Query    Fact[Query]
	Response Fact[Response]
	// Shown: the network-status of a live pod has an address of this sandbox.
	Shown bool
	// Followed: it has no entry. A later sandbox of the same pod UID has, or had, its addresses, or has others for their interfaces.
	Followed bool
	// Superseded: it has no entry, because other sandboxes, of any pod UID, have its addresses.
	Superseded bool
	// Unrecorded: the record lacks one of its entries, because it had no room.
	Unrecorded bool
	// Shares are the pod's other sandboxes that have, or had, one of its addresses.
	Shares []string
	// Conflict: one of its addresses belongs to another pod UID that is not proven gone.
	Conflict bool
}

// Machine identifies one boot of one machine under one Node object. Empty fields are unknown.
type Machine struct {
	NodeUID                       types.UID
	MachineID, SystemUUID, BootID string
}

// MachineOf is the machine in a record.
func MachineOf(node v1alpha1.NodeIdentity) Machine {
	return Machine{NodeUID: node.UID, MachineID: node.MachineID, SystemUUID: node.SystemUUID, BootID: node.BootID}
}

// Identity is the machine in the form of a record.
func (m Machine) Identity() v1alpha1.NodeIdentity {
	return v1alpha1.NodeIdentity{UID: m.NodeUID, MachineID: m.MachineID, SystemUUID: m.SystemUUID, BootID: m.BootID}
}

// Node is the part of a live Node object that the table needs.
type Node struct {
	Machine
	// Name is for messages only, and may be empty: names never identify.
	Name string
	// Kubelet is the version of the node's kubelet, for messages.
	Kubelet string
	// Registered is when the Node object was created, to the second.
	Registered time.Time
	// Ready: the condition Ready is True.
	Ready bool
	// ShuttingDown: that condition is False, and its only reason is that the kubelet shuts the node down, which stops each of its pods.
	ShuttingDown bool
	// ReadySince is when that condition last changed; it only delays queries.
	ReadySince time.Time
	// OutOfService: the taint node.kubernetes.io/out-of-service is set.
	OutOfService bool
	// OutOfServiceSince is when the taint was added; zero if the taint has no time.
	OutOfServiceSince time.Time
}

// called names the node in a message.
func (n Node) called() string {
	if n.Name == "" {
		return "the node"
	}
	return "node " + n.Name
}

// restartAdvice is what ends a wait for a kubelet that has nothing left to stop. A kubelet that starts writes the status of each pod again; since
// 1.37 that status distinguishes a pod without a sandbox from one whose sandbox is not ready.
func (n Node) restartAdvice() string {
	const otherwise = "switch the machine off and delete its Node object, or taint it node.kubernetes.io/out-of-service"
	if v, err := version.ParseSemantic(n.Kubelet); err == nil && v.LessThan(reportsNoSandbox) {
		return otherwise + "; a kubelet of version " + n.Kubelet + " does not report that a pod has no sandbox, " + reportsNoSandbox.String() + " does, and agents need no report"
	}
	return "restart that kubelet, which then reports that there is no sandbox, or " + otherwise
}

var reportsNoSandbox = version.MustParseSemantic("1.37.0")
