// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Action is what is to be done. The zero value is invalid.
type Action uint8

// The actions.
const (
	// Wait: nothing yet; After says when to look again even if no event comes.
	Wait Action = iota + 1
	// Drop: the record goes, if there is one.
	Drop
	// Adopt: what the pools hold is written into the record, and every earlier question is void.
	Adopt
	// Ask: the next epoch is asked of every node.
	Ask
	// Attribute: the entries are written into the record of the pod of Claim, and the orphan's goes.
	Attribute
	// Address: the record gets the node of Claim, and the next epoch is asked of it alone.
	Address
	// Confirm: the claimant is asked, as internal/release says.
	Confirm
	// Reread: the same question again, with every fact read live.
	Reread
	// Release: the entries go back to their pools; then the record goes.
	Release
)

// String is the action's name, as in logs and metrics.
func (a Action) String() string {
	names := [...]string{Wait: "Wait", Drop: "Drop", Adopt: "Adopt", Ask: "Ask", Attribute: "Attribute", Address: "Address",
		Confirm: "Confirm", Reread: "Reread", Release: "Release"}
	if int(a) < len(names) && names[a] != "" {
		return names[a]
	}
	return fmt.Sprintf("Action(%d)", uint8(a))
}

// Decision is what Decide concludes.
type Decision struct {
	// Row is the row of the table that decided.
	Row int
	// Action is what is to be done.
	Action Action
	// Reason is the word for event, condition, metric and log.
	Reason v1alpha1.Reason
	// Message says to a person what was found and what would end a wait.
	Message string
	// After is how long until time alone could change the decision; zero when only an event can.
	After time.Duration
	// Claim is the claim that Attribute and Address are about.
	Claim Claim
	// Missing is how many nodes have not acknowledged (row 12).
	Missing int
	// Fence: a Confirm is to be asked because the node was declared dead.
	Fence bool
}

func wait(row int, reason v1alpha1.Reason, after time.Duration, format string, args ...any) Decision {
	return Decision{Row: row, Action: Wait, Reason: reason, After: after, Message: fmt.Sprintf(format, args...)}
}
