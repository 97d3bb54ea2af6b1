// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Node is one machine that was ever seen as a Node of the cluster, with what speaks for it. A machine that is back under another
// Node object is that Node's: see Same.
type Node struct {
	// Name is the name of the Node object, now or when it was last seen.
	Name string
	// Live is the Node object that this machine has now; Absent where it has none.
	Live release.Fact[release.Node]
	// GoneSince is since when it is proven that it has none, with no sign of its kubelet or machine since; persisted.
	GoneSince release.Fact[time.Time]
	// Acknowledged is what its agent has responded to the queries to all nodes; Absent where there is no response.
	Acknowledged release.Fact[Acknowledgement]
}

// Acknowledgement is up to which query an agent has responded: it claims the sandbox of each, or its node has none.
type Acknowledgement struct {
	// UID is that of the AllNodesQuery.
	UID        types.UID
	Generation int64
	BootID     string
}

// Asked is a query to all nodes.
type Asked struct {
	// UID is that of the AllNodesQuery.
	UID types.UID
	// Epoch is the query's; zero where none stands.
	Epoch int64
	// Since is when it was made, or when the present observation of Nodes began.
	Since time.Time
}

// Silence is what it proves that a node has not claimed a sandbox. The zero value is invalid.
type Silence uint8

// The kinds of silence. Only the first three count.
const (
	// Counted: its agent has responded to the query on the machine and the boot that the live Node object names.
	Counted Silence = iota + 1
	// Gone: its Node object has been gone for nodeGoneDelay without a sign that its machine is alive.
	Gone
	// Fenced: it is tainted out-of-service and not Ready.
	Fenced
	// NoAgent: there is no response of an agent.
	NoAgent
	// Behind: its agent has not responded to the query.
	Behind
	// Elsewhere: its agent has responded in another boot.
	Elsewhere
	// NotGoneYet: its Node object is gone, and not for long enough.
	NotGoneYet
	// NeverGone: its Node object is gone, and the configuration does not take that for proof.
	NeverGone
	// Unread: it could not be read.
	Unread
)

// Counts says whether the node is known not to have the sandbox.
func (s Silence) Counts() bool { return s == Counted || s == Gone || s == Fenced }

// SilenceOf says what it proves that a node has not claimed a sandbox. Ready or not makes no difference: a node that is not Ready
// has its sandboxes all the same.
func SilenceOf(n *Node, asked Asked, s Settings, now time.Time) Silence {
	switch {
	case n.Live.IsAbsent():
		return silenceOfGone(n, s, now)
	case !n.Live.IsKnown() || !n.Acknowledged.IsRead():
		return Unread
	}
	node := n.Live.Get()
	said := acknowledged(n, &node, asked)
	if !said.Counts() && node.OutOfService && !node.Ready {
		return Fenced
	}
	return said
}

func acknowledged(n *Node, node *release.Node, asked Asked) Silence {
	said := n.Acknowledged.Get()
	switch {
	case n.Acknowledged.IsAbsent():
		return NoAgent
	case said.BootID != node.BootID || said.BootID == "":
		return Elsewhere
	case asked.Epoch == 0 || said.UID != asked.UID || said.Generation < asked.Epoch:
		return Behind
	}
	return Counted
}

func silenceOfGone(n *Node, s Settings, now time.Time) Silence {
	switch {
	case !n.GoneSince.IsRead():
		return Unread
	case s.HoldGoneNodes:
		return NeverGone
	case n.GoneSince.IsAbsent() || now.Before(n.GoneSince.Get().Add(s.NodeGoneDelay)):
		return NotGoneYet
	}
	return Gone
}

// Same says whether a machine that was seen before is the one that a live Node names: the same boot, or a later one, of the same machine,
// under whatever Node UID, as release.Compare says. That Node's agent speaks for the machine. A machine that was replaced under its Node
// UID is not: it may be alive. The boot ID alone shows nothing: clones of a virtual machine that runs share it.
func Same(seen v1alpha1.NodeIdentity, live release.Machine) bool {
	return release.Compare(release.MachineOf(seen), live) != release.Replaced
}
