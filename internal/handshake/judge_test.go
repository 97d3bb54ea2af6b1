// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var (
	start    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	settings = Settings{SandboxCreationMax: 10 * time.Minute}
	web      = Pod{UID: "uid-web", Namespace: "default", Name: "web-0"}
	other    = Pod{UID: "uid-other", Namespace: "default", Name: "other"}
)

const (
	id   = "the-sandbox"
	node = types.UID("node-uid")
)

// verdict is an Outcome without its message.
type verdict struct {
	Kind    Kind
	Verdict v1alpha1.Verdict
	Reason  v1alpha1.Reason
	PodUID  types.UID
}

func hold(reason v1alpha1.Reason, pod types.UID) verdict {
	return verdict{Decided, v1alpha1.VerdictDoNotRelease, reason, pod}
}

func gone(reason v1alpha1.Reason, pod types.UID) verdict {
	return verdict{Decided, v1alpha1.VerdictReadyForRelease, reason, pod}
}

func refusal(reason v1alpha1.Reason) verdict { return verdict{Kind: NoResponse, Reason: reason} }

type situation struct {
	toAll    bool
	done     bool
	record   types.UID
	affirmed types.UID
	disowned types.UID // the pod UID that disowned it
	recalled Recollection
	reports  bool
	early    bool
	task     bool // the runtime has one of the sandbox
	stray    bool // a container of the sandbox runs, and the sandbox is not listed
	blind    bool // the tasks of the runtime could not be read
	failed   v1alpha1.Reason
	listed   []Sandbox
}

func (s situation) judge() Outcome {
	q := Query{SandboxID: id, NodeUID: node, RecordUID: s.record, DisownedBy: s.disowned, CreationDone: s.done, Affirmed: s.affirmed, Seen: start}
	if s.toAll {
		q.NodeUID = ""
	}
	look := Look{Failure: Failure{Reason: s.failed, Message: "no list"}}
	if s.failed == "" {
		look = Look{Listing: &Listing{Began: start, Ended: start.Add(time.Second), ReportsNamespaces: s.reports, Runtime: "runtime 1", Sandboxes: s.listed}}
	}
	if s.task {
		look = withTasksOf(look)
	}
	if s.stray && look.Listing != nil {
		look = stray(look, id)
	}
	if s.blind && look.Listing != nil {
		look = blind(look)
	}
	if s.early {
		look.Listing.Began = start.Add(-time.Nanosecond)
	}
	return Judge(q, look, s.recalled, settings)
}

func withTasksOf(look Look) Look {
	if look.Listing == nil {
		return look
	}
	return withTasks(look, id)
}

func one(state State, notExited int, network Namespace) []Sandbox {
	return []Sandbox{{ID: id, Pod: web, State: state, NotExited: notExited, Network: network}}
}

var (
	seen       = Recollection{Pod: web, Listed: true}
	justAbsent = Recollection{AbsentSince: start.Add(-settings.SandboxCreationMax)}
	longAbsent = Recollection{AbsentSince: start.Add(-settings.SandboxCreationMax - time.Nanosecond)}
)

