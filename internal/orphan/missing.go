// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// namedNodes is how many nodes of each kind a message names.
const namedNodes = 3

// kinds are the states that do not prove that a node lacks the sandbox, in the order of a message.
var kinds = []struct {
	state NodeState
	what  string
}{
	{NoAgent, "of which no agent has responded"},
	{NotAcknowledged, "not through with the query yet"},
	{OtherBoot, "of which the agent has not responded in this boot"},
	{NotGoneYet, "of which the Node object is gone, but not for long enough without a sign that its machine is alive"},
	{GoneHeld, "of which the Node object is gone, which is no proof here (delays.nodeGoneAction: Hold)"},
	{Unread, "of which nothing could be read"},
}

// missing counts the nodes that may have the sandbox, and names the first few of each kind.
func missing(f *Facts, now time.Time) (int, string) {
	names := map[NodeState][]string{}
	all := 0
	nodes := f.Nodes.Get()
	for i := range nodes {
		if state := StateOf(&nodes[i], f.Query, f.Settings, now); !state.ProvesAbsence() {
			names[state] = append(names[state], nodes[i].Name)
			all++
		}
	}
	var parts []string
	for _, kind := range kinds {
		if of := names[kind.state]; len(of) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", len(of), kind.what, few(of)))
		}
	}
	return all, fmt.Sprintf("%d of %d nodes are missing: %s", all, len(nodes), strings.Join(parts, ", "))
}

func few(names []string) string {
	slices.Sort(names)
	text := strings.Join(names[:min(len(names), namedNodes)], ", ")
	if more := len(names) - namedNodes; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
