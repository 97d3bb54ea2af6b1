// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Queries are the queries about one record and the responses to them, from the GuardedNodes that were read.
type Queries struct {
	// Record is the record's name.
	Record string
	// Objects are the GuardedNodes that were read, and Unread says why one could not be; empty if all were.
	Objects []v1alpha1.GuardedNode
	Unread  string
	// Pending are the queries with an unwritten change. A standing query that is pending is not the one that is needed (R5).
	Pending map[QueryKey]bool
}

// QueriesIn are the queries about a record in all GuardedNodes.
func QueriesIn(objects release.Fact[[]v1alpha1.GuardedNode], record string) Queries {
	q := Queries{Record: record, Objects: objects.Get()}
	if !objects.IsRead() {
		q.Unread = objects.Why()
	}
	return q
}

// QueryKey identifies a query about one record.
type QueryKey struct {
	NodeUID   types.UID
	SandboxID string
}

// About are the query about a sandbox and the response to it, preferably of one Node: a machine may have been queried under an earlier Node UID.
// Without a query there the response of another Node's agent does not count: each can respond about any sandbox in its own object.
func (q *Queries) About(sandboxID string, node types.UID) release.Exchange {
	if q.Unread != "" {
		return release.Exchange{Query: release.Unknown[release.Query](q.Unread), Response: release.Unknown[release.Response](q.Unread)}
	}
	best := release.Exchange{Query: release.Absent[release.Query](), Response: release.Absent[release.Response]()}
	for _, own := range []bool{true, false} {
		for i := range q.Objects {
			if (q.Objects[i].Name == string(node)) != own {
				continue
			}
			switch e := q.in(&q.Objects[i], sandboxID); {
			case e.Query.IsKnown():
				return e
			case own:
				best = e
			}
		}
	}
	return best
}

// in are the query and response in one object. A pending query does not count.
func (q *Queries) in(object *v1alpha1.GuardedNode, sandboxID string) release.Exchange {
	found := release.Exchange{Query: release.Absent[release.Query](), Response: release.Absent[release.Response]()}
	uid := types.UID(object.Name)
	for i := range object.Spec.Queries {
		if s := &object.Spec.Queries[i]; s.Record == q.Record && s.SandboxID == sandboxID && !q.Pending[QueryKey{uid, sandboxID}] {
			found.Query = release.Known(queryOf(uid, s))
		}
	}
	for i := range object.Status.Responses {
		if r := &object.Status.Responses[i]; r.Record == q.Record && r.SandboxID == sandboxID {
			found.Response = release.Known(responseOf(uid, r))
		}
	}
	return found
}

// Last is the newest response to a standing query about a sandbox or, without one, the newest of all; false without any.
func (q *Queries) Last(sandboxID string) (last release.Response, found bool) {
	stands := false
	for i := range q.Objects {
		e := q.in(&q.Objects[i], sandboxID)
		_, responded := e.Responded()
		switch r := e.Response.Get(); {
		case !e.Response.IsKnown() || (stands && !responded):
		case !found || (responded && !stands) || r.Time.After(last.Time):
			last, found, stands = r, true, responded
		}
	}
	return last, found
}

// Epoch is that of the query about a sandbox in a GuardedNode, pending or not; zero without one.
func (q *Queries) Epoch(node types.UID, sandboxID string) int64 {
	for i := range q.Objects {
		if q.Objects[i].Name != string(node) {
			continue
		}
		for _, s := range q.Objects[i].Spec.Queries {
			if s.Record == q.Record && s.SandboxID == sandboxID {
				return s.Epoch
			}
		}
	}
	return 0
}

// Redo makes those queries pending that name another pod than they have to, if the response to them would release the address or, where none is to be
// named, holds it for another sandbox of the named one.
func (q *Queries) Redo(disownedBy types.UID) {
	for i := range q.Objects {
		for _, s := range q.Objects[i].Spec.Queries {
			key := QueryKey{types.UID(q.Objects[i].Name), s.SandboxID}
			if s.Record != q.Record || s.DisownedBy == disownedBy {
				continue
			}
			given := q.in(&q.Objects[i], s.SandboxID).Response.Get()
			forAnother := disownedBy == "" && given.Reason == string(v1alpha1.ReasonSandboxReplaced) && given.PodUID == ""
			if forAnother || given.Verdict != v1alpha1.VerdictDoNotRelease {
				if q.Pending == nil {
					q.Pending = map[QueryKey]bool{}
				}
				q.Pending[key] = true
			}
		}
	}
}

// All are the keys of the standing queries about the record.
func (q *Queries) All() []QueryKey {
	var keys []QueryKey
	for i := range q.Objects {
		for _, s := range q.Objects[i].Spec.Queries {
			if key := (QueryKey{types.UID(q.Objects[i].Name), s.SandboxID}); s.Record == q.Record && !q.Pending[key] {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// NotResponding is why the agent of a Node does not respond, by the condition of its GuardedNode.
func (q *Queries) NotResponding(node types.UID) release.NotResponding {
	for i := range q.Objects {
		c := meta.FindStatusCondition(q.Objects[i].Status.Conditions, v1alpha1.RespondingCondition)
		if q.Objects[i].Name == string(node) && c != nil && c.Status == metav1.ConditionFalse {
			return release.NotResponding{Reason: v1alpha1.Reason(c.Reason), Message: c.Message}
		}
	}
	return release.NotResponding{}
}

// hasSeen says whether the agent of a Node saw a sandbox of the record with the pod UID.
func (q *Queries) hasSeen(node types.UID, sandboxID string, pod types.UID) bool {
	return slices.ContainsFunc(q.Objects, func(object v1alpha1.GuardedNode) bool {
		return object.Name == string(node) && slices.ContainsFunc(object.Status.Responses, func(r v1alpha1.SandboxResponse) bool {
			return r.Record == q.Record && r.SandboxID == sandboxID && r.PodUID == pod
		})
	})
}

func queryOf(node types.UID, q *v1alpha1.SandboxQuery) release.Query {
	return release.Query{SandboxID: q.SandboxID, NodeUID: node, BootID: q.BootID, Epoch: q.Epoch, Time: q.Time.Time, OutOfService: q.OutOfService,
		Rewrite: q.Purpose == v1alpha1.PurposeRewrite}
}

func responseOf(node types.UID, r *v1alpha1.SandboxResponse) release.Response {
	return release.Response{SandboxID: r.SandboxID, NodeUID: node, BootID: r.BootID, Epoch: r.Epoch, Verdict: r.Verdict, Reason: r.Reason, Time: r.Time.Time,
		PodUID: r.PodUID, SuccessorID: r.SuccessorID}
}
