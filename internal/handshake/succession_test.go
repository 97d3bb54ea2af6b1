// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// succession is a verdict that names another sandbox.
type succession struct {
	verdict
	SuccessorID string
}

func succeededBy(other string) succession {
	return succession{hold(v1alpha1.ReasonSandboxReplaced, web.UID), other}
}

func TestReadyForReleaseIsAboutThePodUIDToo(t *testing.T) {
	next := Sandbox{ID: "next", Pod: web, State: StateReady}
	stopped := Sandbox{ID: "next", Pod: web, State: StateNotReady, Network: NamespaceClosed}
	open := Sandbox{ID: "next", Pod: web, State: StateNotReady, Network: NamespaceOpen}
	unread := Sandbox{ID: "next", Pod: web, State: StateNotReady}
	ended := Sandbox{ID: id, Pod: web, State: StateNotReady, Network: NamespaceClosed}
	cases := map[string]struct {
		situation
		want succession
	}{
		"absent, the next one of the UID with which it was seen is ready":    {situation{recalled: seen, listed: []Sandbox{next}}, succeededBy("next")},
		"absent, the next one of the UID that an earlier agent affirmed":     {situation{affirmed: web.UID, listed: []Sandbox{next}}, succeededBy("next")},
		"absent, never seen, the next one of the record's UID":               {situation{record: web.UID, recalled: longAbsent, listed: []Sandbox{next}}, succession{hold(v1alpha1.ReasonSandboxReplaced, ""), "next"}},
		"stopped, the next one is ready":                                     {situation{reports: true, listed: []Sandbox{ended, next}}, succeededBy("next")},
		"the next one is not ready, and not gone: its network is open":       {situation{reports: true, recalled: seen, listed: []Sandbox{open}}, succeededBy("next")},
		"the next one is not ready, and its network was not read":            {situation{reports: true, recalled: seen, listed: []Sandbox{unread}}, succeededBy("next")},
		"the next one is not ready, and networks are never reported":         {situation{recalled: seen, listed: []Sandbox{stopped}}, succeededBy("next")},
		"the next one is gone too":                                           {situation{reports: true, recalled: seen, listed: []Sandbox{stopped}}, succession{gone(v1alpha1.ReasonSandboxAbsent, web.UID), ""}},
		"I1: of several that are not gone none is named":                     {situation{reports: true, recalled: seen, listed: []Sandbox{{ID: "a", Pod: web, State: StateNotReady}, next}}, succeededBy("")},
		"I1: of one that is ready and one that was not loaded none is named": {situation{recalled: Recollection{Pod: web, Listed: true, Unloaded: []string{"a"}}, listed: []Sandbox{next}}, succeededBy("")},
		"another pod's sandbox is no successor":                              {situation{recalled: seen, listed: []Sandbox{{ID: "x", Pod: other, State: StateReady}}}, succession{gone(v1alpha1.ReasonSandboxAbsent, web.UID), ""}},
		"I1: of two that were not loaded none is named":                      {situation{recalled: Recollection{Pod: web, Listed: true, Unloaded: []string{"a", "next"}}}, succeededBy("")},
		"the next one was not loaded, and has a task":                        {situation{recalled: Recollection{Pod: web, Listed: true, Unloaded: []string{"next"}}}, succeededBy("next")},
		"the sandbox itself is not gone: no successor is named":              {situation{reports: true, listed: []Sandbox{{ID: id, Pod: web, State: StateReady}, stopped}}, succession{hold(v1alpha1.ReasonSandboxReady, web.UID), ""}},
		"a sandbox that may be starting is not gone":                         {situation{record: web.UID, listed: []Sandbox{next}}, succession{hold(v1alpha1.ReasonSandboxNotSeen, ""), ""}},
		"to all nodes: the node that has the next one claims it":             {situation{toAll: true, recalled: seen, listed: []Sandbox{next}}, succeededBy("next")},
		"to all nodes, never seen: the node that has the next one claims":    {situation{toAll: true, record: web.UID, recalled: longAbsent, listed: []Sandbox{next}}, succession{hold(v1alpha1.ReasonSandboxReplaced, ""), "next"}},
		"I1: to all nodes, never seen, the pod that disowned it has another": {situation{toAll: true, disowned: web.UID, recalled: longAbsent, listed: []Sandbox{next}}, succession{hold(v1alpha1.ReasonSandboxReplaced, ""), "next"}},
		"I1: never seen, the pod that disowned it has another":               {situation{disowned: web.UID, recalled: longAbsent, listed: []Sandbox{next}}, succession{hold(v1alpha1.ReasonSandboxReplaced, ""), "next"}},
		"I2: the pod that disowned it has two ready ones":                    {situation{toAll: true, disowned: web.UID, recalled: longAbsent, listed: []Sandbox{next, {ID: "b", Pod: web, State: StateReady}}}, succession{hold(v1alpha1.ReasonSandboxReplaced, ""), ""}},
		"I2: once it was seen, the pod that disowned it does not count":      {situation{disowned: web.UID, recalled: Recollection{Pod: other, Listed: true}, listed: []Sandbox{next}}, succession{gone(v1alpha1.ReasonSandboxAbsent, other.UID), ""}},
		"sandboxes without a pod UID are no successors":                      {situation{recalled: Recollection{Listed: true}, listed: []Sandbox{{ID: "x", State: StateReady}}}, succession{gone(v1alpha1.ReasonSandboxAbsent, ""), ""}},
		"two ready ones of the UID: a conflict, no successor is named":       {situation{recalled: seen, listed: []Sandbox{next, {ID: "b", Pod: web, State: StateReady}}}, succession{refusal(v1alpha1.ReasonUIDConflict), ""}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { compareSuccession(t, tc.want, tc.judge()) })
	}
}

