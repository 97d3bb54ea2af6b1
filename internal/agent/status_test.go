// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
	"github.com/holdfast-dev/holdfast/internal/testing/series"
)

func TestAllChangesAreOneWrite(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.take()
	queries := make([]v1alpha1.SandboxQuery, 0, 100)
	for i := range 100 {
		queries = append(queries, with(about(fmt.Sprint("web-", i), 1), func(q *v1alpha1.SandboxQuery) { q.SandboxID = fmt.Sprint("s", i) }))
	}
	b.query(queries...)
	b.take()
	if writes, responses := len(b.api.written), len(b.api.guarded.Status.Responses); writes != 1 || responses != 100 {
		t.Errorf("%d responses in %d writes", responses, writes)
	}
	for range 20 {
		b.clock.Step(time.Second)
		b.take()
	}
	if b.api.tries != 1 {
		t.Errorf("%d writes without a change", b.api.tries)
	}
}

func TestAResponseIsDroppedWithItsQuery(t *testing.T) {
	absent := outcome{release, v1alpha1.ReasonSandboxAbsent, "web", 1}
	for name, tc := range map[string]struct {
		query  []v1alpha1.SandboxQuery
		want   []outcome
		writes int
	}{
		"the query stands":        {[]v1alpha1.SandboxQuery{about("web", 1)}, []outcome{absent}, 0},
		"the query was withdrawn": {nil, nil, 1},
		"a query about another sandbox of the record": {
			[]v1alpha1.SandboxQuery{with(about("web", 2), func(q *v1alpha1.SandboxQuery) { q.SandboxID = "s9" })},
			[]outcome{{hold, v1alpha1.ReasonSandboxNotSeen, "", 2}}, 1},
		"a query about another record": {[]v1alpha1.SandboxQuery{about("web-1", 2)}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.given("web", absent, bootID)
			b.query(tc.query...)
			b.take()
			b.take()
			b.wants("web", tc.writes, tc.want...)
		})
	}
}

// Messages of one reason may differ at each try.
func TestTheConditionIsWrittenOnceForEachReason(t *testing.T) {
	b := newBench(t)
	b.api.guarded.Status.Conditions = nil
	unreachable := &sandbox.Error{Reason: v1alpha1.ReasonRuntimeUnreachable, Err: errors.New("no socket")}
	for i, s := range []struct {
		err   error
		want  string
		since time.Duration // of the status, by the convention for conditions
	}{
		{nil, "Responding", 0}, {errors.New("locked"), "not: ListFailed", 3 * time.Second},
		{unreachable, "not: RuntimeUnreachable", 3 * time.Second}, {nil, "Responding", 9 * time.Second},
	} {
		b.lister.err = s.err
		for n := range 3 {
			if i == 1 {
				b.lister.err = fmt.Errorf("%w, try %d", s.err, n)
			}
			b.take()
			b.clock.Step(time.Second)
		}
		c := b.api.guarded.Status.Conditions
		if got := b.condition(); got != s.want || len(b.api.written) != i+1 || len(c) != 1 {
			t.Errorf("the condition is %q, expected %q, after %d writes: %+v", got, s.want, len(b.api.written), c)
			continue
		}
		if at := c[0].LastTransitionTime; !at.Equal(&metav1.Time{Time: start.Add(s.since)}) {
			t.Errorf("%q since %s", s.want, at)
		}
	}
}

// A query without a response does not delay the others.
func TestTheConditionHasTheReasonForNoResponse(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.query(toBoot(about("earlier", 1), "earlier"), about("web", 1))
	b.take()
	if got := b.condition(); got != "not: NotThisMachine" {
		t.Errorf("the condition is %q", got)
	}
	b.wants("web", 1, alive)
	if got := gauge(t, v1alpha1.ReasonNotThisMachine); got != 1 {
		t.Errorf("%v queries without a response", got)
	}
}

func TestALongMessageIsCut(t *testing.T) {
	b := newBench(t)
	b.lister.err = errors.New(strings.Repeat("x", 40_000))
	b.take()
	if got := len(b.api.guarded.Status.Conditions[0].Message); got != 32768 {
		t.Errorf("%d bytes; the API server accepts 32768", got)
	}
}

// gauge is the number of queries without a response for a reason.
func gauge(t *testing.T, reason v1alpha1.Reason) float64 {
	t.Helper()
	return series.Sum(t, "holdfast_agent_queries_without_response", string(reason))
}

func TestAReasonForNoResponseIsReportedOnceAndItsEndToo(t *testing.T) {
	b := newBench(t)
	b.take()
	b.query(about("web", 1), about("web-1", 1))
	b.queryAll("s0")
	b.lister.err = errors.New("locked")
	for range 3 {
		b.take()
	}
	b.wantEvent(v1alpha1.ReasonListFailed)
	if got := gauge(t, v1alpha1.ReasonListFailed); len(b.events.Events) != 0 || got != 3 {
		t.Errorf("%d more events; %v queries without a response", len(b.events.Events), got)
	}
	b.lister.err, b.lister.sandboxes = nil, []handshake.Sandbox{sandboxS0("web")}
	for range 3 {
		b.take()
	}
	if got := gauge(t, v1alpha1.ReasonListFailed); len(b.events.Events) != 1 || got != 0 {
		t.Fatalf("%d events, not the one of the end; %v queries without a response", len(b.events.Events), got)
	}
	if got := <-b.events.Events; !strings.HasPrefix(got, "Normal "+string(v1alpha1.ReasonResponding)) {
		t.Errorf("event %q", got)
	}
}
