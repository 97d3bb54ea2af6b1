// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// at is a list that began at an offset from the start and took a second.
func at(offset time.Duration, sandboxes ...Sandbox) Look {
	return Look{Listing: &Listing{Began: start.Add(offset), Ended: start.Add(offset + time.Second), Sandboxes: sandboxes}}
}

// withTasks adds tasks to a look.
func withTasks(look Look, ids ...string) Look {
	look.Listing.Tasks.IDs = map[string]bool{}
	for _, id := range ids {
		look.Listing.Tasks.IDs[id] = true
	}
	return look
}

// owned adds a task that shows to be a sandbox of the pod.
func owned(look Look, id string) Look {
	look.Listing.Tasks.Pods = map[string]types.UID{id: web.UID}
	return look
}

// stray adds a container without its sandbox to a look.
func stray(look Look, id string) Look {
	look.Listing.Strays = map[string]Stray{id: {NotExited: 1}}
	return look
}

// labeled is stray with the kubelet's label of the pod on the container.
func labeled(look Look, id string) Look {
	look.Listing.Strays = map[string]Stray{id: {NotExited: 1, Pod: web.UID}}
	return look
}

// blind is a look that could not read the tasks.
func blind(look Look) Look {
	look.Listing.Tasks.Problem = "there is no such folder"
	return look
}

var failure = Look{Failure: Failure{Reason: v1alpha1.ReasonRuntimeUnreachable}}

