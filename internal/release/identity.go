// SPDX-License-Identifier: Apache-2.0

package release

// Relation says what the live Node is to the machine that was recorded for a sandbox. The zero value is invalid.
type Relation uint8

// The relations.
const (
	// SameMachine: the same boot of the same machine under the same Node object.
	SameMachine Relation = iota + 1
	// Reregistered: the same boot of the same machine under a new Node object.
	Reregistered
	// Rebooted: the same machine with another boot ID; nothing of the old boot lives.
	Rebooted
	// Replaced: another machine, or one that cannot be shown to be the same.
	Replaced
)

// Compare relates the recorded machine to the live one (rows 7 to 9). IDs that are empty on both sides leave the Node UID
// alone to decide; an ID that is empty on one side only cannot be shown to be the same.
func Compare(recorded, live Machine) Relation {
	sameHardware := recorded.MachineID == live.MachineID && recorded.SystemUUID == live.SystemUUID
	named := recorded.MachineID != "" && recorded.SystemUUID != ""
	sameBoot := recorded.BootID == live.BootID
	sameUID := recorded.NodeUID == live.NodeUID && recorded.NodeUID != ""
	switch {
	case sameHardware && sameBoot && sameUID:
		return SameMachine
	case sameHardware && named && recorded.BootID != "" && live.BootID != "" && !sameBoot:
		return Rebooted
	case sameHardware && named && sameBoot && recorded.BootID != "":
		return Reregistered
	default:
		return Replaced
	}
}
