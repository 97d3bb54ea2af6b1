// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestI3ASandboxThatOnlyAWatchedADDTiesToAPodIsNotReleasedOnItsNodesReport: it may be that of an earlier pod of the name on another node.
func TestI3ASandboxThatOnlyAWatchedADDTiesToAPodIsNotReleasedOnItsNodesReport(t *testing.T) {
	tied := func(by v1alpha1.Attribution) func(*Sandbox) { return func(s *Sandbox) { s.Attribution = by } }
	neverListed := func(r *Response) { r.Reason, r.PodUID = string(v1alpha1.ReasonSandboxNeverListed), "" }
	tainted := func(q *Query) { q.OutOfService = true }
	for name, tc := range map[string]struct {
		observed []func(*Observation)
		query    Fact[Query]
		response []func(*Response)
		sandbox  []func(*Sandbox)
		row      Row
		action   Action
	}{
		"a node that never had it": {
			nil, newQuery(), []func(*Response){gone, neverListed}, []func(*Sandbox){tied(v1alpha1.AttributionObservedAdd)}, RowAwaitRuntimeReport, Disown},
		"a node that never had the successor of another": {
			nil, newQuery(), []func(*Response){gone, neverListed}, []func(*Sandbox){tied(v1alpha1.AttributionUnconfirmed)}, RowAwaitRuntimeReport, Disown},
		"a completed pod": {
			[]func(*Observation){notDeleting, ended(EndingCompleted, longAgo)}, newQuery(), []func(*Response){gone, neverListed},
			[]func(*Sandbox){tied(v1alpha1.AttributionObservedAdd)}, RowPodCompleted, Disown},
		"a pod that its kubelet finished": {
			[]func(*Observation){ended(EndingFinished, longAgo)}, newQuery(), []func(*Response){gone, neverListed},
			[]func(*Sandbox){tied(v1alpha1.AttributionObservedAdd)}, RowTerminatedAfterDeletion, Disown},
		"a node that was declared dead, with an agent that responds": {
			[]func(*Observation){node(Node{Machine: machine, OutOfService: true})}, newQuery(tainted), []func(*Response){gone, neverListed},
			[]func(*Sandbox){tied(v1alpha1.AttributionObservedAdd)}, RowNodeOutOfService, Disown},
		"a node that was declared dead, with an agent that does not respond": {
			[]func(*Observation){node(Node{Machine: machine, OutOfService: true})}, newQuery(tainted, madeLongAgo), nil,
			[]func(*Sandbox){tied(v1alpha1.AttributionObservedAdd)}, RowNodeOutOfService, Disown},
		"a Node that was deleted for the delay": {
			[]func(*Observation){func(o *Observation) { o.Node, o.NodeGoneSince = Absent[Node](), Known(longAgo) }}, Absent[Query](), nil,
			[]func(*Sandbox){tied(v1alpha1.AttributionObservedAdd)}, RowNodeDeleted, Disown},
		"the same of a sandbox that the pod showed while it lived": {
			[]func(*Observation){func(o *Observation) { o.Node, o.NodeGoneSince = Absent[Node](), Known(longAgo) }}, Absent[Query](), nil,
			[]func(*Sandbox){tied(v1alpha1.AttributionNetworkStatus)}, RowNodeDeleted, Release},
		"a node that had it": {
			nil, newQuery(), []func(*Response){gone}, []func(*Sandbox){tied(v1alpha1.AttributionObservedAdd)}, RowAwaitRuntimeReport, Release},
		"a sandbox that the pod showed while it lived": {
			nil, newQuery(), []func(*Response){gone, neverListed}, []func(*Sandbox){tied(v1alpha1.AttributionNetworkStatus)}, RowAwaitRuntimeReport, Release},
		"a sandbox that an agent saw": {
			nil, newQuery(), []func(*Response){gone, neverListed}, []func(*Sandbox){tied(v1alpha1.AttributionAgentSeen)}, RowAwaitRuntimeReport, Release},
	} {
		t.Run(name, func(t *testing.T) {
			response := Absent[Response]()
			if tc.response != nil {
				response = Known(responded(tc.response...))
			}
			held := append([]func(*Sandbox){queried(tc.query, response)}, tc.sandbox...)
			changes := append([]func(*Observation){agent, sandboxes(sandbox("s1", held...))}, tc.observed...)
			d := Decide(terminating(changes...), now)
			if d.Row != tc.row || d.Action != tc.action {
				t.Errorf("row %s, %s (%s: %s); expected row %s, %s", d.Row, d.Action, d.Reason, d.Message, tc.row, tc.action)
			}
		})
	}
}

