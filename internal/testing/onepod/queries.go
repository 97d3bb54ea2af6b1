// SPDX-License-Identifier: Apache-2.0

package onepod

import (
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Wanted are queries that passes want (controllers/queries).
type Wanted interface {
	Subscribe(changed func(node types.UID))
	Next(node types.UID, standing []v1alpha1.SandboxQuery, next int64, now time.Time, isNeeded func(*v1alpha1.SandboxQuery) bool) (queries []v1alpha1.SandboxQuery, done func())
}

// Wants has WriteQueries write what is wanted.
func (f *World) Wants(wanted Wanted) {
	f.wanted = wanted
	wanted.Subscribe(func(node types.UID) {
		if !slices.Contains(f.queried, node) {
			f.queried = append(f.queried, node)
		}
	})
}

// StandingQuery is a query in the GuardedNode of a Node UID.
type StandingQuery struct {
	NodeUID types.UID
	v1alpha1.SandboxQuery
}

// Gone is the GuardedNode of the pod's machine, with a response to a query that the pod's sandbox is gone.
func Gone() *v1alpha1.GuardedNode {
	at := metav1.NewTime(Now.Add(-30 * time.Minute))
	return &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Generation: 1},
		Spec: v1alpha1.GuardedNodeSpec{NodeName: "node", Queries: []v1alpha1.SandboxQuery{
			{Record: "old", SandboxID: "old-sandbox", BootID: "m1-boot", Epoch: 1, Purpose: v1alpha1.PurposeRelease, Time: at}}},
		Status: v1alpha1.GuardedNodeStatus{Responses: []v1alpha1.SandboxResponse{
			{Record: "old", SandboxID: "old-sandbox", BootID: "m1-boot", Epoch: 1, Verdict: v1alpha1.VerdictReadyForRelease,
				Reason: string(v1alpha1.ReasonSandboxAbsent), Time: at}}}}
}

// WriteQueries writes what passes want into the GuardedNodes, in place of controllers/node. Every query that stands is needed.
func (f *World) WriteQueries() {
	f.Helper()
	queried := f.queried
	f.queried = nil
	for _, uid := range queried {
		object := &v1alpha1.GuardedNode{}
		err := f.Truth.Get(f.Context(), client.ObjectKey{Name: string(uid)}, object)
		if client.IgnoreNotFound(err) != nil {
			f.Fatal(err)
		}
		object.Name = string(uid)
		next, done := f.wanted.Next(uid, object.Spec.Queries, object.Generation+1, f.Clock.Now(), func(*v1alpha1.SandboxQuery) bool { return true })
		object.Spec.Queries = next
		object.Generation++ // the fake client counts none
		if apierrors.IsNotFound(err) {
			err = f.Truth.Create(f.Context(), object)
		} else {
			err = f.Truth.Update(f.Context(), object)
		}
		if err != nil {
			f.Fatal(err)
		}
		done()
	}
}

// QueriesAbout are the queries about a record that stand, in all GuardedNodes.
func (f *World) QueriesAbout(record string) []StandingQuery {
	f.Helper()
	var found []StandingQuery
	for _, object := range f.guardedNodes() {
		for _, q := range object.Spec.Queries {
			if q.Record == record {
				found = append(found, StandingQuery{types.UID(object.Name), q})
			}
		}
	}
	return found
}

// Respond has the agents that are queried about a sandbox respond to the queries that stand.
func (f *World) Respond(record, sandboxID string, verdict v1alpha1.Verdict, reason v1alpha1.Reason, pod types.UID) {
	f.Helper()
	isQueried := false
	for _, object := range f.guardedNodes() {
		for _, q := range object.Spec.Queries {
			if q.Record != record || q.SandboxID != sandboxID {
				continue
			}
			isQueried = true
			object.Status.Responses = slices.DeleteFunc(object.Status.Responses, func(r v1alpha1.SandboxResponse) bool { return r.Record == record && r.SandboxID == sandboxID })
			object.Status.Responses = append(object.Status.Responses, v1alpha1.SandboxResponse{Record: record, SandboxID: sandboxID, Epoch: q.Epoch, BootID: q.BootID,
				Verdict: verdict, Reason: string(reason), PodUID: pod, SuccessorID: f.Successor, Time: metav1.NewTime(f.Clock.Now())})
			if err := f.Truth.Update(f.Context(), &object); err != nil {
				f.Fatal(err)
			}
		}
	}
	if !isQueried {
		f.Fatalf("no node is queried about sandbox %s of record %s", sandboxID, record)
	}
}

func (f *World) guardedNodes() []v1alpha1.GuardedNode {
	f.Helper()
	var objects v1alpha1.GuardedNodeList
	if err := f.Truth.List(f.Context(), &objects); err != nil {
		f.Fatal(err)
	}
	return objects.Items
}
