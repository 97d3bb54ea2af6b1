// SPDX-License-Identifier: Apache-2.0

package queries

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/testing/series"
)

// change is a GuardedNode with queries about the records r1 and r2 and a response about r1, with a change.
func change(changes ...func(*v1alpha1.GuardedNode)) *v1alpha1.GuardedNode {
	object := guarded("node-1", "r1", "r2")
	object.Status.Responses = []v1alpha1.SandboxResponse{{Record: "r1", SandboxID: "a", Epoch: 1, Verdict: v1alpha1.VerdictDoNotRelease}}
	for _, c := range changes {
		c(object)
	}
	return object
}

func condition(reason string) func(*v1alpha1.GuardedNode) {
	return func(object *v1alpha1.GuardedNode) {
		object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RespondingCondition, Reason: reason}}
	}
}

func verdict(v v1alpha1.Verdict) func(*v1alpha1.GuardedNode) {
	return func(object *v1alpha1.GuardedNode) { object.Status.Responses[0].Verdict = v }
}

func TestAGuardedNodeQueuesTheRecordsWithChangedQueriesOrResponses(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after *v1alpha1.GuardedNode
		want          []string
	}{
		"it is new":       {nil, change(), []string{"r1", "r2"}},
		"it is deleted":   {change(), nil, []string{"r1", "r2"}},
		"nothing changed": {change(), change(), nil},
		"only the order":  {change(), change(func(o *v1alpha1.GuardedNode) { slices.Reverse(o.Spec.Queries) }), nil},
		"machines":        {change(), change(func(o *v1alpha1.GuardedNode) { o.Spec.Machines = make([]v1alpha1.GuardedMachine, 1) }), nil},
		"a query was made": {change(), change(func(o *v1alpha1.GuardedNode) {
			o.Spec.Queries = append(o.Spec.Queries, v1alpha1.SandboxQuery{Record: "r3"})
		}), []string{"r3"}},
		"a query was withdrawn": {change(), change(func(o *v1alpha1.GuardedNode) { o.Spec.Queries = o.Spec.Queries[:1] }), []string{"r2"}},
		"a query was replaced":  {change(), change(func(o *v1alpha1.GuardedNode) { o.Spec.Queries[1].Epoch = 2 }), []string{"r2"}},
		"a response came": {change(), change(func(o *v1alpha1.GuardedNode) {
			o.Status.Responses = append(o.Status.Responses, v1alpha1.SandboxResponse{Record: "r2"})
		}), []string{"r2"}},
		"a response went":             {change(), change(func(o *v1alpha1.GuardedNode) { o.Status.Responses = nil }), []string{"r1"}},
		"a verdict changed":           {change(), change(verdict(v1alpha1.VerdictReadyForRelease)), []string{"r1"}},
		"the agent does not respond":  {change(), change(condition("RuntimeUnreachable")), []string{"r1", "r2"}},
		"it does not, for other ends": {change(condition("RuntimeUnreachable")), change(condition("NotReady")), []string{"r1", "r2"}},
		"it says so in other words": {change(condition("RuntimeUnreachable")), change(condition("RuntimeUnreachable"), func(o *v1alpha1.GuardedNode) {
			o.Status.Conditions[0].Message = "another one"
		}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
			defer q.ShutDown()
			h := Events(func(record string) (string, bool) { return "look at " + record, record != "of another controller" })
			switch {
			case tc.before == nil:
				h.Create(t.Context(), event.TypedCreateEvent[*v1alpha1.GuardedNode]{Object: tc.after}, q)
			case tc.after == nil:
				h.Delete(t.Context(), event.TypedDeleteEvent[*v1alpha1.GuardedNode]{Object: tc.before}, q)
			default:
				h.Update(t.Context(), event.TypedUpdateEvent[*v1alpha1.GuardedNode]{ObjectOld: tc.before, ObjectNew: tc.after}, q)
			}
			var woken []string
			for q.Len() > 0 {
				request, _ := q.Get()
				woken = append(woken, strings.TrimPrefix(request, "look at "))
			}
			if diff := cmp.Diff(tc.want, woken); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

// TestARespondedRecordComesBeforeTheReplayOfAStart: of the queries that a new leader finds, those with a response come first.
func TestARespondedRecordComesBeforeTheReplayOfAStart(t *testing.T) {
	q := priorityqueue.New[string]("")
	defer q.ShutDown()
	Events(func(record string) (string, bool) { return record, true }).Create(t.Context(), event.TypedCreateEvent[*v1alpha1.GuardedNode]{Object: change(), IsInInitialList: true}, q)
	for _, want := range []struct {
		record   string
		priority int
	}{{"r1", 0}, {"r2", handler.LowPriority}} {
		if record, priority, _ := q.GetWithPriority(); record != want.record || priority != want.priority {
			t.Errorf("%s with priority %d, want %s with %d", record, priority, want.record, want.priority)
		}
	}
}

func TestARecordOfAnotherControllerIsNotQueued(t *testing.T) {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	Events(func(record string) (string, bool) { return record, record == "r2" }).Create(t.Context(), event.TypedCreateEvent[*v1alpha1.GuardedNode]{Object: change()}, q)
	if request, _ := q.Get(); request != "r2" || q.Len() != 0 {
		t.Errorf("woken %s and %d others, want r2 alone", request, q.Len())
	}
}

func TestOpenQueriesAreThoseWithoutAResponse(t *testing.T) {
	var c Counts
	step := func(what string, before, after *v1alpha1.GuardedNode, want float64) {
		t.Helper()
		c.Observe(before, after, now)
		if got := series.Value(t, metrics.Prefix+"open_queries"); got != want {
			t.Errorf("%s: %v open queries, want %v", what, got, want)
		}
	}
	first, other := change(), guarded("node-2", "r3")
	step("one of two has a response", nil, first, 1)
	step("another node has a query", nil, other, 2)
	replaced := change(func(o *v1alpha1.GuardedNode) { o.Spec.Queries[0].Epoch = 2 })
	step("the response is to an earlier query", first, replaced, 3)
	boot := change(func(o *v1alpha1.GuardedNode) { o.Status.Responses[0].BootID = "another" })
	step("the response is of another boot", replaced, boot, 3)
	step("all are withdrawn", boot, guarded("node-1"), 1)
	step("the other node is deleted", other, nil, 0)
	if len(c.open) != 0 {
		t.Errorf("counts of nodes without open queries are kept: %v", c.open)
	}
}

// counted is the increase of a counter with the labels in a step.
func counted(t *testing.T, name string, labels []string, step func()) float64 {
	t.Helper()
	before := series.Sum(t, metrics.Prefix+name, labels...)
	step()
	return series.Sum(t, metrics.Prefix+name, labels...) - before
}

func TestAResponseCountsOnceForEachQueryAndVerdict(t *testing.T) {
	open := guarded("node-1", "r1")
	responded := func(v v1alpha1.Verdict, changes ...func(*v1alpha1.GuardedNode)) *v1alpha1.GuardedNode {
		object := guarded("node-1", "r1")
		object.Status.Responses = []v1alpha1.SandboxResponse{{Record: "r1", SandboxID: "a", Epoch: 1, Verdict: v, Reason: "Test"}}
		for _, c := range changes {
			c(object)
		}
		return object
	}
	hold, free := responded(v1alpha1.VerdictDoNotRelease), responded(v1alpha1.VerdictReadyForRelease)
	for name, tc := range map[string]struct {
		before, after *v1alpha1.GuardedNode
		hold, free    float64
	}{
		"the response comes":                       {open, hold, 1, 0},
		"it is final at once":                      {open, free, 0, 1},
		"its verdict changes":                      {hold, free, 0, 1},
		"it stays":                                 {hold, hold, 0, 0},
		"it is read again":                         {hold, responded(v1alpha1.VerdictDoNotRelease, func(o *v1alpha1.GuardedNode) { o.Status.Responses[0].Time = metav1.NewTime(now) }), 0, 0},
		"it was there when this manager began":     {nil, free, 0, 0},
		"it is to an earlier query":                {open, responded(v1alpha1.VerdictDoNotRelease, func(o *v1alpha1.GuardedNode) { o.Spec.Queries[0].Epoch = 2 }), 0, 0},
		"the query is new, with a response to it":  {guarded("node-1"), hold, 1, 0},
		"the query was withdrawn, and the node is": {free, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var gotFree float64
			gotHold := counted(t, "responses_total", []string{string(v1alpha1.VerdictDoNotRelease), "Test"}, func() {
				gotFree = counted(t, "responses_total", []string{string(v1alpha1.VerdictReadyForRelease), "Test"}, func() {
					var c Counts
					c.Observe(tc.before, tc.after, now)
				})
			})
			if gotHold != tc.hold || gotFree != tc.free {
				t.Errorf("counted %v DoNotRelease and %v ReadyForRelease, want %v and %v", gotHold, gotFree, tc.hold, tc.free)
			}
		})
	}
}

func TestAQueryCountsWhenItIsWrittenByWhatItIsAbout(t *testing.T) {
	object := guarded("node-1")
	object.Generation = 4
	object.Spec.Queries = []v1alpha1.SandboxQuery{
		{SandboxID: "a", Epoch: 4}, {SandboxID: "b", Epoch: 4, OutOfService: true}, {SandboxID: v1alpha1.AnySandbox, Epoch: 4}, {SandboxID: "c", Epoch: 3}}
	for about, want := range map[string]float64{metrics.AboutSandbox: 1, metrics.AboutOutOfService: 1, metrics.AboutAny: 1, metrics.AboutAll: 0} {
		if got := counted(t, "queries_total", []string{about}, func() { Made(object) }); got != want {
			t.Errorf("about %s: %v, want %v", about, got, want)
		}
	}
}

func TestTheDurationOfAHandshakeIsFromTheQueryToItsReadyForRelease(t *testing.T) {
	open := guarded("node-1", "r1")
	open.Spec.Queries[0].Time = metav1.NewTime(now.Add(-3 * time.Second))
	free := open.DeepCopy()
	free.Status.Responses = []v1alpha1.SandboxResponse{{Record: "r1", SandboxID: "a", Epoch: 1, Verdict: v1alpha1.VerdictReadyForRelease}}
	const name = metrics.Prefix + "handshake_duration_seconds"
	sum, count := series.Sum(t, name), series.Count(t, name)
	var c Counts
	c.Observe(open, free, now)
	c.Observe(free, free, now.Add(time.Minute))
	if gotSum, gotCount := series.Sum(t, name), series.Count(t, name); gotSum-sum != 3 || gotCount-count != 1 {
		t.Errorf("%d durations of %v s, want one of 3 s", gotCount-count, gotSum-sum)
	}
}