func compareSuccession(t *testing.T, want succession, got Outcome) {
	t.Helper()
	compare(t, want.verdict, got)
	if got.SuccessorID != want.SuccessorID {
		t.Errorf("names %q: %s", got.SuccessorID, got.Message)
	}
}

func TestASandboxThatContainerdFailedToLoadIsNotGone(t *testing.T) {
	cases := map[string]struct {
		situation
		want verdict
	}{
		"seen, not listed, and its task is there":                   {situation{task: true, recalled: seen}, hold(v1alpha1.ReasonSandboxNotLoaded, web.UID)},
		"an earlier agent saw it":                                   {situation{task: true, affirmed: web.UID}, hold(v1alpha1.ReasonSandboxNotLoaded, web.UID)},
		"never seen":                                                {situation{task: true, recalled: longAbsent}, hold(v1alpha1.ReasonSandboxNotLoaded, "")},
		"not listed, but a container of it that has not exited":     {situation{stray: true, recalled: seen}, hold(v1alpha1.ReasonContainerNotExited, web.UID)},
		"never seen, but a container of it that has not exited":     {situation{stray: true, recalled: longAbsent}, hold(v1alpha1.ReasonContainerNotExited, "")},
		"to all nodes: its node claims it":                          {situation{toAll: true, task: true}, hold(v1alpha1.ReasonSandboxNotLoaded, "")},
		"listed as stopped, and its own container's task is there":  {situation{reports: true, task: true, listed: one(StateNotReady, 0, NamespaceClosed)}, hold(v1alpha1.ReasonContainerNotExited, web.UID)},
		"listed as ready with its task: ready":                      {situation{reports: true, task: true, listed: one(StateReady, 0, 0)}, hold(v1alpha1.ReasonSandboxReady, web.UID)},
		"tasks that cannot be read prove no absence":                {situation{blind: true, recalled: seen}, refusal(v1alpha1.ReasonListFailed)},
		"nor that a listed one is stopped":                          {situation{blind: true, reports: true, listed: one(StateNotReady, 0, NamespaceClosed)}, refusal(v1alpha1.ReasonListFailed)},
		"nor that another one replaced it":                          {situation{blind: true, recalled: seen, listed: []Sandbox{{ID: "next", Pod: web, State: StateReady}}}, refusal(v1alpha1.ReasonListFailed)},
		"that a sandbox is not gone needs no tasks":                 {situation{blind: true, listed: one(StateReady, 0, 0)}, hold(v1alpha1.ReasonSandboxReady, web.UID)},
		"nor that there is nothing to claim":                        {situation{blind: true, toAll: true, recalled: longAbsent}, refusal(v1alpha1.ReasonListFailed)},
		"the node that had a sandbox claims it without tasks":       {situation{blind: true, toAll: true, recalled: seen}, hold(v1alpha1.ReasonSandboxOfThisNode, web.UID)},
		"a sandbox that was never seen is not gone without tasks":   {situation{blind: true}, hold(v1alpha1.ReasonSandboxNotSeen, "")},
		"a task of another sandbox does not matter: its own is not": {situation{recalled: seen}, gone(v1alpha1.ReasonSandboxAbsent, web.UID)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { compare(t, tc.want, tc.judge()) })
	}
}

