// SPDX-License-Identifier: Apache-2.0

package nodelife

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// GoneSince is from when on a machine has been gone by every object that names it (R1), while Nodes were observed without a gap since acquired (R3);
// false while one of the objects does not say so.
func GoneSince(machine v1alpha1.NodeIdentity, objects []v1alpha1.GuardedNode, acquired time.Time) (since time.Time, gone bool) {
	since = acquired
	for i := range objects {
		for j := range objects[i].Spec.Machines {
			m := &objects[i].Spec.Machines[j]
			switch {
			case !isSame(m.Identity(types.UID(objects[i].Name)), machine):
				continue
			case m.Gone == nil || isFull(&objects[i]):
				return time.Time{}, false
			case m.Gone.Since.After(since):
				since = m.Gone.Since.Time
			}
			gone = true
		}
	}
	return since, gone
}

// OverSince is from when on nothing is left to the object: each of its machines has a successor, or is gone for the delay by all objects. It is the
// earliest moment at which the object may be deleted, if nothing else names its UID; false while that is unknown.
func OverSince(object *v1alpha1.GuardedNode, objects []v1alpha1.GuardedNode, acquired time.Time, s Settings) (over time.Time, ok bool) {
	if isFull(object) || (s.HoldGoneNodes && Gone(&object.Spec) > 0) {
		return time.Time{}, false
	}
	for i := range object.Spec.Machines {
		m := &object.Spec.Machines[i]
		if m.SuccessorUID != "" {
			continue
		}
		since, gone := GoneSince(m.Identity(types.UID(object.Name)), objects, acquired)
		if !gone {
			return time.Time{}, false
		}
		if end := since.Add(s.NodeGoneDelay); end.After(over) {
			over = end
		}
	}
	return over, true
}

func isFull(object *v1alpha1.GuardedNode) bool { return len(object.Spec.Machines) >= MaxMachines }

// NamedBy are the Node UIDs that a record names.
func NamedBy(record *v1alpha1.IPAllocation) []types.UID {
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

// MachinesOf are the machines that a record names under a Node UID.
func MachinesOf(record *v1alpha1.IPAllocation, uid types.UID) []v1alpha1.NodeIdentity {
	var machines []v1alpha1.NodeIdentity
	for i := range record.Spec.Sandboxes {
		if node := record.Spec.Sandboxes[i].Node; node != nil && node.UID == uid && !slices.Contains(machines, *node) {
			machines = append(machines, *node)
		}
	}
	return machines
}
