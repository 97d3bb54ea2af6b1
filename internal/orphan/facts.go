// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Facts are all that is known of one sandbox without an owner, at one moment.
type Facts struct {
	// Evidence is the mode of the installation.
	Evidence release.Evidence
	// Live says that the queries, then the responses to them, then the Nodes, then the record, and last the pools, were read past every cache, in
	// this order.
	Live bool
	// Owner is the kind of owner that the entries' ID names.
	Owner ownership.Kind
	// Owned: a pod UID can be shown to own the sandbox.
	Owned bool
	// Entries are what the pools hold of it; Absent where that is nothing and nothing stands in its place.
	Entries release.Fact[Entries]
	// Record is the orphan's record; Absent where there is none.
	Record release.Fact[Record]
	// Addressed is the observation of a sandbox that a node has claimed, as of a pod that is gone; nil where the record has no
	// node name.
	Addressed *release.Observation
	// Asked is the query to all nodes that stands.
	Asked Asked
	// Room: there are queries about fewer orphans than there may be at once.
	Room bool
	// Nodes is every Node ever seen.
	Nodes release.Fact[[]Node]
	// Shown names a live pod whose network-status shows one of the addresses.
	Shown release.Fact[string]
	// Rival names a record that holds one of the addresses for another sandbox.
	Rival release.Fact[string]
	// Settings are the installation's delays.
	Settings Settings
}

// Settings are the delays that the table knows.
type Settings struct {
	ReleaseDelay, NodeGoneDelay time.Duration
	// HoldGoneNodes never takes the deletion of a Node object as proof.
	HoldGoneNodes bool
}

// Entries are what the pools hold of a sandbox.
type Entries struct {
	// Since is when the youngest was first seen; zero where nobody knows.
	Since time.Time
	// Unrecorded: the record lacks one of them.
	Unrecorded bool
	// Tombstone: one of them carries the tombstone of this very record: no pod can be given it, nor is it a pod's.
	Tombstone bool
	// TakenOver: none is left, but another sandbox has an address of the record by now, so that this one is still to be proven gone.
	TakenOver bool
}

// Record is what the orphan's record says.
type Record struct {
	// Claims are the nodes that report to have, or had, the sandbox, whatever the epoch: sandbox IDs never return.
	Claims []Claim
}

// Claim is the report of one node that a sandbox is, or was, its own.
type Claim struct {
	// NodeUID is the Node that claims.
	NodeUID types.UID
	// BootID is the boot of the machine in which its agent claimed.
	BootID string
	// NodeName is its name, by a live Node or by its GuardedNode; empty where neither is there.
	NodeName string
	// Live: a Node object of that UID is there.
	Live bool
	// PodUID is the pod with which the node has seen the sandbox; empty if it does not say.
	PodUID types.UID
	// Pod is that pod, where it is live; Absent where it is gone or not named.
	Pod release.Fact[string]
}