// TestI3UnownedEntriesAreDisownedBeforeUnprotect with each kind of evidence.
func TestI3UnownedEntriesAreDisownedBeforeUnprotect(t *testing.T) {
	unowned := func(o *Observation) { o.Unowned = []string{"s9"} }
	for name, changes := range map[string][]func(*Observation){
		"its kubelet ended it":       {agent, ended(EndingFinished, longAgo)},
		"the same without agents":    {ended(EndingFinished, longAgo)},
		"it was never bound":         {func(o *Observation) { p := o.Pod.Get(); p.Bound = false; o.Pod = Known(p) }},
		"its node was declared dead": {node(Node{Machine: machine, OutOfService: true})},
	} {
		t.Run(name, func(t *testing.T) {
			empty := terminating(append(changes, func(o *Observation) { o.Sandboxes = Absent[[]Sandbox]() })...)
			before := Decide(empty, now)
			if before.Action != Unprotect {
				t.Fatalf("without such an entry: row %s, %s (%s)", before.Row, before.Action, before.Message)
			}
			unowned(&empty)
			d := Decide(empty, now)
			if d.Row != before.Row || d.Action != Disown || len(d.Sandboxes) != 1 {
				t.Errorf("row %s, %s of %v (%s); expected to disown s9 by row %s", d.Row, d.Action, d.Sandboxes, d.Message, before.Row)
			}
			empty.Live = false
			if d := Decide(empty, now); d.Action != Reread || d.Intended != Disown {
				t.Errorf("by caches: %s, intended %s; expected live reads", d.Action, d.Intended)
			}
		})
	}
}

// TestI3UnownedEntriesOfAPodThatIsGoneAreDisownedAtOnce: the next pod with the name could inherit them while the other sandboxes wait.
func TestI3UnownedEntriesOfAPodThatIsGoneAreDisownedAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Observation)
		action Action
	}{
		"its sandbox waits":       {agent, Confirm},
		"its sandbox is released": {node(Node{Machine: machine, OutOfService: true}), Release},
	} {
		t.Run(name, func(t *testing.T) {
			o := terminating(podGone(Pod{Bound: true}), tc.change)
			if before := Decide(o, now); before.Action != tc.action {
				t.Fatalf("without such an entry: row %s, %s (%s); expected %s", before.Row, before.Action, before.Message, tc.action)
			}
			o.Unowned = []string{"s9"}
			d := Decide(o, now)
			if d.Action != Disown || len(d.Sandboxes) != 1 || d.Sandboxes[0] != "s9" {
				t.Errorf("row %s, %s of %v (%s); expected to disown s9", d.Row, d.Action, d.Sandboxes, d.Message)
			}
		})
	}
}

// TestI2ASandboxWithoutARecordedMachineIsLookedForEverywhere: its Node registered again, or was deleted, before a live read.
func TestI2ASandboxWithoutARecordedMachineIsLookedForEverywhere(t *testing.T) {
	nowhere := func(s *Sandbox) { s.Machine = Unknown[Machine]("its Node is younger than its entry") }
	conflict := func(s *Sandbox) { s.Conflict = true }
	inGrace := pod(func(p *Pod) { p.Deadline = now.Add(time.Hour) })
	for name, tc := range map[string]struct {
		observed []func(*Observation)
		sandbox  []func(*Sandbox)
		row      Row
		action   Action
	}{
		"its Node stands":        {[]func(*Observation){agent}, nil, RowMachineUnknown, Disown},
		"its Node was deleted":   {[]func(*Observation){agent, func(o *Observation) { o.Node = Absent[Node]() }}, nil, RowMachineUnknown, Disown},
		"its pod completed":      {[]func(*Observation){agent, notDeleting, ended(EndingCompleted, longAgo)}, nil, RowMachineUnknown, Disown},
		"its pod may yet end":    {[]func(*Observation){agent, inGrace}, nil, RowGracePeriod, Wait},
		"its kubelet ended it":   {[]func(*Observation){agent, inGrace, ended(EndingFinished, longAgo)}, nil, RowMachineUnknown, Disown},
		"its address conflicts":  {[]func(*Observation){agent}, []func(*Sandbox){conflict}, RowAddressConflict, Wait},
		"no agent can look":      {nil, nil, RowMachineUnknown, Wait},
		"it has to be read live": {[]func(*Observation){agent, cached}, nil, RowMachineUnknown, Reread},
	} {
		t.Run(name, func(t *testing.T) {
			held := sandboxes(sandbox("s1", append([]func(*Sandbox){nowhere}, tc.sandbox...)...))
			d := Decide(terminating(append([]func(*Observation){held}, tc.observed...)...), now)
			if d.Row != tc.row || d.Action != tc.action {
				t.Errorf("row %s, %s (%s: %s); expected row %s, %s", d.Row, d.Action, d.Reason, d.Message, tc.row, tc.action)
			}
		})
	}
}
