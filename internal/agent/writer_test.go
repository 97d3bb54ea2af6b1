// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// patience bounds what another goroutine does at once.
const patience = 30 * time.Second

// startWriter runs a writer on a clock that only the test moves.
func startWriter(t *testing.T, api *stubAPI) (*writer, *clocktesting.FakeClock, chan struct{}) {
	t.Helper()
	clock := newClock()
	done := make(chan struct{}, 100)
	files := writeMachine(t, bootID, "machine")
	w := newWriter(api, &identity{client: api, nodeName: nodeName, files: files, clock: clock}, clock, logr.Discard(), func(bool) { done <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return w, clock, done
}

// stepUntil moves the clock on until something is done.
func stepUntil(t *testing.T, clock *clocktesting.FakeClock, done chan struct{}) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case <-done:
			return
		case <-deadline:
			t.Fatal("it did not happen, however much time passed")
		default:
			clock.Step(writeEvery)
			runtime.Gosched()
		}
	}
}

func wait(t *testing.T, done chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it did not end")
	}
}

// says is a statement about record "a" from a version of it.
func says(from uint64, verdict v1alpha1.Verdict, epoch int64) *statement {
	return &statement{name: "a", record: "uid-of-a", nodeUID: nodeUID, bootID: bootID, version: from,
		answers: []v1alpha1.Answer{{SandboxID: "s0", NodeUID: nodeUID, Epoch: epoch, Verdict: verdict, Reason: "R", Time: metav1.NewTime(start), BootID: bootID}}}
}

func TestARecordIsWrittenAtMostOncePerSecondAndWithTheNewestWord(t *testing.T) {
	api, clock := newStubAPI(), newClock()
	w := newWriter(api, &identity{client: api, nodeName: nodeName, files: writeMachine(t, bootID, "machine"), clock: clock}, clock, logr.Discard(), func(bool) {})
	t.Cleanup(w.queue.ShutDown)
	writeNext := func() {
		name, _ := w.queue.Get()
		w.next(t.Context(), name)
		w.queue.Done(name)
	}
	w.put(says(10, v1alpha1.VerdictDoNotRelease, 1))
	writeNext()
	w.put(says(2000, v1alpha1.VerdictDoNotRelease, 2))
	w.put(says(2001, v1alpha1.VerdictReadyForRelease, 2))
	if w.queue.Len() != 0 {
		t.Fatal("written again within the second")
	}
	clock.Step(writeEvery)
	writeNext()
	writes, _ := api.count()
	if got := api.last(t).Answers; writes != 2 || got[0].Verdict != v1alpha1.VerdictReadyForRelease || got[0].Epoch != 2 {
		t.Errorf("%d writes, the last is %+v", writes, got)
	}
}

func TestAStatementFromARecordOlderThanTheLastWriteIsDropped(t *testing.T) {
	api := newStubAPI()
	w, _, done := startWriter(t, api)
	w.put(says(10, v1alpha1.VerdictDoNotRelease, 1))
	wait(t, done)
	if w.put(says(11, v1alpha1.VerdictDoNotRelease, 1)) {
		t.Error("the watch has not brought what was written, and it is written again")
	}
}

func TestTheSameStatementIsNoNews(t *testing.T) {
	w := newWriter(newStubAPI(), nil, newClock(), logr.Discard(), func(bool) {})
	w.queue.ShutDown()
	first := says(10, v1alpha1.VerdictDoNotRelease, 1)
	later := says(11, v1alpha1.VerdictDoNotRelease, 1)
	later.answers[0].Time = metav1.NewTime(start.Add(time.Minute))
	if !w.put(first) || w.put(later) {
		t.Error("a later list that says the same is news")
	}
	silent := says(11, v1alpha1.VerdictDoNotRelease, 1)
	silent.condition = &metav1.Condition{Status: metav1.ConditionFalse, Reason: "X"}
	if !w.put(silent) || w.put(silent) {
		t.Error("a silence that begins is news, once")
	}
}

