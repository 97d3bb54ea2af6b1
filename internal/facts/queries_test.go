// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const podUID = "pod"

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// guardedNode is the GuardedNode of a Node UID; all machines have the same boot.
func guardedNode(uid string, change ...func(*v1alpha1.GuardedNode)) v1alpha1.GuardedNode {
	object := v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: uid}}
	for _, c := range change {
		c(&object)
	}
	return object
}

// query adds a query about a sandbox of the pod.
func query(sandbox string, epoch int64, change ...func(*v1alpha1.SandboxQuery)) func(*v1alpha1.GuardedNode) {
	q := v1alpha1.SandboxQuery{Record: podUID, SandboxID: sandbox, Epoch: epoch, BootID: "boot", Purpose: v1alpha1.PurposeRelease, Time: metav1.NewTime(at)}
	for _, c := range change {
		c(&q)
	}
	return func(object *v1alpha1.GuardedNode) { object.Spec.Queries = append(object.Spec.Queries, q) }
}

// response adds a DoNotRelease about a sandbox of the pod.
func response(sandbox string, epoch int64, change ...func(*v1alpha1.SandboxResponse)) func(*v1alpha1.GuardedNode) {
	r := v1alpha1.SandboxResponse{Record: podUID, SandboxID: sandbox, Epoch: epoch, BootID: "boot", Verdict: v1alpha1.VerdictDoNotRelease, Reason: "SandboxReady", Time: metav1.NewTime(at)}
	for _, c := range change {
		c(&r)
	}
	return func(object *v1alpha1.GuardedNode) { object.Status.Responses = append(object.Status.Responses, r) }
}

func ofRecord(name string) func(*v1alpha1.SandboxResponse) {
	return func(r *v1alpha1.SandboxResponse) { r.Record = name }
}

func responding(status metav1.ConditionStatus) func(*v1alpha1.GuardedNode) {
	return func(object *v1alpha1.GuardedNode) {
		object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RespondingCondition, Status: status, Reason: "RuntimeUnreachable", Message: "no socket"}}
	}
}

func queriesIn(objects ...v1alpha1.GuardedNode) Queries {
	return QueriesIn(release.Known(objects), podUID)
}

func pending(q Queries, keys ...QueryKey) Queries {
	q.Pending = map[QueryKey]bool{}
	for _, key := range keys {
		q.Pending[key] = true
	}
	return q
}

func TestI1AboutASandboxTheNodesOwnQueryComesFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		queries Queries
		// query and response are "NODE EPOCH"; empty if there is none.
		query, response string
	}{
		"there is no GuardedNode":                   {queriesIn(), "", ""},
		"the node was not queried":                  {queriesIn(guardedNode("n1")), "", ""},
		"the node was queried":                      {queriesIn(guardedNode("n1", query("s", 3))), "n1 3", ""},
		"and has responded":                         {queriesIn(guardedNode("n1", query("s", 3), response("s", 3))), "n1 3", "n1 3"},
		"its response is one to an earlier query":   {queriesIn(guardedNode("n1", query("s", 3), response("s", 2))), "n1 3", "n1 2"},
		"the query about it is gone":                {queriesIn(guardedNode("n1", response("s", 2))), "", "n1 2"},
		"another sandbox of the record is no query": {queriesIn(guardedNode("n1", query("t", 3), response("t", 3))), "", ""},
		"the same sandbox of another record is none": {
			queriesIn(guardedNode("n1", query("s", 3, func(q *v1alpha1.SandboxQuery) { q.Record = "other" }), response("s", 3, ofRecord("other")))), "", ""},
		"an earlier Node of the machine was queried":             {queriesIn(guardedNode("n0", query("s", 7), response("s", 7)), guardedNode("n1")), "n0 7", "n0 7"},
		"both were: the later one's comes first":                 {queriesIn(guardedNode("n0", query("s", 7), response("s", 7)), guardedNode("n1", query("s", 3))), "n1 3", ""},
		"in any order of the reads":                              {queriesIn(guardedNode("n1", query("s", 3)), guardedNode("n0", query("s", 7), response("s", 7))), "n1 3", ""},
		"an agent responds on another Node that was not queried": {queriesIn(guardedNode("n0", response("s", 7)), guardedNode("n1")), "", ""},
		"of both: the later one's response comes first":          {queriesIn(guardedNode("n0", response("s", 7)), guardedNode("n1", response("s", 2))), "", "n1 2"},
		"a query that stands comes before a response without one": {
			queriesIn(guardedNode("n0", query("s", 7)), guardedNode("n1", response("s", 2))), "n0 7", ""},
		"a pending query does not stand, and its response stays": {
			pending(queriesIn(guardedNode("n1", query("s", 3), response("s", 3))), QueryKey{"n1", "s"}), "", "n1 3"},
		"what is pending about another sandbox makes no difference": {
			pending(queriesIn(guardedNode("n1", query("s", 3), response("s", 3))), QueryKey{"n1", "t"}), "n1 3", "n1 3"},
		"what is pending of another Node makes no difference": {
			pending(queriesIn(guardedNode("n1", query("s", 3), response("s", 3))), QueryKey{"n0", "s"}), "n1 3", "n1 3"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.queries.About("s", "n1")
			if !got.Query.IsRead() || !got.Response.IsRead() {
				t.Fatalf("query %+v, response %+v: one was not read", got.Query, got.Response)
			}
			q, r := got.Query.Get(), got.Response.Get()
			if diff := cmp.Diff([2]string{tc.query, tc.response}, [2]string{nodeAndEpoch(got.Query.IsKnown(), q.NodeUID, q.Epoch), nodeAndEpoch(got.Response.IsKnown(), r.NodeUID, r.Epoch)}); diff != "" {
				t.Errorf("query and response (-want +got):\n%s", diff)
			}
		})
	}
}

