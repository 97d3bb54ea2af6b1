// SPDX-License-Identifier: Apache-2.0

// Package nodes is a model of one GuardedNode object per Node registration and of the AllNodesQuery (docs/model.md): machines, Nodes,
// the manager that observes them and queries their agents, and the agents. Rules R1 to R12 are those of decision 0170.
package nodes