func TestAFailedWriteIsTriedAgainUntilItSucceeds(t *testing.T) {
	api := newStubAPI()
	w, clock, done := startWriter(t, api)
	api.failWith(apierrors.NewInternalError(errors.New("etcd is away")))
	w.put(says(10, v1alpha1.VerdictDoNotRelease, 1))
	for range 10 {
		stepUntil(t, clock, api.tried)
	}
	api.failWith(nil)
	stepUntil(t, clock, done)
	if got := api.last(t).Answers; len(got) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestWhatIsWritten(t *testing.T) {
	api := newStubAPI()
	w, _, done := startWriter(t, api)
	s := says(10, v1alpha1.VerdictReadyForRelease, 3)
	s.condition = &metav1.Condition{Type: v1alpha1.AnsweredCondition, Status: metav1.ConditionFalse, Reason: "X"}
	w.put(s)
	wait(t, done)
	applied := api.applied[0]
	if applied.GetResourceVersion() != "10" {
		t.Errorf("applied to version %q: only the one from which it was made may be overwritten", applied.GetResourceVersion())
	}
	if applied.GetUID() != "uid-of-a" || applied.GetName() != "a" || applied.GetKind() != "IPAllocation" {
		t.Errorf("applied to %s %s, UID %q", applied.GetKind(), applied.GetName(), applied.GetUID())
	}
	for key := range applied.Object {
		if key == "spec" {
			t.Error("the spec is applied too")
		}
	}
	got := api.last(t)
	if diff := cmp.Diff(s.answers[0].Verdict, got.Answers[0].Verdict); diff != "" || len(got.Conditions) != 1 || got.State != "" {
		t.Errorf("got %+v", got)
	}
	if manager := fieldManager(s); manager != "holdfast-agent-node-uid" {
		t.Errorf("field manager %q", manager)
	}
}

func TestNothingIsSaidForANodeThatIsNotTheAgents(t *testing.T) {
	cases := map[string]func(*stubAPI){
		"registered anew":                func(s *stubAPI) { s.node.UID = "new" },
		"another machine has the name":   func(s *stubAPI) { s.node.Status.NodeInfo.BootID = "another" },
		"rebooted since":                 func(s *stubAPI) { s.node.Status.NodeInfo.BootID = "BOOT" },
		"the Node is gone":               func(s *stubAPI) { s.node = nil },
		"the token is of an earlier one": func(s *stubAPI) { s.nodeUIDs = []string{"earlier"} },
		"the token says two nodes":       func(s *stubAPI) { s.nodeUIDs = []string{string(nodeUID), "b"} },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			api := newStubAPI()
			change(api)
			w, _, done := startWriter(t, api)
			w.put(says(10, v1alpha1.VerdictReadyForRelease, 1))
			wait(t, done)
			if writes, _ := api.count(); writes != 0 {
				t.Errorf("%d writes", writes)
			}
		})
	}
}

func TestARecordThatIsAnotherByNowEndsTheMatterUntilTheWatchBringsIt(t *testing.T) {
	resource := schema.GroupResource{Group: "holdfast.dev", Resource: "ipallocations"}
	for name, err := range map[string]error{
		"gone":        apierrors.NewNotFound(resource, "a"),
		"another UID": apierrors.NewConflict(resource, "a", errors.New("precondition failed: UID")),
		"changed":     apierrors.NewConflict(resource, "a", errors.New("the object has been modified")),
	} {
		t.Run(name, func(t *testing.T) {
			api, clock := newStubAPI(), newClock()
			superseded := 0
			w := newWriter(api, &identity{client: api, nodeName: nodeName, files: writeMachine(t, bootID, "machine"), clock: clock}, clock, logr.Discard(), func(was bool) {
				if was {
					superseded++
				}
			})
			t.Cleanup(w.queue.ShutDown)
			if _, e := w.identity.fresh(t.Context()); e != nil {
				t.Fatal(e)
			}
			api.failWith(err)
			w.put(says(10, v1alpha1.VerdictReadyForRelease, 1))
			w.next(t.Context(), "a")
			if superseded != 1 || len(w.waiting) != 0 {
				t.Errorf("superseded: %d, waiting: %d", superseded, len(w.waiting))
			}
			if w.put(says(9, v1alpha1.VerdictReadyForRelease, 1)) || w.put(says(10, v1alpha1.VerdictReadyForRelease, 1)) {
				t.Error("the version that could not be written is tried again")
			}
			if !w.put(says(11, v1alpha1.VerdictReadyForRelease, 1)) {
				t.Error("what the watch brought is not written")
			}
		})
	}
}

