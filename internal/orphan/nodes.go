// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Nodes gives the nodes for Decide: every live Node, and every machine that no Node reports, each with the response of the agent of its Node UID. Of
// machines with one boot ID under one Node UID, which are clones, it is not known which one responded: it counts for none of them.
func Nodes(machines *nodelife.Lifecycle, acknowledged map[types.UID]Acknowledgement, now time.Time) []Node {
	type boot struct {
		node types.UID
		id   string
	}
	nodes := make([]Node, 0, len(machines.Nodes))
	in := map[boot][]int{}
	add := func(n Node) {
		n.Acknowledged = release.Absent[Acknowledgement]()
		if a, found := acknowledged[n.UID]; found {
			n.Acknowledged = release.Known(a)
		}
		in[boot{n.UID, n.BootID}] = append(in[boot{n.UID, n.BootID}], len(nodes))
		nodes = append(nodes, n)
	}
	for i := range machines.Nodes {
		node := machines.Nodes[i]
		add(Node{Name: node.Name, UID: node.NodeUID, BootID: node.BootID, Live: release.Known(node), GoneSince: release.Absent[time.Time]()})
	}
	for _, gone := range machines.Unreported(now) {
		add(Node{Name: gone.NodeName, UID: gone.Machine.UID, BootID: gone.Machine.BootID, Live: release.Absent[release.Node](), GoneSince: release.Known(gone.Since)})
	}
	for _, same := range in {
		for _, i := range same[1:] {
			nodes[i].Acknowledged, nodes[same[0]].Acknowledged = release.Absent[Acknowledgement](), release.Absent[Acknowledgement]()
		}
	}
	return nodes
}
