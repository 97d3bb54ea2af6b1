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
	// Acknowledged is what the Lease of the agent on a node of that name says; Absent where there is no Lease.
	Acknowledged release.Fact[Acknowledgement]
}

// Acknowledgement is what an agent has written on its Lease: at that version of the records every mark to all was compared with
// the runtime, and every claim was written.
type Acknowledgement struct {
	Version uint64
	NodeUID types.UID
	BootID  string
}

// Asked is a mark that asks all nodes.
type Asked struct {
	// Epoch is the mark's; zero where there is no mark.
	Epoch int64
	// Version is the resourceVersion that the write of the mark gave; zero where nobody knows it any more.
	Version uint64
	// Since is when that write was made, by the clock of the process that made it. Where the version is zero, it is when this process made one that
	// another process has replaced.
	Since time.Time
}

// Silence is what a node's silence is worth. The zero value is invalid.
type Silence uint8

// The kinds of silence. Only the first three count.
const (
	// Counted: its agent has acknowledged the question on the machine and the boot that the live Node object names.
	Counted Silence = iota + 1
	// Gone: its Node object has been gone for nodeGoneDelay without a sign that its machine is alive.
	Gone
	// Fenced: it is tainted out-of-service and not Ready.
	Fenced
	// NoAgent: there is no Lease of an agent.
	NoAgent
	// Behind: its agent has not acknowledged the question.
	Behind
	// Elsewhere: what was acknowledged was another Node UID's or another boot's word.
	Elsewhere
	// NotGoneYet: its Node object is gone, and not for long enough.
	NotGoneYet
	// NeverGone: its Node object is gone, and the configuration does not take that for proof.
	NeverGone
	// Unread: nobody could tell.
	Unread
)

// Counts says whether the node is known not to have the sandbox.
func (s Silence) Counts() bool { return s == Counted || s == Gone || s == Fenced }

// SilenceOf says what the silence of a node about a question is worth. Ready or not makes no difference: a node that is not Ready
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
	case said.NodeUID != node.NodeUID || said.BootID != node.BootID || said.NodeUID == "" || said.BootID == "":
		return Elsewhere
	case asked.Version == 0 || said.Version < asked.Version:
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
