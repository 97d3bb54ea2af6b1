// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Seen is one machine that was seen as a Node, in the form in which it is persisted.
type Seen struct {
	// Name is the Node's name.
	Name string `json:"name"`
	// Node is the machine under its Node UID; empty fields are unknown.
	Node v1alpha1.NodeIdentity `json:"node"`
	// Gone is since when no Node object speaks for it; nil while one does, or nobody has looked yet.
	Gone *v1alpha1.NodeGone `json:"gone,omitempty"`
}

// Present is a Node object that is there now.
type Present struct {
	Name string
	release.Node
}

// Trace is what an agent's Lease, or the record of a pod, says of a Node that may be gone by now.
type Trace struct {
	Name string
	Node v1alpha1.NodeIdentity
}

// Inventory is every machine that was ever seen as a Node and is not proven gone, by its key.
type Inventory map[string]Seen

// keyLength is how much of a machine's hash distinguishes the machines of one Node UID.
const keyLength = 8

// KeyOf names a machine: a machine can be replaced under its Node UID, so that the UID alone does not do. A boot is no machine of its
// own. The key is a valid key of a ConfigMap.
func KeyOf(node v1alpha1.NodeIdentity) string {
	sum := sha256.Sum256([]byte(node.MachineID + "\x00" + node.SystemUUID))
	return string(node.UID) + "." + hex.EncodeToString(sum[:])[:keyLength]
}

// See adds a Node that is, or was, there; true if the inventory has changed. It never says that a machine is back: see Fold.
func (r Inventory) See(name string, node v1alpha1.NodeIdentity) bool {
	if node.UID == "" {
		return false
	}
	key := KeyOf(node)
	before, known := r[key]
	if known && before.Name == name && before.Node == node {
		return false
	}
	r[key] = Seen{Name: name, Node: node, Gone: before.Gone}
	return true
}

// Fold takes in every Node object that is there, and gives the keys of the machines for which none speaks; true if the inventory
// has changed. A machine that is back, under whatever Node object, is that Node's from then on.
func (r Inventory) Fold(live []Present, s Settings, now time.Time) (without []string, changed bool) {
	keys := make(map[string]bool, len(live))
	nodes := make([]release.Node, len(live))
	for i := range live {
		identity := live[i].Identity()
		nodes[i], nodes[i].Name = live[i].Node, live[i].Name
		changed = r.See(live[i].Name, identity) || changed
		keys[KeyOf(identity)] = true
	}
	for key, seen := range r {
		switch {
		case keys[key] && seen.Gone == nil:
		case keys[key]:
			seen.Gone = nil
			r[key] = seen
			changed = true
		case spokenFor(seen, nodes, s, now):
			delete(r, key)
			changed = true
		default:
			without = append(without, key)
		}
	}
	slices.Sort(without)
	return without, changed
}

// spokenFor: one of the live Nodes is that machine.
func spokenFor(seen Seen, live []release.Node, s Settings, now time.Time) bool {
	_, found := nodelife.Reporter(seen.Node, seen.Name, live, nodelife.Settings{NodeGoneDelay: s.NodeGoneDelay, HoldGoneNodes: s.HoldGoneNodes}, now)
	return found
}

// Remember adds the Nodes of traces that neither the inventory nor the live Nodes explain; true if there were any. What a trace does not
// say of its machine stays unknown.
func (r Inventory) Remember(traces []Trace, live []Present) bool {
	known := make(map[types.UID]bool, len(r)+len(live))
	for _, seen := range r {
		known[seen.Node.UID] = true
	}
	for i := range live {
		known[live[i].NodeUID] = true
	}
	changed := false
	for _, trace := range traces {
		if trace.Node.UID != "" && !known[trace.Node.UID] {
			changed = r.See(trace.Name, trace.Node) || changed
		}
	}
	return changed
}

// Forget removes the machines that are gone for good, but for those that a trace would bring back; true if there were any.
func (r Inventory) Forget(traces []Trace, s Settings, now time.Time) bool {
	traced := make(map[types.UID]bool, len(traces))
	for _, trace := range traces {
		traced[trace.Node.UID] = true
	}
	changed := false
	for key, seen := range r {
		n := seen.gone()
		if seen.Gone != nil && !traced[seen.Node.UID] && SilenceOf(&n, Asked{}, s, now) == Gone {
			delete(r, key)
			changed = true
		}
	}
	return changed
}

// Nodes are what Decide needs: every live Node, and every machine without one.
func (r Inventory) Nodes(live []Present, acknowledged map[string]Acknowledgement) []Node {
	nodes := make([]Node, 0, len(live)+len(r))
	present := make(map[string]bool, len(live))
	for i := range live {
		said := release.Absent[Acknowledgement]()
		if a, ok := acknowledged[live[i].Name]; ok {
			said = release.Known(a)
		}
		nodes = append(nodes, Node{Name: live[i].Name, Live: release.Known(live[i].Node), GoneSince: release.Absent[time.Time](), Acknowledged: said})
		present[KeyOf(live[i].Identity())] = true
	}
	for _, key := range slices.Sorted(maps.Keys(r)) {
		if !present[key] {
			nodes = append(nodes, r[key].gone())
		}
	}
	return nodes
}

func (s Seen) gone() Node {
	since := release.Absent[time.Time]()
	if s.Gone != nil {
		since = release.Known(s.Gone.Since.Time)
	}
	return Node{Name: s.Name, Live: release.Absent[release.Node](), GoneSince: since, Acknowledged: release.Absent[Acknowledgement]()}
}

// Find gives the machine of a Node UID in a boot; without that boot, the only machine of the UID.
func (r Inventory) Find(uid types.UID, bootID string) (Seen, bool) {
	var of []Seen
	for _, seen := range r {
		if seen.Node.UID != uid {
			continue
		}
		if seen.Node.BootID == bootID && bootID != "" {
			return seen, true
		}
		of = append(of, seen)
	}
	if len(of) != 1 {
		return Seen{}, false
	}
	return of[0], true
}
