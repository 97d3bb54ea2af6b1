// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Row names a row of the decision table, which is the package comment.
type Row string

// The rows, in the order of the table.
const (
	RowPodInUse                 Row = "PodInUse"
	RowObservationFailed        Row = "ObservationFailed"
	RowUnclassified             Row = "Unclassified"
	RowPodCompleted             Row = "PodCompleted"
	RowNeverScheduled           Row = "NeverScheduled"
	RowNoAddresses              Row = "NoAddresses"
	RowMachineUnknown           Row = "MachineUnknown"
	RowAddressConflict          Row = "AddressConflict"
	RowPossibleClone            Row = "PossibleClone"
	RowSandboxReplaced          Row = "SandboxReplaced"
	RowNodeDeleted              Row = "NodeDeleted"
	RowNodeReplaced             Row = "NodeReplaced"
	RowNodeOutOfService         Row = "NodeOutOfService"
	RowTerminatedAfterDeletion  Row = "TerminatedAfterDeletion"
	RowGracePeriod              Row = "GracePeriod"
	RowAwaitRuntimeReport       Row = "AwaitRuntimeReport"
	RowTerminatedBeforeDeletion Row = "TerminatedBeforeDeletion"
	RowNodeNotReady             Row = "NodeNotReady"
	RowAwaitKubeletReport       Row = "AwaitKubeletReport"
	RowMayBeStarting            Row = "MayBeStarting"
)

// Rows are all rows, in the order of the table.
var Rows = []Row{
	RowPodInUse, RowObservationFailed, RowUnclassified, RowPodCompleted, RowNeverScheduled, RowNoAddresses, RowMachineUnknown, RowAddressConflict,
	RowPossibleClone, RowSandboxReplaced, RowNodeDeleted, RowNodeReplaced, RowNodeOutOfService, RowTerminatedAfterDeletion, RowGracePeriod,
	RowAwaitRuntimeReport, RowTerminatedBeforeDeletion, RowNodeNotReady, RowAwaitKubeletReport, RowMayBeStarting,
}

// Action is what is to be done. The zero value is invalid.
type Action string

// The actions.
const (
	// Wait: nothing yet; After says when to look again even if no event comes.
	Wait Action = "Wait"
	// Keep: the pod uses its addresses; the record is kept true.
	Keep Action = "Keep"
	// Reread: to be decided again, with every fact read live.
	Reread Action = "Reread"
	// Confirm: the agent of the node that was observed is queried about Sandboxes.
	Confirm Action = "Confirm"
	// Release: the entries of Sandboxes go back to their pools; then everything is read again.
	Release Action = "Release"
	// Unprotect: our finalizer comes off, by UID, and the record goes.
	Unprotect Action = "Unprotect"
	// Disown: nothing but the moment of their ADD, or their name, ties Sandboxes to the pod, and its node never had them. Their addresses are an
	// orphan's from then on, about which every node is queried.
	Disown Action = "Disown"
	// Drop: Sandboxes are proven gone, and later ones of the pod have their addresses: the record forgets them, and no pool is written.
	Drop Action = "Drop"
	// Rewrite: the entries of Sandboxes that the pod shows are given to their Successors, in the pool.
	Rewrite Action = "Rewrite"
)

// Decision is what Decide concludes.
type Decision struct {
	// Row is the row of the table that decided.
	Row Row
	// Action is what is to be done.
	Action Action
	// Intended is, for a Reread, what would be done if the facts prove to be so.
	Intended Action
	// Reason is the word for event, condition, metric and log.
	Reason v1alpha1.Reason
	// Message says to a person what was found and what would end a wait.
	Message string
	// After is how long until time alone could change the decision; zero when only an event can.
	After time.Duration
	// Sandboxes are the IDs that Release, Confirm, Disown, Drop or Rewrite is about; v1alpha1.AnySandbox stands for every one of the pod UID.
	Sandboxes []string
	// OutOfService: the query of a Confirm is to a Node that is tainted out-of-service.
	OutOfService bool
	// Successors are, for Rewrite, the sandboxes that came in the place of Sandboxes.
	Successors map[string]string
	// Queried: a Keep with a standing query. A Keep without it needs none, and queries are withdrawn.
	Queried bool
	// Withheld is the Release or the Disown that mode Shadow only reports. The decision is that on the pod without its sandboxes.
	Withheld *Decision
	// Then is, for a Confirm, what there is to wait for once the queries are sent: a Wait or a Keep.
	Then *Decision
	// Readdress: the same machine registered a new Node object; the record takes its UID.
	Readdress bool
}

func wait(row Row, reason v1alpha1.Reason, after time.Duration, format string, args ...any) Decision {
	return Decision{Row: row, Action: Wait, Reason: reason, After: after, Message: fmt.Sprintf(format, args...)}
}

func unprotect(row Row, reason v1alpha1.Reason, message string) Decision {
	return Decision{Row: row, Action: Unprotect, Reason: reason, Message: message}
}
