// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func isFollowed(s *Sandbox) { s.Followed = true }

// ofPod changes the pod UID with which an agent reports to have seen the sandbox.
func ofPod(uid types.UID) func(*Response) { return func(r *Response) { r.PodUID = uid } }

// TestI1ASandboxThatALaterOneFollowedIsNotForgotten: the pool has one entry, that of the later sandbox.
func TestI1ASandboxThatALaterOneFollowedIsNotForgotten(t *testing.T) {
	byAgent := func(response ...func(*Response)) func(*Sandbox) {
		return queried(newQuery(), Known(responded(response...)))
	}
	notLoaded := func(r *Response) { alive(r); r.Reason = string(v1alpha1.ReasonSandboxNotLoaded) }
	succeeded := func(r *Response) { alive(r); followed(r) }
	watched := func(s *Sandbox) { s.Attribution = v1alpha1.AttributionObservedAdd }
	shares := func(other string) func(*Sandbox) { return func(s *Sandbox) { s.Shares = []string{other} } }
	forRewrite := func(o *Observation) {
		all := o.Sandboxes.Get()
		for i := range all {
			if all[i].Query.IsKnown() {
				query := all[i].Query.Get()
				query.Rewrite = true
				all[i].Query = Known(query)
			}
		}
	}
	later := sandbox("s2", queried(newQuery(func(q *Query) { q.SandboxID = "s2" }), Known(responded(gone, func(r *Response) { r.SandboxID = "s2" }))))
	alone := later
	disowned := sandbox("s2", watched, shares("s1"), queried(newQuery(func(q *Query) { q.SandboxID = "s2" }), Known(responded(gone, ofPod(""), func(r *Response) {
		r.SandboxID, r.Reason = "s2", string(v1alpha1.ReasonSandboxNeverListed)
	}))))
	later.Shares = []string{"s1"}
	finished := ended(EndingFinished, longAgo)
	both := func(change ...func(*Sandbox)) func(*Observation) {
		return sandboxes(sandbox("s1", append([]func(*Sandbox){isFollowed}, change...)...), later)
	}
	for name, tc := range map[string]struct {
		o    Observation
		want Decision
	}{
		"the runtime failed to load it: the later one's address is held": {
			terminating(agent, finished, both(byAgent(notLoaded))), Decision{Row: RowTerminatedAfterDeletion, Action: Wait, Reason: v1alpha1.ReasonSandboxRunning}},
		"its node is queried about it before the later one's address is released": {
			terminating(agent, finished, both()), Decision{Row: RowTerminatedAfterDeletion, Action: Confirm, Reason: v1alpha1.ReasonAwaitingNodeResponse, Sandboxes: []string{"s1"}}},
		"it is gone: it is dropped from the record": {
			terminating(agent, finished, both(byAgent(gone))), Decision{Row: RowTerminatedAfterDeletion, Action: Drop, Reason: v1alpha1.ReasonSandboxGone, Sandboxes: []string{"s1"}}},
		"it is gone, and the later one is not": {
			terminating(agent, both(byAgent(succeeded))), Decision{Row: RowAwaitRuntimeReport, Action: Drop, Reason: v1alpha1.ReasonSandboxGone, Sandboxes: []string{"s1"}}},
		"its agent saw it with an earlier pod of the name, and it is gone": {
			terminating(agent, finished, both(byAgent(gone, ofPod("pod-0")))), Decision{Row: RowTerminatedAfterDeletion, Action: Drop, Reason: v1alpha1.ReasonSandboxGone, Sandboxes: []string{"s1"}}},
		"its agent saw it with an earlier pod of the name, and it is not loaded": {
			terminating(agent, finished, both(byAgent(notLoaded, ofPod("pod-0")))), Decision{Row: RowTerminatedAfterDeletion, Action: Wait, Reason: v1alpha1.ReasonSandboxRunning}},
		"only its ADD was watched, and the node of the pod never listed it: it may run on another node": {
			terminating(agent, finished, both(watched, byAgent(succeeded, ofPod("")))), Decision{Row: RowTerminatedAfterDeletion, Action: Disown, Reason: v1alpha1.ReasonSandboxDisowned, Sandboxes: []string{"s1"}}},
		"the pod lives, only its ADD was watched, and its node never listed it": {
			terminating(agent, notDeleting, both(watched, byAgent(succeeded, ofPod(""))), forRewrite), Decision{Row: RowPodInUse, Action: Disown, Reason: v1alpha1.ReasonSandboxDisowned, Sandboxes: []string{"s1"}}},
		"the pod lives and it is gone": {
			terminating(agent, notDeleting, both(byAgent(succeeded)), forRewrite), Decision{Row: RowPodInUse, Action: Drop, Reason: v1alpha1.ReasonSandboxGone, Sandboxes: []string{"s1"}}},
		"the pod lives and it is not loaded": {
			terminating(agent, notDeleting, both(byAgent(notLoaded)), forRewrite), Decision{Row: RowPodInUse, Action: Keep, Reason: v1alpha1.ReasonPodInUse, Queried: true}},
		"without agents a kubelet's next sandbox shows that it stopped this one": {
			terminating(notDeleting, both()), Decision{Row: RowPodInUse, Action: Drop, Reason: v1alpha1.ReasonSandboxReplaced, Sandboxes: []string{"s1"}}},
		"without agents, after the deletion": {
			terminating(finished, both()), Decision{Row: RowSandboxReplaced, Action: Drop, Reason: v1alpha1.ReasonSandboxReplaced, Sandboxes: []string{"s1"}}},
		"without agents, the next sandbox is another machine's": {
			terminating(finished, both(), node(Node{Machine: replaced, Ready: true})), Decision{Row: RowNodeReplaced, Action: Wait, Reason: v1alpha1.ReasonNodeReplaced}},
		"without agents, the pod lives, and the next sandbox is another machine's": {
			terminating(notDeleting, both(), node(Node{Machine: replaced, Ready: true})), Decision{Row: RowPodInUse, Action: Keep, Reason: v1alpha1.ReasonPodInUse}},
		"without agents, the pod lives, and its node registered again after another machine had made the next sandbox": {
			terminating(notDeleting, sandboxes(sandbox("s1", isFollowed), sandbox("s2", func(s *Sandbox) { s.Machine = Known(replaced) }))), Decision{Row: RowPodInUse, Action: Keep, Reason: v1alpha1.ReasonPodInUse}},
		"without agents, the pod lives, and its record has no room for the next sandbox": {
			terminating(notDeleting, sandboxes(sandbox("s1", isFollowed), sandbox("s2", func(s *Sandbox) { s.Unrecorded = true }))),
			Decision{Row: RowPodInUse, Action: Keep, Reason: v1alpha1.ReasonPodInUse}},
		"without agents, the pod lives, and another machine made the sandbox before": {
			terminating(notDeleting, sandboxes(sandbox("s0", func(s *Sandbox) { s.Machine, s.UnchangedSince = Known(replaced), longAgo.Add(-time.Hour) }), sandbox("s1", isFollowed), later)),
			Decision{Row: RowPodInUse, Action: Drop, Reason: v1alpha1.ReasonSandboxReplaced, Sandboxes: []string{"s1"}}},
		"it was followed at one of its addresses only: the later one's are held": {
			terminating(agent, finished, sandboxes(sandbox("s1", byAgent(notLoaded), shares("s2")), later)), Decision{Row: RowTerminatedAfterDeletion, Action: Wait, Reason: v1alpha1.ReasonSandboxRunning}},
		"it was followed at one of its addresses only, and both are gone": {
			terminating(agent, finished, sandboxes(sandbox("s1", byAgent(gone), shares("s2")), later)), Decision{Row: RowTerminatedAfterDeletion, Action: Release, Reason: v1alpha1.ReasonSandboxGone, Sandboxes: []string{"s1", "s2"}}},
		"others have each of its addresses: it is dropped, though the later one is in a conflict": {
			terminating(agent, finished, sandboxes(sandbox("s1", byAgent(gone), shares("s2"), func(s *Sandbox) { s.Superseded = true }), sandbox("s2", func(s *Sandbox) { s.Conflict = true }))),
			Decision{Row: RowTerminatedAfterDeletion, Action: Drop, Reason: v1alpha1.ReasonSandboxGone, Sandboxes: []string{"s1"}}},
		"it has an entry, and shares the address of a later one in a conflict": {
			terminating(agent, finished, sandboxes(sandbox("s1", byAgent(gone), shares("s2")), sandbox("s2", func(s *Sandbox) { s.Conflict = true }))),
			Decision{Row: RowAddressConflict, Action: Wait, Reason: v1alpha1.ReasonConflict}},
		"it is not gone, and only its ADD ties the later one to the pod": {
			terminating(agent, finished, sandboxes(sandbox("s1", isFollowed, byAgent(notLoaded)), disowned)), Decision{Row: RowTerminatedAfterDeletion, Action: Wait, Reason: v1alpha1.ReasonSandboxRunning}},
		"another pod has its address, and the later one has another: that one's is released on its own proof": {
			terminating(agent, finished, sandboxes(sandbox("s1", isFollowed, byAgent(notLoaded)), alone)), Decision{Row: RowTerminatedAfterDeletion, Action: Release, Reason: v1alpha1.ReasonSandboxGone, Sandboxes: []string{"s2"}}},
		"on cached reads nothing is forgotten": {
			terminating(agent, cached, finished, both(byAgent(gone))), Decision{Row: RowTerminatedAfterDeletion, Action: Reread, Intended: Drop, Reason: v1alpha1.ReasonSandboxGone, Sandboxes: []string{"s1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Decide(tc.o, now), cmpopts.IgnoreFields(Decision{}, "Message", "After", "Then")); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
		})
	}
}

// TestALaterSandboxIsReleasedOnceItFollowsNone: the entry is released for the last of them.
func TestALaterSandboxIsReleasedOnceItFollowsNone(t *testing.T) {
	o := terminating(ended(EndingFinished, longAgo), sandboxes(sandbox("s2")))
	if d := Decide(o, now.Add(time.Hour)); d.Action != Release {
		t.Errorf("%s (%s), expected a release", d.Action, d.Message)
	}
}

// TestASandboxIsQueriedAlthoughNewerOnesKeepComing: otherwise a pod of which each start fails would have more of them than its record can list.
func TestASandboxIsQueriedAlthoughNewerOnesKeepComing(t *testing.T) {
	since := func(ago time.Duration) func(*Sandbox) { return func(s *Sandbox) { s.UnchangedSince = now.Add(-ago) } }
	o := terminating(agent, notDeleting, sandboxes(sandbox("s1", isFollowed, since(time.Hour)), sandbox("s2", isFollowed, since(settings.ReleaseDelay)),
		sandbox("s3", isFollowed, since(15*time.Second)), sandbox("s4", since(time.Second))))
	want := Decision{Row: RowPodInUse, Action: Confirm, Sandboxes: []string{"s1"}}
	if diff := cmp.Diff(want, Decide(o, now), cmpopts.IgnoreFields(Decision{}, "Message", "After", "Then", "Reason")); diff != "" {
		t.Errorf("Decide (-want +got):\n%s", diff)
	}
}

// TestALivePodIsDoubtedInParts: of a pod that fails at each start, the record keeps what its node and all nodes are not queried about yet.
func TestALivePodIsDoubtedInParts(t *testing.T) {
	const all = 3 * maxDoubted
	pod := func(change func(id string) []func(*Sandbox)) Observation {
		var followed []Sandbox
		for i := range all {
			id := fmt.Sprintf("s%d", i)
			followed = append(followed, sandbox(id, append(change(id), isFollowed, func(s *Sandbox) { s.Attribution = v1alpha1.AttributionUnconfirmed })...))
		}
		return terminating(agent, notDeleting, sandboxes(followed...))
	}
	of := func(change ...func(*Response)) func(id string) []func(*Sandbox) {
		return func(id string) []func(*Sandbox) {
			query := newQuery(func(q *Query) { q.SandboxID, q.Rewrite = id, true })
			response := Absent[Response]()
			if len(change) > 0 {
				response = Known(responded(append(change, func(r *Response) { r.SandboxID = id })...))
			}
			return []func(*Sandbox){queried(query, response)}
		}
	}
	neverListed := func(r *Response) { r.Reason, r.PodUID = string(v1alpha1.ReasonSandboxNeverListed), "" }
	unqueried, unanswered, gone := pod(func(string) []func(*Sandbox) { return nil }), pod(of()), pod(of(gone, neverListed))
	disowning, rest := gone, pod(func(string) []func(*Sandbox) { return nil })
	disowning.Disowning, rest.Disowning = true, true
	copy(rest.Sandboxes.Get(), gone.Sandboxes.Get()[:maxDoubted])
	most := pod(func(string) []func(*Sandbox) { return nil })
	most.Disowning = true
	copy(most.Sandboxes.Get(), gone.Sandboxes.Get()[:2*maxDoubted])
	present := pod(func(string) []func(*Sandbox) { return nil })
	for i := range present.Sandboxes.Get() {
		present.Sandboxes.Get()[i].Followed = false
	}
	for name, tc := range map[string]struct {
		o         Observation
		action    Action
		sandboxes int
		queried   bool
	}{
		"its node is queried about some":                                      {unqueried, Confirm, maxDoubted, false},
		"and about no others until it has responded":                          {unanswered, Keep, 0, true},
		"which are disowned together":                                         {gone, Disown, maxDoubted, false},
		"and no others while an orphan that it disowned is there, which wait": {disowning, Keep, 0, true},
		"while some more are queried":                                         {rest, Confirm, maxDoubted, false},
		"and no more than that":                                               {most, Keep, 0, true},
		"each entry of its own that stands is judged":                         {present, Confirm, all, false},
	} {
		t.Run(name, func(t *testing.T) {
			if d := Decide(tc.o, now); d.Row != RowPodInUse || d.Action != tc.action || len(d.Sandboxes) != tc.sandboxes || d.Queried != tc.queried {
				t.Errorf("%s, %s of %d sandboxes (queried: %t), want %s of %d (%t)", d.Row, d.Action, len(d.Sandboxes), d.Queried, tc.action, tc.sandboxes, tc.queried)
			}
		})
	}
}
