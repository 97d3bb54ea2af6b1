// SPDX-License-Identifier: Apache-2.0

package release

// Relation is the relation of the live Node to the machine that was recorded for a sandbox. The zero value is invalid.
type Relation uint8

// The relations.
const (
	// SameMachine: the same boot of the same machine under the same Node object.
	SameMachine Relation = iota + 1
	// Reregistered: the same boot of the same machine under a new Node object.
	Reregistered
	// Rebooted: the same machine with another boot ID under the same Node object; no process of the old boot is left.
	Rebooted
	// Resembling: the same machine ID and system UUID in another boot under another Node object. It is the machine after a reboot, or a clone with
	// the IDs of its template (docs/decisions/0127).
	Resembling
	// Replaced: another machine, or one that cannot be shown to be the same.
	Replaced
)

// Compare relates the recorded machine to the live one (docs/decisions/0127). A boot ID is random and identifies a boot of a machine. If machine IDs
// are empty on both sides, the boot ID decides, and if that is empty too, the Node UID. An ID that is empty on one side does not match.
func Compare(recorded, live Machine) Relation {
	hardware, boot := sameHardware(recorded, live), recorded.BootID == live.BootID
	switch {
	case !hardware:
		return Replaced
	case boot && recorded.NodeUID == live.NodeUID && recorded.NodeUID != "":
		return SameMachine
	case boot && recorded.BootID != "":
		return Reregistered
	case recorded.MachineID == "" || recorded.SystemUUID == "" || recorded.BootID == "" || live.BootID == "":
		return Replaced
	case recorded.NodeUID != live.NodeUID:
		return Resembling
	default:
		return Rebooted
	}
}

// IsShown says whether the machine is shown to be the recorded one.
func (r Relation) IsShown() bool { return r == SameMachine || r == Reregistered || r == Rebooted }

func sameHardware(recorded, live Machine) bool {
	return recorded.MachineID == live.MachineID && recorded.SystemUUID == live.SystemUUID
}
