// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"time"

	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Nodes are what Decide needs: every live Node, with what its agent acknowledges, and every machine that no Node reports.
func Nodes(machines *nodelife.Lifecycle, acknowledged map[string]Acknowledgement, now time.Time) []Node {
	nodes := make([]Node, 0, len(machines.Nodes))
	for i := range machines.Nodes {
		n := Node{Name: machines.Nodes[i].Name, Live: release.Known(machines.Nodes[i]), GoneSince: release.Absent[time.Time](), Acknowledged: release.Absent[Acknowledgement]()}
		if a, found := acknowledged[n.Name]; found {
			n.Acknowledged = release.Known(a)
		}
		nodes = append(nodes, n)
	}
	for _, machine := range machines.Unreported(now) {
		nodes = append(nodes, GoneNode(machine.NodeName, machine.Since))
	}
	return nodes
}

// GoneNode is a machine that no Node reports, gone since then.
func GoneNode(name string, since time.Time) Node {
	return Node{Name: name, Live: release.Absent[release.Node](), GoneSince: release.Known(since), Acknowledged: release.Absent[Acknowledgement]()}
}