func TestMemory(t *testing.T) {
	query := Query{SandboxID: id, Seen: start}
	there := Sandbox{ID: id, Pod: web, State: StateReady}
	unloaded := withTasks(at(time.Second), id)
	cases := map[string]struct {
		queries []Query
		looks   []Look
		want    Recollection
	}{
		"nothing was seen": {want: Recollection{}},
		"a sandbox that was listed is remembered with its pod, without a query too": {
			looks: []Look{at(0, there)}, want: Recollection{Pod: web, Listed: true}},
		"it is remembered after it was removed": {
			looks: []Look{at(0, there), at(time.Minute)}, want: Recollection{Pod: web, Listed: true}},
		"and through failed lists": {
			looks: []Look{at(0, there), failure, at(time.Minute)}, want: Recollection{Pod: web, Listed: true}},
		"another pod under the ID is a clash from then on": {
			looks: []Look{at(0, there), at(1, Sandbox{ID: id, Pod: other}), at(2, there)}, want: Recollection{Pod: web, Listed: true, Clash: true}},
		"a day after its last list it is forgotten": {
			looks: []Look{at(0, there), at(25 * time.Hour)}, want: Recollection{}},
		"absence counts from the end of the first list after the query was seen": {
			queries: []Query{query}, looks: []Look{at(time.Second), at(time.Minute)}, want: Recollection{AbsentSince: start.Add(2 * time.Second)}},
		"a list from before the query was seen does not count": {
			queries: []Query{query}, looks: []Look{at(-time.Second), at(time.Minute)}, want: Recollection{AbsentSince: start.Add(time.Minute + time.Second)}},
		"absence without a query does not count": {
			looks: []Look{at(0), at(time.Minute)}, want: Recollection{}},
		"a failed list ends the sequence": {
			queries: []Query{query}, looks: []Look{at(0), failure}, want: Recollection{}},
		"and the next list begins another one": {
			queries: []Query{query}, looks: []Look{at(0), failure, at(time.Minute)}, want: Recollection{AbsentSince: start.Add(time.Minute + time.Second)}},
		"a gap between two lists ends the sequence": {
			queries: []Query{query}, looks: []Look{at(0), at(time.Second + MaxGap + 1)}, want: Recollection{AbsentSince: start.Add(2*time.Second + MaxGap + 1)}},
		"lists that are MaxGap apart are one sequence": {
			queries: []Query{query}, looks: []Look{at(0), at(time.Second + MaxGap)}, want: Recollection{AbsentSince: start.Add(time.Second)}},
		"a task of it ends the sequence: it is starting": {
			queries: []Query{query}, looks: []Look{at(0), unloaded}, want: Recollection{}},
		"a running container of it ends the sequence": {
			queries: []Query{query}, looks: []Look{at(0), stray(at(time.Second), id)}, want: Recollection{}},
		"a list whose tasks could not be read ends the sequence": {
			queries: []Query{query}, looks: []Look{at(0), blind(at(time.Second))}, want: Recollection{}},
		"a list that shows it ends the sequence": {
			queries: []Query{query}, looks: []Look{at(0), at(time.Second, there)}, want: Recollection{Pod: web, Listed: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var m Memory
			for _, look := range tc.looks {
				m.Expect(tc.queries)
				m.Observe(look)
			}
			if diff := cmp.Diff(tc.want, m.Recall(Query{SandboxID: id})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAWithdrawnQueryEndsItsSequence(t *testing.T) {
	var m Memory
	m.Expect([]Query{{SandboxID: id, Seen: start}})
	m.Observe(at(0))
	m.Expect(nil)
	m.Observe(at(time.Minute))
	m.Expect([]Query{{SandboxID: id, Seen: start.Add(time.Minute)}})
	if got := m.Recall(Query{SandboxID: id}); !got.AbsentSince.IsZero() {
		t.Errorf("absent since %s", got.AbsentSince)
	}
}

// A query about one sandbox of a terminated pod is followed by one about every sandbox of it.
func TestThePodSequenceBeginsWithTheFirstQueryAfterTermination(t *testing.T) {
	first := Query{SandboxID: id, NodeUID: node, RecordUID: web.UID, Ended: true, Seen: start}
	every := Query{SandboxID: v1alpha1.AnySandbox, NodeUID: node, RecordUID: web.UID, Ended: true, Seen: start.Add(10 * time.Minute)}
	with := func(change func(*Query)) Query {
		q := first
		change(&q)
		return q
	}
	ready := Sandbox{ID: "b", Pod: web, State: StateReady}
	type step struct {
		queries []Query
		look    Look
	}
	minutes := func(q Query) (steps []step) {
		for m := range 10 {
			steps = append(steps, step{[]Query{q}, at(time.Duration(m) * time.Minute)})
		}
		return steps
	}
	last := step{[]Query{every}, at(10*time.Minute + time.Second)}
	began, anew := start.Add(time.Second), start.Add(10*time.Minute+2*time.Second)
	cases := map[string]struct {
		steps []step
		want  time.Time
	}{
		"it begins with its own query, without an earlier one": {[]step{last}, anew},
		"it begins with the query about one of them":           {append(minutes(first), last), began},
		"it outlives that for as long as lists may be apart":   {append(minutes(first), step{nil, at(9*time.Minute + MaxGap/2)}, last), began},
		"and no longer": {append(minutes(first)[:8], step{nil, at(8 * time.Minute)}, step{nil, at(9*time.Minute + 2*time.Second)}, last), anew},
		"not with a query from while the pod lived":          {append(minutes(with(func(q *Query) { q.Ended = false })), last), anew},
		"nor with a query to all nodes":                      {append(minutes(with(func(q *Query) { q.NodeUID = "" })), last), anew},
		"nor with one of another pod":                        {append(minutes(with(func(q *Query) { q.RecordUID = other.UID })), last), anew},
		"nor with one of an orphan":                          {append(minutes(with(func(q *Query) { q.RecordUID = "" })), last), anew},
		"a sandbox of the pod that lives in between ends it": {append(minutes(first), step{[]Query{first}, at(9*time.Minute+time.Second, ready)}, last), anew},
		"also without a query":                               {append(minutes(first), step{nil, at(9*time.Minute+time.Second, ready)}, last), anew},
		"a list that failed in between ends it":              {append(minutes(first), step{[]Query{first}, failure}, last), anew},
		"also without any query":                             {append(minutes(first), step{nil, failure}, last), anew},
		"the sandbox of the query ends it while it lives": {append(append([]step{{[]Query{first},
			at(0, Sandbox{ID: id, Pod: web, State: StateReady})}}, minutes(first)[1:]...), last), start.Add(time.Minute + time.Second)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var m Memory
			for _, s := range tc.steps {
				m.Expect(s.queries)
				m.Observe(s.look)
			}
			if got := m.Recall(every).AbsentSince; !got.Equal(tc.want) {
				t.Errorf("absent since %s, expected %s", got.Sub(start), tc.want.Sub(start))
			}
		})
	}
}

func TestLen(t *testing.T) {
	var m Memory
	m.Observe(at(0, Sandbox{ID: "a"}, Sandbox{ID: "b"}))
	m.Observe(at(1, Sandbox{ID: "b"}))
	if m.Len() != 2 {
		t.Errorf("%d sandboxes are remembered", m.Len())
	}
}

func TestMemoryOfAPodUID(t *testing.T) {
	query := Query{SandboxID: v1alpha1.AnySandbox, NodeUID: node, RecordUID: web.UID, Seen: start}
	stopped := Sandbox{ID: "b", Pod: web, State: StateNotReady, Network: NamespaceClosed}
	reporting := func(look Look) Look {
		look.Listing.ReportsNamespaces = true
		return look
	}
	sequence := Recollection{AbsentSince: start.Add(time.Second)}
	cases := map[string]struct {
		looks []Look
		want  Recollection
	}{
		"lists without a sandbox of the pod are a sequence":     {[]Look{at(0), at(time.Minute)}, sequence},
		"sandboxes of other pods do not matter":                 {[]Look{at(0), at(time.Minute, Sandbox{ID: "x", Pod: other, State: StateReady})}, sequence},
		"a ready one ends the sequence":                         {[]Look{at(0), at(time.Minute, Sandbox{ID: "b", Pod: web, State: StateReady})}, Recollection{}},
		"two of them, whichever is listed last, end it":         {[]Look{at(0), reporting(at(time.Minute, Sandbox{ID: "a", Pod: web, State: StateReady}, stopped))}, Recollection{}},
		"a stopped one does not, where namespaces are reported": {[]Look{reporting(at(0, stopped)), reporting(at(time.Minute, stopped))}, sequence},
		"a stopped one does, where they are not":                {[]Look{at(0), at(time.Minute, stopped)}, Recollection{}},
		"one that was listed and has a task yet is unloaded":    {[]Look{at(0, stopped), withTasks(at(time.Minute), "b")}, Recollection{Unloaded: []string{"b"}}},
		"a task of an ID that was never listed is no pod's":     {[]Look{at(0), withTasks(at(time.Minute), "b")}, sequence},
		"a task that shows to be a sandbox of it":               {[]Look{at(0), owned(withTasks(at(time.Minute), "b"), "b")}, Recollection{Unloaded: []string{"b"}}},
		"a container that runs, by its label of this pod":       {[]Look{at(0), labeled(at(time.Minute), "b")}, Recollection{Unloaded: []string{"b"}}},
		"one that was listed and has a container that runs":     {[]Look{at(0, stopped), stray(at(time.Minute), "b")}, Recollection{Unloaded: []string{"b"}}},
		"a container of an unknown sandbox":                     {[]Look{at(0), stray(at(time.Minute), "b")}, sequence},
		"one whose task has ended is not unloaded any more":     {[]Look{withTasks(at(0, stopped), "b"), withTasks(at(time.Minute))}, Recollection{AbsentSince: start.Add(time.Minute + time.Second)}},
		"one that is listed and has a task is none":             {[]Look{at(0), withTasks(at(time.Minute, Sandbox{ID: "b", Pod: web, State: StateReady}), "b")}, Recollection{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var m Memory
			for _, look := range tc.looks {
				m.Expect([]Query{query})
				m.Observe(look)
			}
			if diff := cmp.Diff(tc.want, m.Recall(query)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAnUnloadedSandboxIsRememberedAsLongAsItsTaskLives(t *testing.T) {
	var m Memory
	m.Observe(at(0, Sandbox{ID: "b", Pod: web, State: StateReady}))
	for day := range 4 {
		m.Observe(withTasks(at(time.Duration(day)*23*time.Hour), "b"))
	}
	q := Query{SandboxID: id, RecordUID: web.UID}
	if got := m.Recall(q).Unloaded; !slices.Equal(got, []string{"b"}) {
		t.Errorf("unloaded: %q", got)
	}
	q.SandboxID = "b"
	if got := m.Recall(q); len(got.Unloaded) > 0 || !got.Listed {
		t.Errorf("it is no other sandbox than itself: %+v", got)
	}
}