func nodeAndEpoch(known bool, node types.UID, epoch int64) string {
	if !known {
		return ""
	}
	return string(node) + " " + string(rune('0'+epoch))
}

func TestI5QueriesThatCouldNotBeReadAreUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		queries Queries
		why     string
	}{
		"GuardedNodes could not be listed": {QueriesIn(release.Unknown[[]v1alpha1.GuardedNode]("no right"), podUID), "no right"},
		"nothing was read":                 {QueriesIn(release.Fact[[]v1alpha1.GuardedNode]{}, podUID), "it was not read"},
		"one could not be read, and another has a response": {
			Queries{Record: podUID, Objects: []v1alpha1.GuardedNode{guardedNode("n1", query("s", 3), response("s", 3, verdict(v1alpha1.VerdictReadyForRelease)))}, Unread: "n0: timeout"}, "n0: timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.queries.About("s", "n1")
			if !got.Query.IsUnknown() || !got.Response.IsUnknown() || got.Query.Why() != tc.why || got.Response.Why() != tc.why {
				t.Errorf("query %+v, response %+v; expected both to be unknown: %s", got.Query, got.Response, tc.why)
			}
		})
	}
	if q := QueriesIn(release.Absent[[]v1alpha1.GuardedNode](), podUID); q.Unread != "" || !q.About("s", "n1").Query.IsAbsent() {
		t.Errorf("GuardedNodes that were read and are not there: %+v", q)
	}
}

