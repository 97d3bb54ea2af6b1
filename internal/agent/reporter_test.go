// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/testing/series"
)

// queried is a bench with a query about a living sandbox, to which there is no response yet.
func queried(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.take()
	b.query(about("web", 1))
	return b
}

var alive = outcome{hold, v1alpha1.ReasonSandboxReady, "web", 1}

// The interval between tries grows up to lastRetry.
func TestAFailedWriteIsTriedAgainUntilItSucceeds(t *testing.T) {
	for name, fail := range map[string]func(*stubAPI, error){
		"the API server fails":  func(s *stubAPI, err error) { s.fail = err },
		"the write is refused":  func(s *stubAPI, err error) { s.refuse = err },
		"no live read succeeds": func(s *stubAPI, err error) { s.fail = err },
	} {
		t.Run(name, func(t *testing.T) {
			b := queried(t)
			if name == "no live read succeeds" {
				b.queryAll("s0")
			}
			before := series.Value(t, "holdfast_agent_write_failures_total")
			fail(b.api, apierrors.NewInternalError(errors.New("etcd is away")))
			failures := func() float64 { return series.Value(t, "holdfast_agent_write_failures_total") - before }
			waited := time.Duration(0)
			for _, retry := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
				b.take()
				tried := failures()
				if got := b.reporter.notBefore.Sub(b.clock.Now()); got != retry*time.Second {
					t.Errorf("after %s it is tried again in %s, not %s", waited, got, retry*time.Second)
				}
				b.clock.Step(retry*time.Second - 1)
				b.take()
				if failures() != tried {
					t.Errorf("tried before its time, after %s", waited)
				}
				if got := b.next(); got > 1 {
					t.Errorf("the next round is in %s, later than the next try", got)
				}
				b.clock.Step(1)
				waited += retry * time.Second
			}
			fail(b.api, nil)
			b.take()
			b.wants("web", 1, alive)
			if got := failures(); got != 8 || b.reporter.retry != 0 {
				t.Errorf("%v failures were counted; the next one is tried again after %s", got, b.reporter.retry)
			}
		})
	}
}

// R9: a status that was made from one version of the object is written into no other.
func TestAWriteNamesTheVersionFromWhichItWasMade(t *testing.T) {
	b := queried(t)
	failures := series.Value(t, "holdfast_agent_write_failures_total")
	// The manager withdraws the query while the agent judges it, and the watch does not show that yet.
	b.lister.during = func() {
		b.api.guarded.Spec.Queries = nil
		b.api.touch()
	}
	b.drainPokes()
	b.round(t.Context())
	if b.wants("web", 0); b.api.tries != 1 || len(b.poked) != 1 {
		t.Errorf("%d tries; %d rounds are requested", b.api.tries, len(b.poked))
	}
	b.lister.during = nil
	b.round(t.Context())
	if b.wants("web", 0); b.api.tries != 1 {
		t.Errorf("%d tries: there is nothing left to write", b.api.tries)
	}
	if series.Value(t, "holdfast_agent_write_failures_total") != failures || b.reporter.isWaiting() {
		t.Error("a conflict is counted as a failure")
	}
}

// After a restore of etcd a watch may show an outdated object, without any event.
func TestAfterAConflictTheObjectIsReadLive(t *testing.T) {
	for name, tc := range map[string]struct {
		restore func(*bench)
		want    []outcome
	}{
		"an older version of it":     {func(b *bench) { b.api.guarded.Generation, b.api.guarded.ResourceVersion = 1, "7" }, []outcome{alive}},
		"one that was created again": {func(b *bench) { b.api.guarded.UID, b.api.guarded.ResourceVersion = "anew", "7" }, []outcome{alive}},
		"another query":              {func(b *bench) { b.api.guarded.Spec.Queries[0].Epoch = 7; b.api.touch() }, []outcome{{hold, v1alpha1.ReasonSandboxReady, "web", 7}}},
		"only a condition to write":  {func(b *bench) { b.api.guarded.Spec.Queries = nil; b.api.touch() }, nil},
		"the queries were withdrawn": {func(b *bench) { b.api.guarded.Spec.Queries = nil; b.api.touch() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
			b.query(about("web-1", 1))
			b.take() // after which no other read would be due
			b.query(about("web", 1))
			if name == "only a condition to write" {
				b.query()
				b.lister.alone = true
			}
			tc.restore(b)
			for range 3 {
				b.round(t.Context())
			}
			b.wants("web", 2, tc.want...)
			if got := b.responses("web-1"); len(got) > 0 {
				t.Errorf("the response to a withdrawn query is kept: %v", got)
			}
		})
	}
}

func TestADeletedGuardedNodeIsNotWritten(t *testing.T) {
	b := queried(t)
	failures := series.Value(t, "holdfast_agent_write_failures_total")
	b.api.remove() // which the watch does not show yet
	for range 3 {
		b.round(t.Context())
	}
	if _, exists, _, _ := b.own.snapshot(); exists || b.api.tries != 1 || series.Value(t, "holdfast_agent_write_failures_total") != failures {
		t.Errorf("%d tries; treated as existing: %v", b.api.tries, exists)
	}
}

