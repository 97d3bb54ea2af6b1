// SPDX-License-Identifier: Apache-2.0

package nodelife

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Reporter finds the live Node of a machine that was seen as a Node of that name. If only the boot of the machine is known, it is the Node of its name in
// that boot; if nothing is known, the Node of its UID. A resembling Node may be a clone: it counts as the machine once it has been registered for the
// delay, as the only Node with the IDs (docs/decisions/0127).
func Reporter(machine v1alpha1.NodeIdentity, name string, live []release.Node, s release.Settings, now time.Time) (release.Node, bool) {
	hasHardware := machine.MachineID != "" || machine.SystemUUID != ""
	at := slices.IndexFunc(live, func(n release.Node) bool {
		relation := release.Compare(release.MachineOf(machine), n.Machine)
		switch {
		case relation == release.Resembling:
			return !s.HoldGoneNodes && !now.Before(n.Registered.Add(s.NodeGoneDelay)) && isOnly(n, live)
		case relation != release.Replaced:
			return true
		case isUnknown(machine):
			return machine.UID == n.NodeUID
		}
		return !hasHardware && machine.BootID == n.BootID && name == n.Name
	})
	if at < 0 {
		return release.Node{}, false
	}
	return live[at], true
}

// isOnly says whether no other live Node has the machine's IDs, which clones of one template share.
func isOnly(n release.Node, live []release.Node) bool {
	return !slices.ContainsFunc(live, func(other release.Node) bool {
		return other.NodeUID != n.NodeUID && other.MachineID == n.MachineID && other.SystemUUID == n.SystemUUID
	})
}

// Keys are the lookup keys of a machine, or of a Node that may be it: machines with a common key may be one. Identities without any ID have the key of
// their UID.
func Keys(machine v1alpha1.NodeIdentity) []string {
	var keys []string
	if machine.MachineID != "" || machine.SystemUUID != "" {
		keys = append(keys, "machine "+machine.MachineID+" "+machine.SystemUUID)
	}
	if machine.BootID != "" {
		keys = append(keys, "boot "+machine.BootID)
	}
	if len(keys) == 0 {
		keys = append(keys, "node "+string(machine.UID))
	}
	return keys
}

// KeysOf are the keys of all machines of an object.
func KeysOf(object *v1alpha1.GuardedNode) []string {
	var machines []v1alpha1.NodeIdentity
	for i := range object.Spec.Machines {
		machines = append(machines, object.Spec.Machines[i].Identity(types.UID(object.Name)))
	}
	return KeysOfAll(machines)
}

// KeysOfAll are the keys of several machines.
func KeysOfAll(machines []v1alpha1.NodeIdentity) []string {
	var keys []string
	for _, machine := range machines {
		for _, key := range Keys(machine) {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// isSame says whether two identities may be those of one machine, in the same boot or in another one. Unknown is possible.
func isSame(a, b v1alpha1.NodeIdentity) bool {
	hasHardware := a.MachineID != "" || a.SystemUUID != ""
	switch {
	case hasHardware && a.MachineID == b.MachineID && a.SystemUUID == b.SystemUUID, a.BootID != "" && a.BootID == b.BootID:
		return true
	}
	return isUnknown(a) && isUnknown(b) && a.UID == b.UID
}

// find is the index of a machine, in any boot, in a list of machines of a Node UID. An entry without any ID is the machine that reports next.
func find(machines []v1alpha1.GuardedMachine, wanted v1alpha1.NodeIdentity) int {
	at := slices.IndexFunc(machines, func(m v1alpha1.GuardedMachine) bool {
		return release.Compare(release.MachineOf(m.Identity(wanted.UID)), release.MachineOf(wanted)) != release.Replaced
	})
	if at < 0 {
		at = slices.IndexFunc(machines, func(m v1alpha1.GuardedMachine) bool { return isUnknown(m.Identity("")) })
	}
	return at
}

func isUnknown(machine v1alpha1.NodeIdentity) bool {
	return machine.MachineID == "" && machine.SystemUUID == "" && machine.BootID == ""
}