func TestAQueryAndItsResponseAreReadInFull(t *testing.T) {
	responded := at.Add(time.Second)
	queries := queriesIn(guardedNode("n1", query("s", 3, func(q *v1alpha1.SandboxQuery) { q.Purpose, q.OutOfService = v1alpha1.PurposeRewrite, true }),
		response("s", 3, func(r *v1alpha1.SandboxResponse) {
			r.PodUID, r.SuccessorID, r.Time = podUID, "t", metav1.NewTime(responded)
		})))
	want := release.Exchange{
		Query: release.Known(release.Query{SandboxID: "s", NodeUID: "n1", BootID: "boot", Epoch: 3, Time: at, OutOfService: true, Rewrite: true}),
		Response: release.Known(release.Response{SandboxID: "s", NodeUID: "n1", BootID: "boot", Epoch: 3, Verdict: v1alpha1.VerdictDoNotRelease, Reason: "SandboxReady",
			Time: responded, PodUID: podUID, SuccessorID: "t"}),
	}
	if got := queries.About("s", "n1"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	ofRelease := queriesIn(guardedNode("n1", query("s", 3)))
	if got := ofRelease.About("s", "n1").Query.Get(); got.Rewrite || got.OutOfService {
		t.Errorf("a query for a release is %+v", got)
	}
}

func verdict(v v1alpha1.Verdict) func(*v1alpha1.SandboxResponse) {
	return func(r *v1alpha1.SandboxResponse) { r.Verdict = v }
}

func since(d time.Duration) func(*v1alpha1.SandboxResponse) {
	return func(r *v1alpha1.SandboxResponse) { r.Time = metav1.NewTime(at.Add(d)) }
}

func TestTheLastResponseIsThatToTheQueryThatStands(t *testing.T) {
	otherBoot := func(r *v1alpha1.SandboxResponse) { r.BootID = "earlier" }
	for name, tc := range map[string]struct {
		queries Queries
		want    string
	}{
		"none":                                  {queriesIn(guardedNode("n1", query("s", 3))), ""},
		"one to the query that stands":          {queriesIn(guardedNode("n1", query("s", 3), response("s", 3))), "n1 3"},
		"one to an earlier query":               {queriesIn(guardedNode("n1", query("s", 3), response("s", 2))), "n1 2"},
		"one of an earlier boot":                {queriesIn(guardedNode("n1", query("s", 3), response("s", 3, otherBoot))), "n1 3"},
		"one without a query":                   {queriesIn(guardedNode("n1", response("s", 2))), "n1 2"},
		"that to the query, though it is older": {queriesIn(guardedNode("n0", response("s", 7, since(time.Hour))), guardedNode("n1", query("s", 3), response("s", 3))), "n1 3"},
		"of two to queries that stand the newer one": {
			queriesIn(guardedNode("n0", query("s", 7), response("s", 7)), guardedNode("n1", query("s", 3), response("s", 3, since(time.Hour)))), "n1 3"},
		"also where that was read first": {
			queriesIn(guardedNode("n1", query("s", 3), response("s", 3, since(time.Hour))), guardedNode("n0", query("s", 7), response("s", 7))), "n1 3"},
		"of two without a query the newer one":    {queriesIn(guardedNode("n0", response("s", 7, since(time.Hour))), guardedNode("n1", response("s", 3))), "n0 7"},
		"in any order of the reads":               {queriesIn(guardedNode("n1", response("s", 3)), guardedNode("n0", response("s", 7, since(time.Hour)))), "n0 7"},
		"one about another sandbox is none":       {queriesIn(guardedNode("n1", response("t", 3))), ""},
		"one about another record is none":        {queriesIn(guardedNode("n1", response("s", 3, ofRecord("other")))), ""},
		"one to a query that is to be withdrawn":  {pending(queriesIn(guardedNode("n1", query("s", 3), response("s", 3))), QueryKey{"n1", "s"}), "n1 3"},
		"GuardedNodes that were not read have no": {QueriesIn(release.Unknown[[]v1alpha1.GuardedNode]("x"), podUID), ""},
	} {
		t.Run(name, func(t *testing.T) {
			last, found := tc.queries.Last("s")
			if got := nodeAndEpoch(found, last.NodeUID, last.Epoch); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestTheEpochIsTheOneThatAChangeSupersedes: also of a pending query, so that a change by a later pass replaces the earlier one.
func TestTheEpochIsTheOneThatAChangeSupersedes(t *testing.T) {
	queries := pending(queriesIn(guardedNode("n0", query("s", 7)), guardedNode("n1", query("t", 2), query("s", 3))), QueryKey{"n1", "s"})
	for name, tc := range map[string]struct {
		node    types.UID
		sandbox string
		want    int64
	}{
		"that of the Node":                      {"n0", "s", 7},
		"that of the Node, which is pending":    {"n1", "s", 3},
		"that about the sandbox":                {"n1", "t", 2},
		"none about the sandbox":                {"n0", "t", 0},
		"none in a GuardedNode that is unknown": {"n2", "s", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := queries.Epoch(tc.node, tc.sandbox); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
	queries.Record = "other"
	if got := queries.Epoch("n1", "s"); got != 0 {
		t.Errorf("another record has epoch %d", got)
	}
}

func TestI1AQueryThatNamesAnotherPodIsMadeAgainBeforeItReleases(t *testing.T) {
	names := func(q *v1alpha1.SandboxQuery) { q.DisownedBy = "pod" }
	ready := func(r *v1alpha1.SandboxResponse) { r.Verdict = v1alpha1.VerdictReadyForRelease }
	replaced := func(r *v1alpha1.SandboxResponse) { r.Reason = string(v1alpha1.ReasonSandboxReplaced) }
	for name, tc := range map[string]struct {
		object v1alpha1.GuardedNode
		pod    types.UID
		stands bool
	}{
		"it names the pod":                              {guardedNode("n1", query("s", 3, names), response("s", 3, ready)), "pod", true},
		"it does not":                                   {guardedNode("n1", query("s", 3), response("s", 3, ready)), "pod", false},
		"it does not, and there is no response":         {guardedNode("n1", query("s", 3)), "pod", false},
		"it does not, and the response holds already":   {guardedNode("n1", query("s", 3), response("s", 3)), "pod", true},
		"it names one too many, which holds by another": {guardedNode("n1", query("s", 3, names), response("s", 3, replaced)), "", false},
		"it names one too many, and nothing of it":      {guardedNode("n1", query("s", 3, names), response("s", 3)), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			queries := queriesIn(tc.object)
			queries.Redo(tc.pod)
			if got := queries.About("s", "n1").Query.IsKnown(); got != tc.stands {
				t.Errorf("it stands: %t", got)
			}
		})
	}
}

func TestAllAreTheQueriesThatStand(t *testing.T) {
	foreign := func(q *v1alpha1.SandboxQuery) { q.Record = "other" }
	queries := pending(queriesIn(guardedNode("n0", query("s", 7), query("u", 7, foreign)), guardedNode("n1", query("s", 3), query(v1alpha1.AnySandbox, 3))), QueryKey{"n1", "s"})
	want := []QueryKey{{"n0", "s"}, {"n1", v1alpha1.AnySandbox}}
	if diff := cmp.Diff(want, queries.All()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTheReasonForNoResponseIsInTheNodesOwnGuardedNode(t *testing.T) {
	reported := release.NotResponding{Reason: "RuntimeUnreachable", Message: "no socket"}
	for name, tc := range map[string]struct {
		queries Queries
		want    release.NotResponding
	}{
		"it says nothing":             {queries: queriesIn(guardedNode("n1"))},
		"it responds":                 {queries: queriesIn(guardedNode("n1", responding(metav1.ConditionTrue)))},
		"it does not respond":         {queriesIn(guardedNode("n1", responding(metav1.ConditionFalse))), reported},
		"another one does not":        {queries: queriesIn(guardedNode("n0", responding(metav1.ConditionFalse)), guardedNode("n1"))},
		"its GuardedNode is not read": {queries: queriesIn()},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.queries.NotResponding("n1"); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// recorded is a record of sandbox s on a machine.
func recorded(machine v1alpha1.NodeIdentity) *v1alpha1.IPAllocation {
	return &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{Sandboxes: []v1alpha1.SandboxRecord{{ID: "s", Node: &machine}}}}
}

func TestI1ASandboxIsThePodsOnceTheAgentOfItsNodeSawItWithTheUID(t *testing.T) {
	seen := func(uid types.UID) func(*v1alpha1.SandboxResponse) {
		return func(r *v1alpha1.SandboxResponse) { r.PodUID = uid }
	}
	const watched, proven = v1alpha1.AttributionObservedAdd, v1alpha1.AttributionAgentSeen
	machine := v1alpha1.NodeIdentity{UID: "n1"}
	for name, tc := range map[string]struct {
		queries Queries
		record  *v1alpha1.IPAllocation
		known   v1alpha1.Attribution
		want    v1alpha1.Attribution
	}{
		"the agent has seen it with the UID":             {queriesIn(guardedNode("n1", response("s", 3, seen(podUID)))), recorded(machine), watched, proven},
		"of what is not confirmed it is more, too":       {queriesIn(guardedNode("n1", response("s", 3, seen(podUID)))), recorded(machine), v1alpha1.AttributionUnconfirmed, proven},
		"what the pod shows needs no agent":              {queriesIn(guardedNode("n1", response("s", 3, seen(podUID)))), recorded(machine), v1alpha1.AttributionNetworkStatus, v1alpha1.AttributionNetworkStatus},
		"the agent has seen it with another UID":         {queriesIn(guardedNode("n1", response("s", 3, seen("other")))), recorded(machine), watched, watched},
		"the agent never saw it":                         {queriesIn(guardedNode("n1", response("s", 3))), recorded(machine), watched, watched},
		"the agent has seen another sandbox with it":     {queriesIn(guardedNode("n1", response("t", 3, seen(podUID)))), recorded(machine), watched, watched},
		"the response is about another record":           {queriesIn(guardedNode("n1", response("s", 3, seen(podUID), ofRecord("other")))), recorded(machine), watched, watched},
		"the agent of another Node has seen it":          {queriesIn(guardedNode("n0", response("s", 3, seen(podUID)))), recorded(machine), watched, watched},
		"which machine ran it is not recorded":           {queriesIn(guardedNode("n1", response("s", 3, seen(podUID)))), &v1alpha1.IPAllocation{}, watched, watched},
		"the query is pending, and what it saw is known": {pending(queriesIn(guardedNode("n1", query("s", 3), response("s", 3, seen(podUID)))), QueryKey{"n1", "s"}), recorded(machine), watched, proven},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Attributed(tc.record, &tc.queries, podUID, "s", tc.known); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestI1TheReportThatCountsIsThatOfTheMachinesNode: that of the live Node, unless it is of another machine.
func TestI1TheReportThatCountsIsThatOfTheMachinesNode(t *testing.T) {
	machine := func(uid types.UID, id, boot string) v1alpha1.NodeIdentity {
		return v1alpha1.NodeIdentity{UID: uid, MachineID: id, SystemUUID: id, BootID: boot}
	}
	node := func(m v1alpha1.NodeIdentity) release.Fact[release.Node] {
		return release.Known(release.Node{Machine: release.MachineOf(m)})
	}
	ran := machine("n1", "m", "b")
	for name, tc := range map[string]struct {
		record *v1alpha1.IPAllocation
		node   release.Fact[release.Node]
		want   types.UID
	}{
		"the Node is the recorded one":                    {recorded(ran), node(ran), "n1"},
		"the machine has booted":                          {recorded(ran), node(machine("n1", "m", "c")), "n1"},
		"the machine has registered again":                {recorded(ran), node(machine("n2", "m", "b")), "n2"},
		"the machine has registered again after a reboot": {recorded(ran), node(machine("n2", "m", "c")), "n2"},
		"another machine has the Node's name":             {recorded(ran), node(machine("n2", "other", "c")), "n1"},
		"the Node is gone":                                {recorded(ran), release.Absent[release.Node](), "n1"},
		"the Node could not be read":                      {recorded(ran), release.Unknown[release.Node]("x"), "n1"},
		"which machine ran it is not recorded":            {&v1alpha1.IPAllocation{}, node(machine("n2", "other", "c")), "n2"},
	} {
		t.Run(name, func(t *testing.T) {
			read := Read{Evidence: release.EvidenceAgent, UID: podUID, Record: tc.record, Node: tc.node, HeldRead: release.Known(struct{}{}), Held: []Held{{}},
				Queries: queriesIn(guardedNode("n2", query("s", 2), response("s", 2)), guardedNode("n1", query("s", 1), response("s", 1)))}
			read.Held[0].SandboxID = "s"
			sandbox := read.Observation().Sandboxes.Get()[0]
			if q, r := sandbox.Query.Get(), sandbox.Response.Get(); q.NodeUID != tc.want || r.NodeUID != tc.want {
				t.Errorf("query to %s, response of %s; want those of %s", q.NodeUID, r.NodeUID, tc.want)
			}
		})
	}
}
