// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Facts are what was read, in this order.
type Facts struct {
	// Cluster identifies the cluster: the UID of its namespace kube-system.
	Cluster types.UID
	// Time is when the first read began.
	Time time.Time
	// Entries and Problems are those of all pools.
	Entries  []ipam.Entry
	Problems []ipam.Problem
	// Pods are all that may have an address of a guarded IPAM: those that name networks, show addresses or are guarded.
	Pods []Pod
	// Records are all IPAllocations.
	Records []v1alpha1.IPAllocation
	// GuardedNodes have the queries about them, and the responses.
	GuardedNodes []v1alpha1.GuardedNode
	// Nodes are all Node objects; NodesUnread is why they could not be read.
	Nodes       []corev1.Node
	NodesUnread string
	// Managed are the networks ("namespace/name") of an IPAM whose pools were read. In another one, two nodes may give the same address to
	// their pods by intent.
	Managed sets.Set[string]
	// Manager are the facts of the manager's audit: entries, reservations and slices against what live pods show.
	Manager ipamaudit.Facts
	// Policies are the NodeResourcePolicies, with what their sweeps found.
	Policies []v1alpha1.NodeResourcePolicy
	// Claims are the ResourceClaims by UID, as "namespace/name"; read only where an entry has a UID for its ID.
	Claims release.Fact[map[types.UID]string]
	// Unserved are types that the API server certainly does not serve: there is none of them.
	Unserved inspect.Unserved
	// Unread are further reads that failed, in sentences; what they would have shown is missing from the report.
	Unread []string
}

// Pod is what an audit keeps of a pod.
type Pod struct {
	Ref  ipam.PodRef
	UID  types.UID
	Node string
	// Deleting and Ended (a terminal phase, which any client may have written); a pod that is neither is live.
	Deleting, Ended bool
	// Guarded: it has the finalizer. Running: its phase is Running.
	Guarded, Running bool
	// Shown are the addresses in its network-status; Unreadable: that cannot be read.
	Shown      []podnetwork.StatusAddress
	Unreadable bool
}

func (p *Pod) live() bool { return !p.Deleting && !p.Ended }

// isComplete: it runs, and its network-status has its addresses.
func (p *Pod) isComplete() bool { return p.Running && p.live() && len(p.Shown) > 0 && !p.Unreadable }

// shows reports whether the network-status has an address on an interface; old versions of whereabouts recorded no interface.
func (p *Pod) shows(ip netip.Addr, iface string) bool {
	return slices.ContainsFunc(p.Shown, func(s podnetwork.StatusAddress) bool {
		return s.IP == ip && (iface == "" || s.Interface == "" || s.Interface == iface)
	})
}
