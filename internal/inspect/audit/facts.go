// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"net/netip"
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
	// Cluster tells the cluster from all others: the UID of its namespace kube-system.
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
	// Nodes are all Node objects; NodesUnread says why they could not be read.
	Nodes       []corev1.Node
	NodesUnread string
	// Managed are the networks ("namespace/name") whose IPAM is one of those whose pools were read. In another one, two nodes may give
	// the same address to pods of theirs by intent.
	Managed sets.Set[string]
	// Books are what the manager's own audit compares: entries, reservations and slices against what live pods show.
	Books ipamaudit.Facts
	// Policies are the NodeResourcePolicies, with what their sweeps found.
	Policies []v1alpha1.NodeResourcePolicy
	// Claims are the ResourceClaims by UID, as "namespace/name"; read only where an entry has a UID for its ID.
	Claims release.Fact[map[types.UID]string]
	// Unserved are types that the API server does not serve, for certain: there is none of them.
	Unserved inspect.Unserved
	// Unread are further reads that failed, in sentences; what they would have shown is missing from the report.
	Unread []string
}

// Pod is what an audit keeps of a pod.
type Pod struct {
	Ref  ipam.PodRef
	UID  types.UID
	Node string
	// Deleting and Ended (a terminal phase, whoever wrote it); a pod that is neither is live.
	Deleting, Ended bool
	// Guarded says that our finalizer is on it.
	Guarded bool
	// Running: its phase is Running.
	Running bool
	Shown   []podnetwork.StatusAddress
	// Unreadable says that its network-status cannot be read.
	Unreadable bool
}

func (p *Pod) live() bool { return !p.Deleting && !p.Ended }

// tells: it runs, and its network-status says which addresses it has.
func (p *Pod) tells() bool { return p.Running && p.live() && len(p.Shown) > 0 && !p.Unreadable }

// shows says whether the pod's network-status shows an address on an interface; old versions of whereabouts recorded none.
func (p *Pod) shows(ip netip.Addr, iface string) bool {
	for i := range p.Shown {
		if p.Shown[i].IP == ip && (iface == "" || p.Shown[i].Interface == "" || p.Shown[i].Interface == iface) {
			return true
		}
	}
	return false
}
