// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Node is one machine that was ever seen as a Node of the cluster. A machine that is back under another Node object counts as that Node: see
// Same.
type Node struct {
	// Name is the name of the Node object, now or when it was last seen.
	Name string
	// UID is that of its Node object, which may be deleted.
	UID types.UID
	// BootID is the boot of the machine, as its Node object or GuardedNode has it.
	BootID string
	// Live is the Node object of this machine; Absent without one.
	Live release.Fact[release.Node]
	// GoneSince is since when the machine has no Node object, without a later sign that its kubelet or machine is alive; persisted.
	GoneSince release.Fact[time.Time]
	// Acknowledged is the response of its agent to the queries to all nodes; Absent without one.
	Acknowledged release.Fact[Acknowledgement]
}

// Acknowledgement is up to which query an agent has responded: its node has claimed the sandbox of each query, or does not have it.
type Acknowledgement struct {
	// UID is that of the AllNodesQuery.
	UID        types.UID
	Generation int64
	BootID     string
}

// Query is a query to all nodes.
type Query struct {
	// UID is that of the AllNodesQuery.
	UID types.UID
	// Epoch is that of the query; zero if there is none.
	Epoch int64
	// DisownedBy is the pod UID that the query names; one for another pod UID than the record's is no query.
	DisownedBy types.UID
	// Claimants are the UIDs of the Nodes of which the agent claims the sandbox, also of those that are deleted.
	Claimants []types.UID
	// Made is when it was made, and Since when the present observation of Nodes began, if that is later.
	Made, Since time.Time
}

// NodeState says whether a node is known not to have a sandbox that it has not claimed. The zero value is invalid.
type NodeState uint8

// The states of a node. Only the first three prove that it does not have the sandbox.
const (
	// Acknowledged: its agent has responded to the query, in the boot of the machine. That outlives the Node object, unless the response is a claim: then
	// the machine has to be gone.
	Acknowledged NodeState = iota + 1
	// Gone: its Node object has been deleted for nodeGoneDelay without a sign that its machine is alive.
	Gone
	// OutOfService: it has the out-of-service taint and is not Ready.
	OutOfService
	// NoAgent: there is no response of an agent.
	NoAgent
	// NotAcknowledged: its agent has not responded to this query.
	NotAcknowledged
	// OtherBoot: its agent has responded in another boot.
	OtherBoot
	// NotGoneYet: its Node object was deleted less than nodeGoneDelay ago.
	NotGoneYet
	// GoneHeld: its Node object was deleted, which the configuration does not accept as proof.
	GoneHeld
	// Unread: it could not be read.
	Unread
)

// ProvesAbsence says whether the node is known not to have the sandbox.
func (s NodeState) ProvesAbsence() bool { return s == Acknowledged || s == Gone || s == OutOfService }

// StateOf gives the state of a node that has not claimed the sandbox. Readiness alone makes no difference: a node that is not Ready may have
// its sandboxes all the same.
func StateOf(n *Node, query Query, s release.Settings, now time.Time) NodeState {
	if !n.Live.IsRead() || !n.Acknowledged.IsRead() {
		return Unread
	}
	state, node := acknowledged(n, query), n.Live.Get()
	switch {
	case state == Acknowledged && (n.Live.IsKnown() || !slices.Contains(query.Claimants, n.UID)):
		return Acknowledged
	case n.Live.IsAbsent():
		return stateOfDeleted(n, s, now)
	case node.OutOfService && !node.Ready:
		return OutOfService
	}
	return state
}

func acknowledged(n *Node, query Query) NodeState {
	given := n.Acknowledged.Get()
	switch {
	case n.Acknowledged.IsAbsent():
		return NoAgent
	case given.BootID != n.BootID || given.BootID == "":
		return OtherBoot
	case query.Epoch == 0 || given.UID != query.UID || given.Generation < query.Epoch:
		return NotAcknowledged
	}
	return Acknowledged
}

func stateOfDeleted(n *Node, s release.Settings, now time.Time) NodeState {
	switch {
	case !n.GoneSince.IsRead():
		return Unread
	case s.HoldGoneNodes:
		return GoneHeld
	case n.GoneSince.IsAbsent() || now.Before(n.GoneSince.Get().Add(s.NodeGoneDelay)):
		return NotGoneYet
	}
	return Gone
}

// Same says whether a machine that was seen before is the one that a live Node names, in the same boot or a later one, under any Node UID (see
// release.Compare): then the agent of that Node responds for it. A machine that was replaced under its Node UID may be alive. The boot ID
// alone is no evidence, because clones of a running virtual machine share it.
func Same(seen v1alpha1.NodeIdentity, live release.Machine) bool {
	return release.Compare(release.MachineOf(seen), live) != release.Replaced
}
