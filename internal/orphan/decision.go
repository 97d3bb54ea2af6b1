// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Row names a row of the decision table, which is the package comment.
type Row string

// The rows, in the order of the table.
const (
	RowOwnerFound           Row = "OwnerFound"
	RowObservationFailed    Row = "ObservationFailed"
	RowNoAddresses          Row = "NoAddresses"
	RowAwaitOwner           Row = "AwaitOwner"
	RowNotRecorded          Row = "NotRecorded"
	RowEntryNotRecorded     Row = "EntryNotRecorded"
	RowClaimedByNode        Row = "ClaimedByNode"
	RowNotQueried           Row = "NotQueried"
	RowConflictingClaims    Row = "ConflictingClaims"
	RowQueryAllNodes        Row = "QueryAllNodes"
	RowAwaitDeletedNodes    Row = "AwaitDeletedNodes"
	RowAwaitAcknowledgments Row = "AwaitAcknowledgments"
	RowOwnerNamedByNode     Row = "OwnerNamedByNode"
	RowQueryOneNode         Row = "QueryOneNode"
	RowAbsentOnAllNodes     Row = "AbsentOnAllNodes"
)

// Rows are all rows, in the order of the table.
var Rows = []Row{
	RowOwnerFound, RowObservationFailed, RowNoAddresses, RowAwaitOwner, RowNotRecorded, RowEntryNotRecorded, RowClaimedByNode, RowNotQueried,
	RowConflictingClaims, RowQueryAllNodes, RowAwaitDeletedNodes, RowAwaitAcknowledgments, RowOwnerNamedByNode, RowQueryOneNode, RowAbsentOnAllNodes,
}

// Action is what is to be done. The zero value is invalid.
type Action string

// The actions.
const (
	// Wait: nothing is done; After says when to decide again without an event.
	Wait Action = "Wait"
	// Drop: the record is deleted, if there is one.
	Drop Action = "Drop"
	// Adopt: the entries of the pools are written into the record. Queries are about the sandbox, so those that stand remain.
	Adopt Action = "Adopt"
	// QueryAll: every node is queried, in the next epoch.
	QueryAll Action = "QueryAll"
	// Attribute: the entries are moved into the record of the pod of Claim.
	Attribute Action = "Attribute"
	// Address: the record gets the node of Claim, and only that node is queried from then on.
	Address Action = "Address"
	// Confirm: the claimant is queried, as internal/release says.
	Confirm Action = "Confirm"
	// Reread: every fact is read live and decided again.
	Reread Action = "Reread"
	// Release: the entries are removed from their pools; then the record is deleted.
	Release Action = "Release"
)

// Decision is what Decide concludes.
type Decision struct {
	// Row is the row of the table that decided.
	Row Row
	// Action is what is to be done.
	Action Action
	// Reason is the reason in event, condition, metric and log.
	Reason v1alpha1.Reason
	// Message explains the decision to the user, and what would end a wait.
	Message string
	// After is the time until the decision can change without an event; zero for never.
	After time.Duration
	// Claim is the claim that Attribute and Address are about.
	Claim Claim
	// OutOfService: the query of a Confirm is to a Node with the out-of-service taint.
	OutOfService bool
	// Proven: the sandbox is gone, and only another use of its addresses holds them.
	Proven bool
}

// IsUsual says whether every orphan that is reclaimed comes to this row, or may.
func (d *Decision) IsUsual() bool {
	switch d.Row {
	case RowNotRecorded, RowEntryNotRecorded, RowQueryAllNodes, RowAwaitDeletedNodes, RowAwaitAcknowledgments:
		return true
	default:
		return false
	}
}

func wait(row Row, reason v1alpha1.Reason, after time.Duration, format string, args ...any) Decision {
	return Decision{Row: row, Action: Wait, Reason: reason, After: after, Message: fmt.Sprintf(format, args...)}
}