// The rules of Judge, sentence by sentence as in the design, and the tests of each. "node" is test/node, with a
// real API server and a real containerd, or k8s.io/cri-client/pkg/fake; agent is internal/agent, cri is internal/sandbox/cri.
//
//	"From an unfiltered list"
//		cri: TestList (ready and not ready, both, in one list without a filter); TestThereIsACompleteListOrNone
//		here: TestAListIsTrustedOnlyWithTheAgentsOwnSandbox
//		node: that lists nothing, not even the agent's own sandbox, is not trusted
//	"taken after the query was seen"
//		here: TestJudge (a list from before the query was seen does not count); TestMemory (does not count)
//		agent: TestAQueryThatComesWhileTheRuntimeIsListedWaitsForTheNextList, TestAQueryThatIsWithdrawnAndMadeAgainIsAnother
//	"never from a cache"
//		cri: TestNothingIsTakenFromAnEarlierList; agent: TestRound (a list that fails)
//		node: gets no response while containerd is stopped, and the condition, an event and a metric say why
//	"Gone = absent"
//		here: TestJudge, TestI1I5OnlyProofReleases, TestASandboxThatContainerdFailedToLoadIsNotGone
//		node: The transcript of a handshake; A sandbox that a real containerd fails to load when it is restarted
//	"or, on containerd, NOTREADY with no running container and the network namespace closed"
//		here: TestJudge; cri: TestList, TestParseNetwork
//		node: is not released while it lives, nor with its process killed, but once it is stopped; is held while a container of it runs
//	"NOTREADY alone is not gone"
//		here: TestJudge (three rows); cri: TestASandboxThatHangsLeavesTheOthersAndTheListAlone
//		node: The transcript; that calls itself containerd and tells nothing of a network namespace is not trusted to have closed it
//	"on CRI-O only absence counts"
//		here: TestJudge, TestMemoryOfAPodUID; node: CRI-O: runs DEL, then stops, then removes; only absence is gone
//	"An ID that this agent never saw needs absence for longer than sandboxCreationMax (10m)"
//		here: TestJudge, TestMemory, TestAbsenceIsCountedByLists
//		node: that no agent ever saw is held until it was absent for sandboxCreationMax
//	"the IPAM records an address before the runtime lists the sandbox, and runtimes park half-made ones"
//		here: TestJudge (after any absence), TestMemory (a list that shows it ends the sequence; so does a task of it)
//		node: that is starting, and parked, is held and then seen
//	"ReadyForRelease is final, since sandbox IDs never return"
//		here: TestReadyForReleaseIsFinalForItsQuery; agent: TestRound, TestAQueryGetsAResponseInItsBootOnly; node: The transcript
//	"DoNotRelease is not"
//		agent: TestRound (DoNotRelease is not final); node: The transcript
//
// Of decision 0073, TestAQueryIsForOneBoot, TestReadyForReleaseIsAboutThePodUIDToo and TestEverySandboxOfAPodUID.
func TestJudge(t *testing.T) {
	cases := map[string]struct {
		situation
		want verdict
	}{
		"gone = absent, for an ID that was seen":                                            {situation{recalled: seen}, gone(v1alpha1.ReasonSandboxAbsent, web.UID)},
		"gone = absent, for an ID that an earlier agent of this Node saw":                   {situation{affirmed: web.UID}, gone(v1alpha1.ReasonSandboxAbsent, web.UID)},
		"gone, on containerd: NOTREADY, no running container, the network namespace closed": {situation{reports: true, listed: one(StateNotReady, 0, NamespaceClosed)}, gone(v1alpha1.ReasonSandboxStopped, web.UID)},
		"NOTREADY alone is not gone":                                                        {situation{reports: true, listed: one(StateNotReady, 0, NamespaceOpen)}, hold(v1alpha1.ReasonNetworkNamespaceOpen, web.UID)},
		"NOTREADY with the network namespace unknown is not gone":                           {situation{reports: true, listed: one(StateNotReady, 0, 0)}, hold(v1alpha1.ReasonNetworkNamespaceUnknown, web.UID)},
		"NOTREADY with a container that has not exited is not gone":                         {situation{reports: true, listed: one(StateNotReady, 1, NamespaceClosed)}, hold(v1alpha1.ReasonContainerNotExited, web.UID)},
		"READY is not gone, with any other state":                                           {situation{reports: true, listed: one(StateReady, 0, NamespaceClosed)}, hold(v1alpha1.ReasonSandboxReady, web.UID)},
		"an unknown state is not gone":                                                      {situation{reports: true, listed: one(0, 0, NamespaceClosed)}, hold(v1alpha1.ReasonSandboxReady, web.UID)},
		"on CRI-O only absence counts":                                                      {situation{listed: one(StateNotReady, 0, NamespaceClosed)}, hold(v1alpha1.ReasonSandboxListed, web.UID)},
		"an ID that this agent never saw is not gone by one list":                           {situation{}, hold(v1alpha1.ReasonSandboxNotSeen, "")},
		"an ID that this agent never saw needs absence for longer than sandboxCreationMax":  {situation{recalled: justAbsent}, hold(v1alpha1.ReasonSandboxNotSeen, "")},
		"an ID that this agent never saw is gone after longer than sandboxCreationMax":      {situation{recalled: longAbsent}, gone(v1alpha1.ReasonSandboxNeverListed, "")},
		"an ID of an unseen sandbox that is listed now is not gone, after any absence":      {situation{recalled: longAbsent, listed: one(StateReady, 0, 0)}, hold(v1alpha1.ReasonSandboxReady, web.UID)},
		"a list from before the query was seen does not count":                              {situation{recalled: seen, early: true}, verdict{Kind: Pending}},
		"RuntimeUnreachable gives no response":                                              {situation{recalled: seen, failed: v1alpha1.ReasonRuntimeUnreachable}, refusal(v1alpha1.ReasonRuntimeUnreachable)},
		"ListFailed gives no response":                                                      {situation{recalled: longAbsent, failed: v1alpha1.ReasonListFailed}, refusal(v1alpha1.ReasonListFailed)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { compare(t, tc.want, tc.judge()) })
	}
}

