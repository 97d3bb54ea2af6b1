// SPDX-License-Identifier: Apache-2.0

package release

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Query is a query to the agent of a Node, as its GuardedNode has it.
type Query struct {
	// SandboxID is the sandbox, or v1alpha1.AnySandbox.
	SandboxID string
	// NodeUID and BootID are the queried Node and its boot.
	NodeUID types.UID
	BootID  string
	// Epoch distinguishes this query from every other one to that Node.
	Epoch int64
	// Time is when it was made, by the manager's clock; persisted.
	Time time.Time
	// OutOfService: the Node was tainted out-of-service and not Ready when it was made.
	OutOfService bool
	// Rewrite: the pod used its addresses when it was made (row PodInUse).
	Rewrite bool
}

// Response is an agent's report on one sandbox, as the GuardedNode has it. See Counts.
type Response struct {
	SandboxID string
	// NodeUID and BootID are the Node for which the agent responds, and its boot.
	NodeUID types.UID
	BootID  string
	// Epoch is that of the query.
	Epoch   int64
	Verdict v1alpha1.Verdict
	// Reason explains the verdict; one PascalCase identifier.
	Reason string
	// Time is when the agent read its runtime, by the clock of the node; for messages only.
	Time time.Time
	// PodUID is the pod UID with which the agent saw the sandbox; empty if it never saw it.
	PodUID types.UID
	// SuccessorID is the only other sandbox of the pod UID that is not gone, empty if there are several; for AnySandbox it is one that is not gone.
	SuccessorID string
}

// Counts says whether a response is to this query, from the machine that was queried, which still has the node's name. The node has to be read
// after the response (docs/decisions/0073).
func Counts(query Query, response Response, node Node) bool {
	return response.SandboxID == query.SandboxID && response.Epoch == query.Epoch && query.Epoch > 0 &&
		query.NodeUID != "" && response.NodeUID == query.NodeUID && node.NodeUID == query.NodeUID &&
		query.BootID != "" && response.BootID == query.BootID && node.BootID == query.BootID
}

// Exchange is a query and the response to it; Absent if no agent is queried, or none has responded.
type Exchange struct {
	Query    Fact[Query]
	Response Fact[Response]
}

// exchange is the query about the sandbox and the response to it.
func (s *Sandbox) exchange() Exchange { return Exchange{Query: s.Query, Response: s.Response} }

// during drops a query from another part of the pod's life. A report from while the pod lived releases nothing after its termination: since then the
// kubelet may have created another sandbox with the same address.
func (e Exchange) during(living bool) Exchange {
	if e.Query.IsKnown() && e.Query.Get().Rewrite != living {
		return Exchange{Query: Absent[Query](), Response: Absent[Response]()}
	}
	return e
}

// Report is the response that counts; false if there is none.
func (e Exchange) Report(node Node) (Response, bool) {
	if !e.Query.IsKnown() || !e.Response.IsKnown() || !Counts(e.Query.Get(), e.Response.Get(), node) {
		return Response{}, false
	}
	return e.Response.Get(), true
}

// Responded is the response to this query, also if the Node has changed since; false if there is none.
func (e Exchange) Responded() (Response, bool) {
	return e.Report(Node{Machine: Machine{NodeUID: e.Query.Get().NodeUID, BootID: e.Query.Get().BootID}})
}

// gone says whether the report releases an address.
func (r Response) gone() bool { return r.Verdict == v1alpha1.VerdictReadyForRelease }

// unread says why the query or its response is not known; empty if both were read.
func (e Exchange) unread() string {
	switch {
	case !e.Query.IsRead():
		return "the query to its node could not be read: " + e.Query.Why()
	case !e.Response.IsRead():
		return "the response of its node could not be read: " + e.Response.Why()
	}
	return ""
}

// stands says whether the query is the one that is needed now: to this Node, in this boot, and with its present out-of-service taint.
func (e Exchange) stands(node Node, outOfService bool, now time.Time) bool {
	if !e.Query.IsKnown() {
		return false
	}
	query := e.Query.Get()
	if outOfService && query.Time.Before(node.OutOfServiceSince) && !node.OutOfServiceSince.After(now) {
		return false // it was made under an earlier taint
	}
	return query.NodeUID == node.NodeUID && query.BootID == node.BootID && query.OutOfService == outOfService
}

// NotResponding is why the agent of the node does not respond, by its GuardedNode; zero if that has no reason.
type NotResponding struct {
	Reason  v1alpha1.Reason
	Message string
}
