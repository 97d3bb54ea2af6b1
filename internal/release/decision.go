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
	// Wait: nothing is done; After says when to decide again without an event.
	Wait Action = "Wait"
	// Keep: the pod uses its addresses; the record is kept up to date.
	Keep Action = "Keep"
	// Reread: every fact is read live and decided again.
	Reread Action = "Reread"
	// Confirm: the agent of the observed Node is queried about Sandboxes.
	Confirm Action = "Confirm"
	// Release: the entries of Sandboxes are removed from their pools; then everything is read again.
	Release Action = "Release"
	// Unprotect: the finalizer is removed, by UID, and the record is deleted.
	Unprotect Action = "Unprotect"
	// Disown: only the time of their ADD, or their name, ties Sandboxes to the pod, and its node never had them. Their addresses become those of
	// an orphan, about which every node is queried.
	Disown Action = "Disown"
	// Drop: Sandboxes are proven gone, and others have their addresses: they are removed from the record, and no pool is written.
	Drop Action = "Drop"
	// Rewrite: the pool entries of Sandboxes that the pod shows are given to their Successors.
	Rewrite Action = "Rewrite"
)

// Decision is what Decide concludes.
type Decision struct {
	// Row is the row of the table that decided.
	Row Row
	// Action is what is to be done.
	Action Action
	// Intended is, for a Reread, the action if live reads confirm the facts.
	Intended Action
	// Reason is the reason in event, condition, metric and log.
	Reason v1alpha1.Reason
	// Message explains the decision to the user, and what would end a wait.
	Message string
	// After is the time until the decision can change without an event; zero for never.
	After time.Duration
	// Sandboxes are the IDs for Release, Confirm, Disown, Drop or Rewrite; v1alpha1.AnySandbox means every sandbox of the pod UID.
	Sandboxes []string
	// OutOfService: the query of a Confirm is to a Node with the out-of-service taint.
	OutOfService bool
	// Successors are, for Rewrite, the sandboxes that replaced Sandboxes.
	Successors map[string]string
	// Queried: a Keep that needs its standing query. The queries of any other Keep are withdrawn.
	Queried bool
	// Withheld is the Release or Disown that mode Shadow only reports. The decision is then that on the pod without those sandboxes.
	Withheld *Decision
	// Then is, for a Confirm, the decision once the queries are made: a Wait or a Keep.
	Then *Decision
	// Readdress: the same machine registered a new Node object, whose UID the record gets.
	Readdress bool
}

// IsFailure says whether the message of a reason is the error of something that is tried again. It may differ at each try, so a condition keeps the first.
func IsFailure(reason v1alpha1.Reason) bool {
	return reason == v1alpha1.ReasonObservationFailed || reason == v1alpha1.ReasonReleaseFailed || reason == v1alpha1.ReasonUnprotectFailed
}

func wait(row Row, reason v1alpha1.Reason, after time.Duration, format string, args ...any) Decision {
	return Decision{Row: row, Action: Wait, Reason: reason, After: after, Message: fmt.Sprintf(format, args...)}
}

func unprotect(row Row, reason v1alpha1.Reason, message string) Decision {
	return Decision{Row: row, Action: Unprotect, Reason: reason, Message: message}
}