func TestTasksAreTrustedOnlyWithTheAgentsOwn(t *testing.T) {
	own := []Sandbox{{ID: "self", Pod: Pod{UID: "agent"}, State: StateReady}}
	cases := map[string]struct {
		tasks   Tasks
		problem bool
	}{
		"a runtime that keeps none":           {Tasks{}, false},
		"the agent's own is there":            {Tasks{IDs: map[string]bool{"self": true}}, false},
		"the folders of another runtime":      {Tasks{IDs: map[string]bool{"x": true}}, true},
		"folders that are empty":              {Tasks{IDs: map[string]bool{}}, true},
		"folders that could not be read":      {Tasks{IDs: map[string]bool{}, Problem: "denied"}, true},
		"read in part, the agent's own there": {Tasks{IDs: map[string]bool{"self": true}, Problem: "denied"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			look := Check(&Listing{Sandboxes: own, Tasks: tc.tasks}, "agent")
			if look.Listing == nil || (look.Listing.Tasks.Problem != "") != tc.problem {
				t.Errorf("got %+v", look)
			}
		})
	}
}

func TestEverySandboxOfAPodUID(t *testing.T) {
	next := Sandbox{ID: "next", Pod: web, State: StateReady}
	stopped := Sandbox{ID: "next", Pod: web, State: StateNotReady, Network: NamespaceClosed}
	cases := map[string]struct {
		query    Query
		listing  Listing
		recalled Recollection
		want     succession
	}{
		"one is ready":                            {listing: Listing{Sandboxes: []Sandbox{next}}, want: succession{hold(v1alpha1.ReasonSandboxReady, web.UID), "next"}},
		"one is not ready, and not gone":          {listing: Listing{Sandboxes: []Sandbox{stopped}}, recalled: longAbsent, want: succession{hold(v1alpha1.ReasonSandboxListed, web.UID), "next"}},
		"one was not loaded, and has a task":      {recalled: Recollection{AbsentSince: longAbsent.AbsentSince, Unloaded: []string{"next"}}, want: succession{hold(v1alpha1.ReasonSandboxNotLoaded, ""), "next"}},
		"none for a moment: one may be starting":  {recalled: Recollection{}, want: succession{hold(v1alpha1.ReasonSandboxNotSeen, ""), ""}},
		"none for just sandboxCreationMax":        {recalled: justAbsent, want: succession{hold(v1alpha1.ReasonSandboxNotSeen, ""), ""}},
		"none for longer than sandboxCreationMax": {recalled: longAbsent, want: succession{gone(v1alpha1.ReasonNoSandbox, ""), ""}},
		"only stopped ones for longer than that": {listing: Listing{ReportsNamespaces: true, Sandboxes: []Sandbox{stopped}}, recalled: longAbsent,
			want: succession{gone(v1alpha1.ReasonNoSandbox, web.UID), ""}},
		"another pod's do not matter": {listing: Listing{Sandboxes: []Sandbox{{ID: "x", Pod: other, State: StateReady}}}, recalled: longAbsent,
			want: succession{gone(v1alpha1.ReasonNoSandbox, ""), ""}},
		"two ready ones are a conflict":               {listing: Listing{Sandboxes: []Sandbox{next, {ID: "b", Pod: web, State: StateReady}}}, want: succession{refusal(v1alpha1.ReasonUIDConflict), ""}},
		"tasks that cannot be read prove no absence":  {listing: Listing{Tasks: Tasks{Problem: "denied"}}, recalled: longAbsent, want: succession{refusal(v1alpha1.ReasonListFailed), ""}},
		"a list from before the query proves nothing": {query: Query{Seen: start.Add(1)}, recalled: longAbsent, want: succession{verdict{Kind: Pending}, ""}},
		"an orphan has no pod UID":                    {query: Query{RecordUID: "none"}, recalled: longAbsent, want: succession{verdict{Kind: Pending}, ""}},
		"all nodes cannot be queried about that":      {query: Query{NodeUID: "all"}, recalled: longAbsent, want: succession{verdict{Kind: Pending}, ""}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := Query{SandboxID: v1alpha1.AnySandbox, NodeUID: node, RecordUID: web.UID, Seen: start}
			if !tc.query.Seen.IsZero() {
				q.Seen = tc.query.Seen
			}
			if tc.query.RecordUID != "" {
				q.RecordUID = ""
			}
			if tc.query.NodeUID != "" {
				q.NodeUID = ""
			}
			l := tc.listing
			l.Began, l.Ended, l.Runtime = start, start.Add(time.Second), "runtime 1"
			compareSuccession(t, tc.want, Judge(q, Look{Listing: &l}, tc.recalled, settings))
		})
	}
}