func TestUIDConflictGivesNoResponse(t *testing.T) {
	alias := Pod{UID: web.UID, Namespace: web.Namespace, Name: "alias"}
	cases := map[string]struct {
		situation
		want verdict
	}{
		"two READY of one UID, one of them the sandbox": {situation{listed: []Sandbox{{ID: id, Pod: web, State: StateReady}, {ID: "b", Pod: web, State: StateReady}}}, refusal(v1alpha1.ReasonUIDConflict)},
		"two READY of the record's UID, the sandbox absent": {situation{record: web.UID, recalled: longAbsent,
			listed: []Sandbox{{ID: "a", Pod: web, State: StateReady}, {ID: "b", Pod: web, State: StateReady}}}, refusal(v1alpha1.ReasonUIDConflict)},
		"two READY of the UID with which the sandbox was seen": {situation{recalled: seen,
			listed: []Sandbox{{ID: "a", Pod: web, State: StateReady}, {ID: "b", Pod: web, State: StateReady}}}, refusal(v1alpha1.ReasonUIDConflict)},
		"two READY of the UID that an earlier agent affirmed": {situation{affirmed: web.UID,
			listed: []Sandbox{{ID: "a", Pod: web, State: StateReady}, {ID: "b", Pod: web, State: StateReady}}}, refusal(v1alpha1.ReasonUIDConflict)},
		"one UID under two names": {situation{reports: true,
			listed: []Sandbox{{ID: id, Pod: web, State: StateNotReady, Network: NamespaceClosed}, {ID: "b", Pod: alias, State: StateNotReady}}}, refusal(v1alpha1.ReasonUIDConflict)},
		"one sandbox listed under two pods": {situation{recalled: Recollection{Pod: web, Listed: true, Clash: true}}, refusal(v1alpha1.ReasonUIDConflict)},
		"a query to all is not claimed in a conflict": {situation{toAll: true,
			listed: []Sandbox{{ID: id, Pod: web, State: StateReady}, {ID: "b", Pod: web, State: StateReady}}}, refusal(v1alpha1.ReasonUIDConflict)},
		"one READY and an earlier attempt that is not: no conflict": {situation{
			listed: []Sandbox{{ID: id, Pod: web, State: StateReady}, {ID: "b", Pod: web, State: StateNotReady}}}, hold(v1alpha1.ReasonSandboxReady, web.UID)},
		"a conflict of another pod does not matter": {situation{record: web.UID, recalled: seen,
			listed: []Sandbox{{ID: "a", Pod: other, State: StateReady}, {ID: "b", Pod: other, State: StateReady}}}, gone(v1alpha1.ReasonSandboxAbsent, web.UID)},
		"sandboxes without a UID are no conflict": {situation{recalled: Recollection{Listed: true},
			listed: []Sandbox{{ID: "a", State: StateReady}, {ID: "b", State: StateReady}}}, gone(v1alpha1.ReasonSandboxAbsent, "")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { compare(t, tc.want, tc.judge()) })
	}
}

