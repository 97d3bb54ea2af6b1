// SPDX-License-Identifier: Apache-2.0

package ownership

import "regexp"

// Kind is what kind of owner the sandbox ID of an IPAM entry names. The zero value is invalid and counts as KindUnknown.
type Kind uint8

// The kinds.
const (
	// KindUnknown: no container runtime makes such an ID, and Holdfast knows no other kind of owner that has it.
	KindUnknown Kind = iota + 1
	// KindSandbox: a pod sandbox, as containerd and CRI-O name it.
	KindSandbox
	// KindResourceClaim: the ID is a UID, as a DRA network driver writes that of the ResourceClaim.
	KindResourceClaim
)

// String is the kind's name, as in messages.
func (k Kind) String() string {
	switch k {
	case KindSandbox:
		return "Sandbox"
	case KindResourceClaim:
		return "ResourceClaim"
	default:
		return "Unknown"
	}
}

var (
	runtimeID = regexp.MustCompile(`^[0-9a-f]{64}$`)
	objectUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// KindOf classifies the owner of an entry by its sandbox ID alone: the podref is a name, and names never identify.
func KindOf(sandboxID string) Kind {
	switch {
	case runtimeID.MatchString(sandboxID):
		return KindSandbox
	case objectUID.MatchString(sandboxID):
		return KindResourceClaim
	}
	return KindUnknown
}
