// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Response is the agent's response in a boot to a query about one sandbox; nil for none. Without a new verdict the given one stays, of any
// epoch: a later agent reads from it what was seen. An agent on an out-of-service node that cannot read its runtime shows that the node is
// not off, so its response holds the address.
func Response(q v1alpha1.SandboxQuery, w Outcome, given *v1alpha1.SandboxResponse, boot string, now time.Time) *v1alpha1.SandboxResponse {
	if given != nil && Final(q, *given) {
		return given
	}
	if w.Kind == NoResponse && q.OutOfService && Foreign(q, boot) == "" {
		w.Kind, w.Verdict, w.Time = Decided, v1alpha1.VerdictDoNotRelease, now
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
			return given // a new list alone is no reason to write
		}
	}
	return &next
}

// Finding is the outcome of one query to all nodes.
type Finding struct {
	SandboxID string
	Epoch     int64
	Outcome
}

// AllNodesFindings are the findings for the queries of the AllNodesQuery, as it was before the list of the runtime began.
type AllNodesFindings struct {
	UID        types.UID
	Generation int64
	Findings   []Finding
}

// Respond gives the response of a node in a boot; listed is when the list began. due says whether the response differs from the standing one
// in more than times. The withdrawal of a query without a claim is no reason to write.
//
// Its generation is the one before the first query without an outcome: sandbox IDs never return, so a query that was done once stays done.
// Claims of an earlier boot stand, because the node that had a sandbox is the one to query about it.
func (q *AllNodesFindings) Respond(standing *v1alpha1.AllNodesResponse, bootID string, listed time.Time) (next v1alpha1.AllNodesResponse, due bool) {
	var before v1alpha1.AllNodesResponse
	if standing != nil {
		before = *standing
	}
	done := int64(0)
	if before.UID == q.UID && before.BootID == bootID {
		done = before.Generation
	}
	next = v1alpha1.AllNodesResponse{UID: q.UID, Generation: q.Generation, BootID: bootID, Time: metav1.NewTime(listed)}
	for i := range q.Findings {
		f := &q.Findings[i]
		claim, isNew := f.claim(before.Claims, bootID)
		switch {
		case claim != nil:
			next.Claims = append(next.Claims, *claim)
			due = due || isNew
		case f.Kind != NoClaim && f.Epoch > done:
			next.Generation = min(next.Generation, f.Epoch-1)
		}
	}
	next.Generation = max(next.Generation, done)
	due = due || len(next.Claims) != len(before.Claims) || slices.ContainsFunc(q.Findings, func(f Finding) bool {
		return f.Epoch > done && f.Epoch <= next.Generation
	})
	return next, due
}

// claim is the claim that follows from a finding, or the earlier one; nil for none.
func (f *Finding) claim(before []v1alpha1.SandboxClaim, bootID string) (claim *v1alpha1.SandboxClaim, isNew bool) {
	at := slices.IndexFunc(before, func(c v1alpha1.SandboxClaim) bool { return c.SandboxID == f.SandboxID })
	if at >= 0 {
		claim = &before[at]
	}
	if f.Kind == NoClaim && claim != nil && claim.PodUID == "" && claim.Reason == string(v1alpha1.ReasonSandboxReplaced) {
		return nil, false // it was for another sandbox of the pod, which is gone
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
