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
	// EvidenceKubelet: the pod's status, written by the kubelet.
	EvidenceKubelet Evidence = iota + 1
	// EvidenceAgent: the node's container runtime, read by the agent.
	EvidenceAgent
)

// Observation is all that is known of one pod UID at one moment.
type Observation struct {
	// Evidence is the mode of the installation.
	Evidence Evidence
	// UID is the pod's.
	UID types.UID
	// Live says that every fact in here that can change back was read past every cache.
	Live bool
	// Withholds: the mode is Shadow, and the pod was protected before. A Release or a Disown is reported, and the pod is let go by the same proofs.
	Withholds bool
	// Recorded: the record knows every address that the pod can be seen to have had, so that the pools' emptiness of them, in
	// a version later than the record's, is no accident of a late cache.
	Recorded bool
	// Pod is Absent when the object is gone (by a live read: not found, or another UID under the name).
	Pod Fact[Pod]
	// Last is what the record remembers of a pod whose object is gone. It is only used when Pod is Absent.
	Last Pod
	// Sandboxes are the sandboxes of this UID that still have entries in a pool; Absent when there are none.
	Sandboxes Fact[[]Sandbox]
	// Unowned are sandboxes with an entry under the name of the pod that no pod UID can be shown to own. They are only given of a pod that is
	// being deleted, or is gone: the next pod with its name would inherit the entries.
	Unowned []string
	// Node is the Node object that now stands under the node name of the pod.
	Node Fact[Node]
	// NodeGoneSince is since when the recorded Node is proven gone without a sign that its machine is alive; persisted. Unknown when signs that it is alive
	// could not be looked for.
	NodeGoneSince Fact[time.Time]
	// PoliciesSince is from when on admission policies keep other accounts from writing what a kubelet reports; zero where they are not in force.
	// It is only looked at with EvidenceAgent.
	PoliciesSince time.Time
	// Twin names another Node with the machine ID and system UUID of a machine that the Node resembles; empty if there is none, or no such machine.
	Twin string
	// SignOfLife is what last started that time again, for the message; empty if nothing did.
	SignOfLife string
	// Any is the query about every sandbox of this UID (v1alpha1.AnySandbox). It is only looked at with EvidenceAgent.
	Any Exchange
	// NotResponding is why the node's agent does not respond, where it says so: for the message.
	NotResponding NotResponding
	// Settings are the installation's delays.
	Settings Settings
}

// Settings are the delays that the table knows.
type Settings struct {
	ReleaseDelay       time.Duration
	GracePeriodSlack   time.Duration
	SandboxCreationMax time.Duration
	NodeGoneDelay      time.Duration
	// ResponseWithin is how long a Ready node's agent may take to respond before it is said not to. It changes the message only.
	ResponseWithin time.Duration
	// HoldGoneNodes never takes the deletion of a Node object as proof.
	HoldGoneNodes bool
}

// Pod is what the table needs to know of a pod.
type Pod struct {
	// Deleting: deletionTimestamp is set.
	Deleting bool
	// Deadline is deletionTimestamp: the moment at which the grace period is over.
	Deadline time.Time
	// DeletionRequested is when the deletion was asked for, to the second; zero if it was not, or nobody can tell.
	DeletionRequested time.Time
	// Bound: the pod has a node.
	Bound bool
	// Ending is what the kubelet reported.
	Ending Ending
	// TornDown is when the kubelet last wrote that the deleted pod has no sandbox any more; zero if it did not.
	TornDown time.Time
	// EndedSince is when the ending was first proven; persisted, zero while nobody wrote it down.
	EndedSince time.Time
	// EndedBy is the machine whose kubelet wrote the ending, as the record has it; persisted, and never re-addressed. While it is not
	// Known, EndedUnder can say it of the Node that was read.
	EndedBy Fact[Machine]
	// EndWritten is when the kubelet last wrote the status that shows the ending: for messages only, see EndedUnder.
	EndWritten time.Time
	// Begun is when the pod was bound, or was made where nobody wrote down when it was bound; zero if nobody can tell.
	Begun time.Time
	// AliveNodeUID is a Node object that was there before the pod ended, as the record has it; empty if none is known.
	AliveNodeUID types.UID
}

// Sandbox is one pod sandbox that still has entries, or whose addresses later sandboxes of the pod have.
type Sandbox struct {
	// ID is the sandbox ID as the IPAM recorded it.
	ID string
	// Machine is the machine that was recorded for the sandbox; Absent or Unknown while no live Node read succeeded.
	Machine Fact[Machine]
	// Attribution is the evidence that ties it to the pod UID.
	Attribution v1alpha1.Attribution
	// UnchangedSince is since when its entries stand as they are; persisted.
	UnchangedSince time.Time
	// Query is the one about it that stands, and Response the last one of the agent of the Node that is queried; Absent while there
	// is none. They are only looked at with EvidenceAgent.
	Query    Fact[Query]
	Response Fact[Response]
	// Shown: the network-status of a pod that lives has an address of this sandbox.
	Shown bool
	// Followed: it has no entry any more, because a later sandbox of the same pod UID has, or had, its addresses.
	Followed bool
	// Conflict: one of its addresses stands under another pod UID that is not proven gone.
	Conflict bool
}

// Machine identifies one boot of one machine under one Node object. Empty fields are unknown.
type Machine struct {
	NodeUID                       types.UID
	MachineID, SystemUUID, BootID string
}

// MachineOf is the machine that a record names.
func MachineOf(node v1alpha1.NodeIdentity) Machine {
	return Machine{NodeUID: node.UID, MachineID: node.MachineID, SystemUUID: node.SystemUUID, BootID: node.BootID}
}

// Identity is the machine, as records have it.
func (m Machine) Identity() v1alpha1.NodeIdentity {
	return v1alpha1.NodeIdentity{UID: m.NodeUID, MachineID: m.MachineID, SystemUUID: m.SystemUUID, BootID: m.BootID}
}

// Node is what the table needs to know of a live Node object.
type Node struct {
	Machine
	// Name is for messages alone, and may be empty: names never identify.
	Name string
	// Kubelet is the version of the node's kubelet, for messages.
	Kubelet string
	// Registered is when the Node object was created, to the second.
	Registered time.Time
	// Ready: the condition Ready is True.
	Ready bool
	// ReadySince is when that began, as the Node says; it only delays queries.
	ReadySince time.Time
	// OutOfService: the taint node.kubernetes.io/out-of-service is set.
	OutOfService bool
	// OutOfServiceSince is when the taint was added, where it says so.
	OutOfServiceSince time.Time
}

// called names the node in a message.
func (n Node) called() string {
	if n.Name == "" {
		return "the node"
	}
	return "node " + n.Name
}

// restartAdvice is what ends a wait for a kubelet that has nothing to stop any more. A kubelet that starts writes the status of each pod
// anew; only from 1.37 on does that status tell a pod without a sandbox from one whose sandbox is not ready.
func (n Node) restartAdvice() string {
	const otherwise = "switch the machine off and delete its Node object, or taint it node.kubernetes.io/out-of-service"
	if v, err := version.ParseSemantic(n.Kubelet); err == nil && v.LessThan(reportsNoSandbox) {
		return otherwise + "; a kubelet of version " + n.Kubelet + " does not report that a pod has no sandbox, " + reportsNoSandbox.String() + " does, and agents need no report"
	}
	return "restart that kubelet, which then reports that there is no sandbox, or " + otherwise
}

var reportsNoSandbox = version.MustParseSemantic("1.37.0")
