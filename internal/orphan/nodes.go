// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Nodes gives the nodes for Decide: every live Node, with the response of its agent, and every machine that no Node reports.
func Nodes(machines *nodelife.Lifecycle, acknowledged map[types.UID]Acknowledgement, now time.Time) []Node {
	nodes := make([]Node, 0, len(machines.Nodes))
	for i := range machines.Nodes {
		n := Node{Name: machines.Nodes[i].Name, Live: release.Known(machines.Nodes[i]), GoneSince: release.Absent[time.Time](), Acknowledged: release.Absent[Acknowledgement]()}
		if a, found := acknowledged[machines.Nodes[i].NodeUID]; found {
			n.Acknowledged = release.Known(a)
		}
		nodes = append(nodes, n)
	}
	for _, machine := range machines.Unreported(now) {
		nodes = append(nodes, Node{Name: machine.NodeName, Live: release.Absent[release.Node](), GoneSince: release.Known(machine.Since),
			Acknowledged: release.Absent[Acknowledgement]()})
	}
	return nodes
}
