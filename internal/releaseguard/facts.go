// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Write is one write of a pool, with everything that is known about it.
type Write struct {
	// Backend is the name of the pool's backend, and Pool the pool as "namespace/name", both as in records.
	Backend, Pool string
	// Writer is the client.
	Writer Writer
	// ReconcilerShared: the IPAM's reconciler runs in the DaemonSet's pods, under their tokens.
	ReconcilerShared bool
	// Agents: the nodes' agents report whether a sandbox is gone.
	Agents bool
	// Adds: the write also records an entry at an offset that was free.
	Adds bool
	// Nodes are live Nodes by name. A name that is missing was not read.
	Nodes map[string]release.Fact[release.Node]
	// Cases are the removals.
	Cases []Case
}

// Writer is the client that writes. Its zero value is trusted with nothing.
type Writer struct {
	// User is the user name, for messages.
	User string
	// Manager: it is the manager's own account.
	Manager bool
	// CNIUser: it is an identity that the administrator trusts to run CNI DEL on any node.
	CNIUser bool
	// DaemonSetPod is the pod to which the writer's token is bound, where that is a pod of a trusted DaemonSet; Absent
	// where it is not, or the token is bound to none.
	DaemonSetPod release.Fact[DaemonSetPod]
}

// DaemonSetPod is a pod that runs CNI DEL on its own node.
type DaemonSetPod struct {
	Name, NodeName string
	// ReconcilerShared: by its images, the IPAM's reconciler may run in it too.
	ReconcilerShared bool
}

// Case is one removal and what is known of the address.
type Case struct {
	Removal
	// Address is Absent where the offset stands for none, and Unknown where that could not be read.
	Address release.Fact[netip.Addr]
	// Pod is the live pod of the reference; Absent where there is none or the reference is a tombstone, Unknown also where
	// the reference names nothing.
	Pod release.Fact[Pod]
	// First: this process saw the entry come, in a pool that it watched without a gap, in the place of no other sandbox of the pod.
	First bool
	// Claim is the live ResourceClaim whose UID the sandbox ID is; read only for such IDs. Unknown also where claims are not served.
	Claim release.Fact[Claim]
	// Records are the live records of the reference, of its tombstone and of the sandbox. Absent and empty are the same.
	Records release.Fact[[]v1alpha1.IPAllocation]
}

// Claim is a ResourceClaim that owns an address.
type Claim struct {
	// Name is "namespace/name".
	Name string
	// NodeName is the node for which its devices are allocated; empty where that is none, or not one alone.
	NodeName string
}

// Pod is what must be known of the live pod of a reference.
type Pod struct {
	UID      types.UID
	NodeName string
	// Deleting: deletionTimestamp is set.
	Deleting bool
	// Held: the pod carries our finalizer, so that a record is due.
	Held bool
	// Ending is what its object shows of its end.
	Ending release.Ending
	// Begun is when it was bound, or was made where no time of the binding is known.
	Begun time.Time
}

// holds reports whether a record holds the case's pool, address and sandbox. If the address is unknown, pool and
// sandbox alone decide.
func (w *Write) holds(record *v1alpha1.IPAllocation, c *Case) bool {
	for i := range record.Spec.Addresses {
		a := &record.Spec.Addresses[i]
		if a.Backend != w.Backend || a.Pool != w.Pool || a.SandboxID != c.SandboxID {
			continue
		}
		if !c.Address.IsKnown() || a.IP == c.Address.Get().String() {
			return true
		}
	}
	return false
}

// HoldsAll reports whether a record holds every entry of a reference that the write removes.
func (w *Write) HoldsAll(record *v1alpha1.IPAllocation, podRef string) bool {
	return !slices.ContainsFunc(w.Cases, func(c Case) bool { return c.PodRef == podRef && !w.holds(record, &c) })
}

// holders are the records that hold the case's entry.
func (w *Write) holders(c *Case) []*v1alpha1.IPAllocation {
	var found []*v1alpha1.IPAllocation
	records := c.Records.Get()
	for i := range records {
		if w.holds(&records[i], c) {
			found = append(found, &records[i])
		}
	}
	return found
}

// machines are the machines that records name for a sandbox, each with the name of its node.
func machines(records []v1alpha1.IPAllocation, sandboxID string) []located {
	var found []located
	for i := range records {
		for j := range records[i].Spec.Sandboxes {
			s := &records[i].Spec.Sandboxes[j]
			if s.ID != sandboxID || s.Node == nil {
				continue
			}
			found = append(found, located{node: records[i].Spec.NodeName, machine: release.MachineOf(*s.Node)})
		}
	}
	return found
}

// located is a recorded machine and the name of its node, empty if the record has none.
type located struct {
	node    string
	machine release.Machine
}

// NodeNames are the names of the Nodes that Judge needs, as far as pods and records are known: sorted, each once.
func (w *Write) NodeNames() []string {
	names := sets.New[string]()
	for i := range w.Cases {
		names.Insert(w.Cases[i].Pod.Get().NodeName, w.Cases[i].Claim.Get().NodeName)
		records := w.Cases[i].Records.Get()
		for j := range records {
			names.Insert(records[j].Spec.NodeName)
		}
	}
	return sets.List(names.Delete(""))
}

// ForgetNodes forgets the Nodes of pods that have ended: only a Node that is read after its pod shows which kubelet ended it (release.EndedUnder).
func (w *Write) ForgetNodes() {
	for i := range w.Cases {
		if pod := w.Cases[i].Pod.Get(); pod.Ending.ByKubelet() {
			delete(w.Nodes, pod.NodeName)
		}
	}
}

// LikelyNodeNames are the names of Nodes that Judge probably asks for: a CNI DEL is about pods on the node of its writer. They can be read beside
// pods and records.
func (w *Write) LikelyNodeNames() []string {
	if !w.Writer.DaemonSetPod.IsKnown() {
		return nil
	}
	return []string{w.Writer.DaemonSetPod.Get().NodeName}
}
