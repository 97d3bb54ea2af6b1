// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Facts are the facts about one sandbox without an owner, at one moment.
type Facts struct {
	// Evidence is the mode of the installation.
	Evidence release.Evidence
	// Live says that everything was read past the caches, in this order: the queries, the responses, the Nodes, the record, the pools.
	Live bool
	// Owner is the kind of owner of the entries, by their ID.
	Owner ownership.Kind
	// Owned: a pod UID can be shown to own the sandbox.
	Owned bool
	// Entries are its entries in the pools; Absent if there are none and no other sandbox has its addresses.
	Entries release.Fact[Entries]
	// Record is the record of the orphan; Absent without one.
	Record release.Fact[Record]
	// Addressed is the observation of a sandbox that a node has claimed, as for a deleted pod; nil if the record has no node name.
	Addressed *release.Observation
	// Query is the standing query to all nodes.
	Query Query
	// HasCapacity: there are fewer queries to all nodes than allowed.
	HasCapacity bool
	// Nodes are all machines that were ever seen as a Node.
	Nodes release.Fact[[]Node]
	// Shown names a live pod whose network-status shows one of the addresses.
	Shown release.Fact[string]
	// Rival names a record that holds one of the addresses for another sandbox.
	Rival release.Fact[string]
	// Settings are the installation's delays.
	Settings release.Settings
}

// Entries are the entries of a sandbox in the pools.
type Entries struct {
	// Since is when the youngest was first seen; zero if unknown.
	Since time.Time
	// Unrecorded: the record lacks one of them.
	Unrecorded bool
	// Tombstone: one of them has the tombstone of this record. No pod owns it, and none can be given it.
	Tombstone bool
	// TakenOver: none is left, but another sandbox has an address of the record, so this sandbox still has to be proven gone.
	TakenOver bool
}

// Record is the content of the orphan's record.
type Record struct {
	// DisownedBy is the pod UID that a query has to name; empty without one.
	DisownedBy types.UID
	// Claims are the nodes that report that they have, or had, the sandbox, in any epoch: sandbox IDs never return.
	Claims []Claim
}

// Claim is the report of one node that it has, or had, a sandbox.
type Claim struct {
	// NodeUID is the Node that claims.
	NodeUID types.UID
	// BootID is the boot of the machine in which its agent claimed.
	BootID string
	// NodeName is its name, by a live Node or by its GuardedNode; empty without either.
	NodeName string
	// Live: a Node object of that UID exists.
	Live bool
	// PodUID is the pod UID with which the node saw the sandbox; empty if unknown.
	PodUID types.UID
	// Pod is that pod if it is live; Absent if it is deleted or not named.
	Pod release.Fact[string]
}
