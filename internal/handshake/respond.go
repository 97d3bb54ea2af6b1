// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Response is that of the agent in a boot to a query about one sandbox; nil for none. Without a new word the one that was given stays, of whatever epoch:
// it says what a later agent needs to know of the sandbox. Where the runtime of an out-of-service node cannot be read, the agent is alive all the same, so
// that the node is not off: its response holds the address.
func Response(q v1alpha1.SandboxQuery, w Outcome, given *v1alpha1.SandboxResponse, boot string, now time.Time) *v1alpha1.SandboxResponse {
	if given != nil && Final(q, *given) {
		return given
	}
	if w.Kind == NoResponse && q.OutOfService && Foreign(q, boot) == "" {
		w.Kind, w.Verdict, w.Time = Answer, v1alpha1.VerdictDoNotRelease, now
		if given != nil && given.BootID == boot {
			w.PodUID = given.PodUID
		}
	}
	if w.Kind != Decided {
		return given
	}
	next := v1alpha1.SandboxResponse{Record: q.Record, SandboxID: q.SandboxID, Epoch: q.Epoch, BootID: boot, Verdict: w.Verdict, Reason: string(w.Reason),
		PodUID: w.PodUID, SuccessorID: w.SuccessorID, Time: metav1.NewTime(w.Time)}
	if given != nil {
		again := next
		if again.Time = given.Time; again == *given {
			return given // the time of the list behind a response is no news
		}
	}
	return &next
}

// Finding is what a list of the runtime shows for a query to all nodes.
type Finding struct {
	SandboxID string
	Epoch     int64
	Outcome
}

// AllNodesFindings are the findings for the queries of the AllNodesQuery, as they stood before the list of the runtime began.
type AllNodesFindings struct {
	UID        types.UID
	Generation int64
	Findings   []Finding
}

// Respond gives the response of a node in a boot; listed is when the list began. It follows from the response that stands, and due says whether it differs
// from that in anything but times: nothing has to be written because queries were withdrawn that claimed nothing.
//
// The generation is that before the first query that is not settled: sandbox IDs never return, so what was settled once stays so. Claims of an earlier boot
// stand, because a node that had a sandbox is the one to query about it.
func (q *AllNodesFindings) Respond(standing *v1alpha1.AllNodesResponse, bootID string, listed time.Time) (next v1alpha1.AllNodesResponse, due bool) {
	var before v1alpha1.AllNodesResponse
	if standing != nil {
		before = *standing
	}
	settled := int64(0)
	if before.UID == q.UID && before.BootID == bootID {
		settled = before.Generation
	}
	next = v1alpha1.AllNodesResponse{UID: q.UID, Generation: q.Generation, BootID: bootID, Time: metav1.NewTime(listed)}
	for i := range q.Findings {
		f := &q.Findings[i]
		claim, isNew := f.claim(before.Claims, bootID)
		switch {
		case claim != nil:
			next.Claims = append(next.Claims, *claim)
			due = due || isNew
		case f.Kind != NoClaim && f.Epoch > settled:
			next.Generation = min(next.Generation, f.Epoch-1)
		}
	}
	next.Generation = max(next.Generation, settled)
	due = due || len(next.Claims) != len(before.Claims) || slices.ContainsFunc(q.Findings, func(f Finding) bool {
		return f.Epoch > settled && f.Epoch <= next.Generation
	})
	return next, due
}

// claim is what the node claims by a finding, or claimed before; nil for nothing.
func (f *Finding) claim(before []v1alpha1.SandboxClaim, bootID string) (claim *v1alpha1.SandboxClaim, isNew bool) {
	at := slices.IndexFunc(before, func(c v1alpha1.SandboxClaim) bool { return c.SandboxID == f.SandboxID })
	if at >= 0 {
		claim = &before[at]
	}
	if f.Kind != Decided {
		return claim, false
	}
	found := v1alpha1.SandboxClaim{SandboxID: f.SandboxID, PodUID: f.PodUID, BootID: bootID, Reason: string(f.Reason), Time: metav1.NewTime(f.Time)}
	if claim != nil {
		if found.Time = claim.Time; found == *claim {
			return claim, false
		}
		found.Time = metav1.NewTime(f.Time)
	}
	return &found, true
}
