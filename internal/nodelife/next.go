// SPDX-License-Identifier: Apache-2.0

package nodelife

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// MaxMachines is the number of machines that a GuardedNode can have. A full one may lack further machines, so that none of it counts as gone.
const MaxMachines = 16

// Observation is the state of one Node UID at one moment.
type Observation struct {
	UID types.UID
	// Spec is that of the present GuardedNode; zero without one.
	Spec v1alpha1.GuardedNodeSpec
	// NodeName is the name of the Node that has, or had, the UID; for a new object.
	NodeName string
	// Seen are the machines that reported under the UID since the object was last written, the oldest first. Their Node may be deleted by now.
	Seen []v1alpha1.NodeIdentity
	// Named are the machines that records have under the UID.
	Named []v1alpha1.NodeIdentity
	// Live are the Nodes with a common key with one of the machines, or with the UID.
	Live []release.Node
	// Kubelet has the signs of the kubelet with the node's name; Absent if another Node has the name, and unread if they were not needed.
	Kubelet release.Fact[Kubelet]
	// Unwatched: the signs of the kubelet were not read for so long that it may have written unseen.
	Unwatched bool
	Settings  release.Settings
}

// Keys are the lookup keys of the Nodes that may report one of the machines.
func (o *Observation) Keys() []string {
	keys := KeysOf(&v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: string(o.UID)}, Spec: o.Spec})
	for _, machine := range slices.Concat(o.Seen, o.Named) {
		keys = append(keys, Keys(machine)...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Next is the GuardedNode as it has to be. Without a machine no new one is created.
func Next(o *Observation, now time.Time) v1alpha1.GuardedNodeSpec {
	spec := *o.Spec.DeepCopy()
	if spec.NodeName == "" {
		spec.NodeName = o.NodeName
	}
	live := slices.SortedFunc(slices.Values(o.Live), o.order)
	for _, machine := range o.Seen {
		report(&spec, machine, now)
	}
	if len(live) > 0 && live[0].NodeUID == o.UID {
		spec.NodeName = cmp.Or(spec.NodeName, live[0].Name)
		report(&spec, live[0].Identity(), now)
	}
	for _, machine := range o.Named {
		if isKnown := find(spec.Machines, machine) >= 0 || isUnknown(machine) && len(spec.Machines) > 0; !isKnown && len(spec.Machines) < MaxMachines {
			spec.Machines = append(spec.Machines, entryOf(v1alpha1.GuardedMachine{FirstSeenTime: RoundUp(now)}, machine))
		}
	}
	for i := range spec.Machines {
		o.judge(&spec, &spec.Machines[i], live, now)
	}
	return spec
}

// order puts the Node of the UID first, and the others in a stable order.
func (o *Observation) order(a, b release.Node) int {
	if isOwn := a.NodeUID == o.UID; isOwn != (b.NodeUID == o.UID) {
		return map[bool]int{true: -1, false: 1}[isOwn]
	}
	return cmp.Compare(a.NodeUID, b.NodeUID)
}

// report puts the machine that the Node reports first in the object, unless the object is full. It was alive then, so a delay begins again. A report without
// any ID, as of a new Node, counts as the machine that reports next.
func report(spec *v1alpha1.GuardedNodeSpec, machine v1alpha1.NodeIdentity, now time.Time) {
	if isUnknown(machine) && len(spec.Machines) > 0 {
		return
	}
	entry := v1alpha1.GuardedMachine{FirstSeenTime: RoundUp(now)}
	if at := find(spec.Machines, machine); at >= 0 {
		entry = spec.Machines[at]
		entry.Gone = nil
		spec.Machines = slices.Delete(spec.Machines, at, at+1)
	} else if len(spec.Machines) == MaxMachines {
		return
	}
	spec.Machines = slices.Insert(spec.Machines, 0, entryOf(entry, machine))
}

func entryOf(entry v1alpha1.GuardedMachine, machine v1alpha1.NodeIdentity) v1alpha1.GuardedMachine {
	entry.MachineID, entry.SystemUUID, entry.BootID = machine.MachineID, machine.SystemUUID, machine.BootID
	return entry
}

// judge says which other Node reports a machine, or since when none does.
func (o *Observation) judge(spec *v1alpha1.GuardedNodeSpec, machine *v1alpha1.GuardedMachine, live []release.Node, now time.Time) {
	reporter, found := Reporter(machine.Identity(o.UID), spec.NodeName, live, o.Settings, now)
	switch {
	case found && reporter.NodeUID == o.UID:
		machine.SuccessorUID, machine.Gone = "", nil
	case found:
		machine.SuccessorUID, machine.Gone = reporter.NodeUID, nil
	default:
		machine.SuccessorUID, machine.Gone = "", o.gone(machine.Gone, now)
	}
}

// gone gives since when a machine is gone. A write of the kubelet restarts the time, and so does a gap in the reads of its signs.
func (o *Observation) gone(before *v1alpha1.MachineGone, now time.Time) *v1alpha1.MachineGone {
	seen := o.Kubelet.Get()
	fresh := &v1alpha1.MachineGone{Since: RoundUp(now), LeaseRenewTime: seen.LeaseRenewed, KubeletWriteTime: seen.Wrote}
	switch {
	case before == nil:
		return fresh
	case !o.Kubelet.IsKnown():
		return before
	}
	if fresh.Liveness = seen.LivenessSince(KubeletOf(before)); fresh.Liveness == "" && !o.Unwatched {
		return before
	}
	return fresh
}

// Drops says whether a later object lacks a machine of an earlier one. The manager never removes one.
func Drops(before, after *v1alpha1.GuardedNode) bool {
	return slices.ContainsFunc(before.Spec.Machines, func(m v1alpha1.GuardedMachine) bool {
		identity := m.Identity(types.UID(before.Name))
		return find(after.Spec.Machines, identity) < 0 && !isUnknown(identity)
	})
}

// Gone is how many machines of the object are gone.
func Gone(spec *v1alpha1.GuardedNodeSpec) int {
	gone := 0
	for i := range spec.Machines {
		if spec.Machines[i].Gone != nil {
			gone++
		}
	}
	return gone
}
