// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Orphans configures how addresses of unknown owners are reclaimed. With evidence Kubelet they are held.
type Orphans struct {
	// MaxQueries is how many orphans all nodes are queried about at once, 1 to 1000. Every agent reads each of them, and a round takes
	// delays.sandboxCreationMax and more. Default: 1000.
	MaxQueries *int32 `json:"maxQueries,omitempty"`
}

const (
	// AgentNamespace is that of the agents' DaemonSet (config/agent). Policies name it too.
	AgentNamespace = "holdfast-agent"
	// DefaultMaxQueries is the most that an AllNodesQuery holds: 130 KB (docs/decisions/0298).
	DefaultMaxQueries int32 = 1000
)