// A read may find nothing though the object was there all the time, or is created again before the read: no event of the watch would show it.
func TestAGuardedNodeThatAReadDoesNotFindIsListedAgain(t *testing.T) {
	b := queried(t)
	there := b.api.remove()
	b.round(t.Context())
	b.api.put(there)
	b.clock.Step(firstRetry)
	b.round(t.Context())
	if got := next(t, b.api.watches); got != string(nodeUID) {
		t.Fatalf("watches %q", got)
	}
	b.round(t.Context())
	if len(b.api.written) != 1 || len(b.api.written[0].Responses) != 1 {
		t.Errorf("written: %+v", b.api.written)
	}
	b.unfollow()
	b.running.Wait()
}

func TestAResourceThatIsNotServedIsNoAbsentGuardedNode(t *testing.T) {
	b := queried(t)
	me, _ := b.identity.known()
	seen := b.see(me)
	b.api.fail = apierrors.NewGenericServerResponse(http.StatusNotFound, "get", guardedNodes, string(nodeUID), "404 page not found", 0, true)
	err := b.checkStatus(t.Context(), seen, me)
	if _, exists, _, _ := b.own.snapshot(); !exists || err == nil || !b.reporter.isWaiting() {
		t.Errorf("treated as existing: %t; error %v; tried again after a while: %t", exists, err, b.reporter.isWaiting())
	}
}

func TestNothingIsWrittenForAnotherNode(t *testing.T) {
	cases := map[string]func(*stubAPI){
		"registered again":               func(s *stubAPI) { s.node.UID = "new" },
		"another machine has the name":   func(s *stubAPI) { s.node.Status.NodeInfo.BootID = "another" },
		"rebooted since":                 func(s *stubAPI) { s.node.Status.NodeInfo.BootID = "BOOT" },
		"the Node was deleted":           func(s *stubAPI) { s.node = nil },
		"the token is of an earlier one": func(s *stubAPI) { s.nodeUIDs = []string{"earlier"} },
		"the token has two Node UIDs":    func(s *stubAPI) { s.nodeUIDs = []string{string(nodeUID), "b"} },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			b := queried(t)
			b.drainPokes()
			change(b.api)
			b.round(t.Context())
			if b.api.tries != 0 || len(b.poked) != 1 {
				t.Errorf("%d tries; %d rounds are requested", b.api.tries, len(b.poked))
			}
			if b.reporter.isWaiting() {
				t.Error("another Node is counted as a failure")
			}
		})
	}
}

func TestAResponseIsLoggedWithItsReason(t *testing.T) {
	b := queried(t)
	var log strings.Builder
	b.log = funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{})
	b.take()
	b.take()
	if got := log.String(); strings.Count(got, "Responded") != 1 || !strings.Contains(got, "the runtime lists the sandbox as ready") {
		t.Errorf("got %q", got)
	}
}

func TestTheIdentityIsReadLive(t *testing.T) {
	api, clock := newStubAPI(), newClock()
	i := &identity{client: api, nodeName: nodeName, files: writeMachine(t, bootID, "machine"), clock: clock}
	if me, err := i.fresh(t.Context()); err != nil || me.nodeUID != nodeUID || me.podUID != podUID || me.bootID != bootID {
		t.Fatalf("got %+v, %v", me, err)
	}
	api.node.UID = types.UID("new")
	if me, err := i.fresh(t.Context()); err != nil || me.nodeUID != "" || me.reason != v1alpha1.ReasonNotThisMachine || me.nodeObject != "new" {
		t.Errorf("got %+v, %v", me, err)
	}
	api.fail = errors.New("away")
	clock.Step(time.Second)
	if _, err := i.fresh(t.Context()); err == nil {
		t.Error("a failed read gave the earlier identity")
	}
	if _, at := i.known(); !at.Equal(start) {
		t.Errorf("the known identity is of %s", at)
	}
}

func TestTheGuardedNodeIsReadLessAndLessOften(t *testing.T) {
	for name, query := range map[string]func(*bench){
		"a query to the node":  func(b *bench) { b.query(about("web", 1)) },
		"a query to all nodes": func(b *bench) { b.queryAll("s0") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
			query(b)
			b.take()
			reads := func() int {
				before := b.api.guardedReads
				for range 120 {
					b.clock.Step(time.Minute)
					b.take()
				}
				return b.api.guardedReads - before
			}
			if first := reads(); first == 0 || first > 12 {
				t.Errorf("%d reads in two hours", first)
			}
			if later := reads(); later != int(2*time.Hour/lastCheck) {
				t.Errorf("%d reads in the next two hours", later)
			}
			if got := len(b.api.written); got != 1 {
				t.Errorf("%d writes", got)
			}
		})
	}
}

// Etcd was restored, or another client wrote, and the watch does not show it.
func TestARemovedResponseIsWrittenAgain(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.query(about("web", 1))
	b.queryAll("s0")
	b.take()
	b.bring()
	b.api.guarded.Status.AllNodes, b.api.guarded.Status.Responses = nil, nil
	b.api.touch()
	b.round(t.Context())
	b.claims(1, 1, "s0 of pod web in boot")
	b.clock.Step(firstCheck)
	b.round(t.Context())
	b.round(t.Context())
	b.claims(2, 1, "s0 of pod web in boot")
	b.wants("web", 2, alive)
}