func TestAQueryToAllNodesIsClaimedOrNot(t *testing.T) {
	cases := map[string]struct {
		situation
		want verdict
	}{
		"the node that has the sandbox claims it, with its pod UID": {situation{toAll: true, listed: one(StateReady, 0, 0)}, hold(v1alpha1.ReasonSandboxReady, web.UID)},
		"on CRI-O too": {situation{toAll: true, listed: one(StateNotReady, 0, 0)}, hold(v1alpha1.ReasonSandboxListed, web.UID)},
		"the node that had it claims it too, and releases nothing":                     {situation{toAll: true, recalled: seen}, hold(v1alpha1.ReasonSandboxOfThisNode, web.UID)},
		"a stopped one is claimed, not released":                                       {situation{toAll: true, reports: true, listed: one(StateNotReady, 0, NamespaceClosed)}, hold(v1alpha1.ReasonSandboxOfThisNode, web.UID)},
		"a node that never saw it does not respond yet":                                {situation{toAll: true}, verdict{Kind: Pending}},
		"a node that did not see it for sandboxCreationMax has nothing to claim":       {situation{toAll: true, recalled: longAbsent}, verdict{Kind: NoClaim}},
		"a node that never saw one of which the creation is done has nothing to claim": {situation{toAll: true, done: true}, verdict{Kind: NoClaim}},
		"one of which it is done and that has a task is claimed":                       {situation{toAll: true, done: true, task: true}, hold(v1alpha1.ReasonSandboxNotLoaded, "")},
		"a list from before it was done does not count":                                {situation{toAll: true, done: true, early: true}, verdict{Kind: Pending}},
		"nor does one of which no task could be read":                                  {situation{toAll: true, done: true, blind: true}, refusal(v1alpha1.ReasonListFailed)},
		"a failed list does not count":                                                 {situation{toAll: true, recalled: longAbsent, failed: v1alpha1.ReasonListFailed}, refusal(v1alpha1.ReasonListFailed)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { compare(t, tc.want, tc.judge()) })
	}
}

func compare(t *testing.T, want verdict, got Outcome) {
	t.Helper()
	if diff := cmp.Diff(want, verdict{got.Kind, got.Verdict, got.Reason, got.PodUID}); diff != "" {
		t.Errorf("%q (-want +got)\n%s", got.Message, diff)
	}
	if got.Message == "" {
		t.Error("there is no message")
	}
	if got.Kind == Decided && !got.Time.Equal(start) {
		t.Errorf("the verdict has the time %s, not when its list began", got.Time)
	}
}

func TestAListIsTrustedOnlyWithTheAgentsOwnSandbox(t *testing.T) {
	own := Pod{UID: "agent", Namespace: "holdfast-agent", Name: "agent"}
	cases := map[string]struct {
		own    types.UID
		listed []Sandbox
		want   bool
	}{
		"the agent's own sandbox is ready":               {own.UID, []Sandbox{{ID: "a", Pod: own, State: StateReady}, {ID: "b", Pod: web}}, true},
		"an empty list after a restart":                  {own.UID, nil, false},
		"the list of another runtime":                    {own.UID, []Sandbox{{ID: "b", Pod: web, State: StateReady}}, false},
		"the agent's own sandbox is not ready":           {own.UID, []Sandbox{{ID: "a", Pod: own, State: StateNotReady}}, false},
		"the agent's pod UID is unknown":                 {"", []Sandbox{{ID: "a", State: StateReady}}, false},
		"one ID twice":                                   {own.UID, []Sandbox{{ID: "a", Pod: own, State: StateReady}, {ID: "a", Pod: own, State: StateReady}}, false},
		"a sandbox without an ID":                        {own.UID, []Sandbox{{ID: "a", Pod: own, State: StateReady}, {Pod: web}}, false},
		"the agent's pod has an earlier sandbox as well": {own.UID, []Sandbox{{ID: "a", Pod: own, State: StateNotReady}, {ID: "b", Pod: own, State: StateReady}}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			look := Check(&Listing{Runtime: "runtime 1", Sandboxes: tc.listed}, tc.own)
			if got := look.Listing != nil; got != tc.want {
				t.Errorf("trusted: %t, %q", got, look.Failure.Message)
			}
			if !tc.want && look.Failure.Reason != v1alpha1.ReasonListFailed {
				t.Errorf("reason %q", look.Failure.Reason)
			}
		})
	}
}
