// SPDX-License-Identifier: Apache-2.0

package nodelife

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Unreported is a machine that once reported, or that a record has, and that no Node reports now.
type Unreported struct {
	// NodeName is the name of the Node that reported the machine last.
	NodeName string
	// Machine is the machine under the UID of that Node; without any ID, every machine of the UID.
	Machine v1alpha1.NodeIdentity
	// Absence is since when it is gone. Only live reads confirm that the delay is over.
	Absence
}

// Unreported are the machines of all objects and notes that no Node reports.
func (l *Lifecycle) Unreported(now time.Time) []Unreported {
	live := make(map[types.UID]v1alpha1.NodeIdentity, len(l.Nodes))
	for i := range l.Nodes {
		live[l.Nodes[i].NodeUID] = l.Nodes[i].Identity()
	}
	var all []Unreported
	add := func(name string, machine v1alpha1.NodeIdentity) {
		if own, isThere := live[machine.UID]; isThere && own == machine {
			return
		}
		if _, found := Reporter(machine, name, l.Nodes, l.Settings, now); !found {
			all = append(all, Unreported{NodeName: name, Machine: machine, Absence: l.absence(machine, now)})
		}
	}
	for i := range l.Objects {
		object := &l.Objects[i]
		for j := range object.Spec.Machines {
			add(object.Spec.NodeName, object.Spec.Machines[j].Identity(types.UID(object.Name)))
		}
		if IsFull(object) { // there may be a further machine, which no Node can be shown to report
			machine := v1alpha1.NodeIdentity{UID: types.UID(object.Name)}
			all = append(all, Unreported{NodeName: object.Spec.NodeName, Machine: machine, Absence: Absence{Since: now}})
		}
	}
	for _, machine := range l.Unwritten {
		if !slices.ContainsFunc(all, func(u Unreported) bool { return u.Machine == machine }) {
			add(string(machine.UID), machine)
		}
	}
	return all
}

func (l *Lifecycle) absence(machine v1alpha1.NodeIdentity, now time.Time) Absence {
	if l.Read.IsZero() {
		return l.Since([]v1alpha1.NodeIdentity{machine}, now)
	}
	return l.Gone([]v1alpha1.NodeIdentity{machine}, now)
}

// MachineIn is the machine of an object in a boot; without that boot, its only machine.
func MachineIn(object *v1alpha1.GuardedNode, bootID string) (machine v1alpha1.NodeIdentity, found bool) {
	machines := object.Spec.Machines
	at := slices.IndexFunc(machines, func(m v1alpha1.GuardedMachine) bool { return bootID != "" && m.BootID == bootID })
	if at < 0 && len(machines) == 1 {
		at = 0
	}
	if at < 0 {
		return v1alpha1.NodeIdentity{}, false
	}
	return machines[at].Identity(types.UID(object.Name)), true
}