// writeFailures is how many writes of answers have failed.
func writeFailures(t *testing.T) float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "holdfast_agent_write_failures_total" && m.GetLabel()[0].GetValue() == metrics.AgentWroteAnswer {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// A policy refuses what an agent says of another node's record; the role, or a wrong policy, what it says at all.
func TestARefusalOfARecordThatIsAnotherByNowIsNoFault(t *testing.T) {
	refusal := apierrors.NewForbidden(schema.GroupResource{Group: "holdfast.dev", Resource: "ipallocations"}, "a", errors.New("refused"))
	now := func(uid types.UID, version, node string) []v1alpha1.IPAllocation {
		return []v1alpha1.IPAllocation{
			{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "uid-of-b", ResourceVersion: "99"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: uid, ResourceVersion: version}, Spec: v1alpha1.IPAllocationSpec{NodeName: node}},
		}
	}
	cases := map[string]struct {
		records  []v1alpha1.IPAllocation
		unlisted error
		fault    bool
	}{
		"re-addressed to another node":        {records: now("uid-of-a", "11", "another")},
		"another one of its name":             {records: now("uid-of-another", "10", "")},
		"gone":                                {},
		"the very one that it was":            {records: now("uid-of-a", "10", ""), fault: true},
		"not to be read by this agent either": {unlisted: refusal, fault: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api, clock := newStubAPI(), newClock()
			api.refused, api.records, api.unlisted = refusal, tc.records, tc.unlisted
			var log strings.Builder
			superseded := 0
			w := newWriter(api, &identity{client: api, nodeName: nodeName, files: writeMachine(t, bootID, "machine"), clock: clock}, clock,
				funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{}), func(was bool) {
					if was {
						superseded++
					}
				})
			t.Cleanup(w.queue.ShutDown)
			failures := writeFailures(t)
			w.put(says(10, v1alpha1.VerdictReadyForRelease, 1))
			w.next(t.Context(), "a")
			failed := writeFailures(t) > failures
			waits := len(w.waiting) == 1
			if failed != tc.fault || waits != tc.fault || (superseded == 0) != tc.fault {
				t.Errorf("counted as a failure: %v, tried again as it is: %v, said anew: %d; expected a failure: %v", failed, waits, superseded, tc.fault)
			}
			if !strings.Contains(log.String(), "refused") || strings.Contains(log.String(), `"error"`) != tc.fault {
				t.Errorf("expected an error in the log: %v; it has %q", tc.fault, log.String())
			}
		})
	}
}

func TestAnOlderStatementNeverOverwritesANewerOne(t *testing.T) {
	ready, held := v1alpha1.VerdictReadyForRelease, v1alpha1.VerdictDoNotRelease
	cases := map[string]struct {
		play func(w *writer, clock *clocktesting.FakeClock)
		want *statement
	}{
		"an older view does not replace what waits": {func(w *writer, _ *clocktesting.FakeClock) {
			w.put(says(20, ready, 1))
			w.put(says(10, held, 1))
		}, says(20, ready, 1)},
		"a newer view does": {func(w *writer, _ *clocktesting.FakeClock) {
			w.put(says(10, held, 1))
			w.put(says(20, ready, 1))
		}, says(20, ready, 1)},
		"also where it says the same: only into that version it may be written": {func(w *writer, _ *clocktesting.FakeClock) {
			w.put(says(10, ready, 1))
			w.put(says(20, ready, 1))
		}, says(20, ready, 1)},
		"what was made while the last one was being written is not written over it": {func(w *writer, _ *clocktesting.FakeClock) {
			w.put(says(10, ready, 1))
			w.take("a")
			w.put(says(11, held, 1))
			w.note("a", 12)
		}, nil},
		"a failed write is not given back over a newer statement": {func(w *writer, _ *clocktesting.FakeClock) {
			w.put(says(10, held, 1))
			failed := w.take("a")
			w.put(says(20, ready, 1))
			w.giveBack(failed)
		}, says(20, ready, 1)},
		"a view that stays older for long is of a history that began again": {func(w *writer, clock *clocktesting.FakeClock) {
			w.note("a", 5000)
			clock.Step(lastRetry + 1)
			w.put(says(30, ready, 1))
		}, says(30, ready, 1)},
		"a view that is older for a moment is only late": {func(w *writer, clock *clocktesting.FakeClock) {
			w.note("a", 5000)
			clock.Step(lastRetry)
			w.put(says(30, held, 1))
		}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			w := newWriter(newStubAPI(), nil, clock, logr.Discard(), func(bool) {})
			t.Cleanup(w.queue.ShutDown)
			tc.play(w, clock)
			got := w.take("a")
			if (got == nil) != (tc.want == nil) {
				t.Fatalf("got %+v", got)
			}
			if got != nil && (got.version != tc.want.version || !got.equal(tc.want)) {
				t.Errorf("got version %d: %s", got.version, got.describe())
			}
		})
	}
}

func TestIdentityIsReadOnceForWritesThatMeet(t *testing.T) {
	api, clock := newStubAPI(), newClock()
	i := &identity{client: api, nodeName: nodeName, files: writeMachine(t, bootID, "machine"), clock: clock}
	for range 3 {
		if me, err := i.fresh(t.Context()); err != nil || me.nodeUID != nodeUID || me.podUID != podUID || me.bootID != bootID {
			t.Fatalf("got %+v, %v", me, err)
		}
	}
	if api.reads != 1 {
		t.Errorf("%d reads", api.reads)
	}
	clock.Step(speakerFresh)
	api.node.UID = types.UID("new")
	if me, err := i.fresh(t.Context()); err != nil || me.nodeUID != "" || me.reason != v1alpha1.ReasonNotThisMachine || me.nodeObject != "new" {
		t.Errorf("got %+v, %v", me, err)
	}
	api.failWith(errors.New("away"))
	clock.Step(speakerFresh)
	if _, err := i.fresh(t.Context()); err == nil {
		t.Error("what could not be read was taken for what was known")
	}
}
