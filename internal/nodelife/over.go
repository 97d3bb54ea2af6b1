// SPDX-License-Identifier: Apache-2.0

package nodelife

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// goneSince is since when a machine is gone by every object that has it (R1); false if it is not gone by one of them.
func goneSince(machine v1alpha1.NodeIdentity, objects []v1alpha1.GuardedNode) (since time.Time, gone bool) {
	for i := range objects {
		for j := range objects[i].Spec.Machines {
			m := &objects[i].Spec.Machines[j]
			switch {
			case !mayBe(machine, m.Identity(types.UID(objects[i].Name))):
				continue
			case m.Gone == nil || IsFull(&objects[i]):
				return time.Time{}, false
			case m.Gone.Since.After(since):
				since = m.Gone.Since.Time
			}
			gone = true
		}
	}
	return since, gone
}

// IsFull says whether the object may lack a further machine.
func IsFull(object *v1alpha1.GuardedNode) bool { return len(object.Spec.Machines) >= MaxMachines }

// NamedBy are the Node UIDs in a record, which may be nil.
func NamedBy(record *v1alpha1.IPAllocation) []types.UID {
	if record == nil {
		return nil
	}
	var uids []types.UID
	add := func(uid types.UID) {
		if uid != "" && !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	for i := range record.Spec.Sandboxes {
		if node := record.Spec.Sandboxes[i].Node; node != nil {
			add(node.UID)
		}
	}
	if report := record.Spec.Kubelet; report != nil && report.Node != nil {
		add(report.Node.UID)
	}
	add(record.Spec.AliveNodeUID)
	return uids
}

// MachinesOf are the machines that a record has under a Node UID.
func MachinesOf(record *v1alpha1.IPAllocation, uid types.UID) []v1alpha1.NodeIdentity {
	var machines []v1alpha1.NodeIdentity
	for i := range record.Spec.Sandboxes {
		if node := record.Spec.Sandboxes[i].Node; node != nil && node.UID == uid && !slices.Contains(machines, *node) {
			machines = append(machines, *node)
		}
	}
	return machines
}
