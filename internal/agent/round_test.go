// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

const (
	hold    = v1alpha1.VerdictDoNotRelease
	release = v1alpha1.VerdictReadyForRelease
)

func TestRound(t *testing.T) {
	alive := outcome{hold, v1alpha1.ReasonSandboxReady, "web", 1}
	gone := outcome{release, v1alpha1.ReasonSandboxAbsent, "web", 1}
	unreachable := &sandbox.Error{Reason: v1alpha1.ReasonRuntimeUnreachable, Err: errors.New("no socket")}
	cases := map[string]struct {
		query  v1alpha1.SandboxQuery
		given  outcome // an earlier response; zero for none
		boot   string  // of the earlier response
		before []handshake.Sandbox
		listed []handshake.Sandbox
		alone  bool
		err    error
		want   outcome         // zero for none
		reason v1alpha1.Reason // of the condition, and of the event, where there is no response
		writes int
	}{
		"a living sandbox":                    {query: about("web", 1), listed: []handshake.Sandbox{sandboxS0("web")}, want: alive, writes: 1},
		"a sandbox that was seen and removed": {query: about("web", 1), before: []handshake.Sandbox{sandboxS0("web")}, want: gone, writes: 1},
		"a sandbox that was never seen":       {query: about("web", 1), want: outcome{hold, v1alpha1.ReasonSandboxNotSeen, "", 1}, writes: 1},
		"what was reported already is not written again": {query: about("web", 1), given: alive, boot: bootID,
			listed: []handshake.Sandbox{sandboxS0("web")}, want: alive},
		"another epoch gets a response of its own": {query: about("web", 2), given: alive, boot: bootID, listed: []handshake.Sandbox{sandboxS0("web")},
			want: outcome{hold, v1alpha1.ReasonSandboxReady, "web", 2}, writes: 1},
		"DoNotRelease is not final":   {query: about("web", 1), given: alive, boot: bootID, want: gone, writes: 1},
		"ReadyForRelease is final":    {query: about("web", 1), given: gone, boot: bootID, listed: []handshake.Sandbox{sandboxS0("web")}, want: gone},
		"also without a list":         {query: about("web", 1), given: gone, boot: bootID, err: unreachable, want: gone, reason: v1alpha1.ReasonRuntimeUnreachable, writes: 1},
		"not for a later epoch":       {query: about("web", 2), given: gone, boot: bootID, listed: []handshake.Sandbox{sandboxS0("web")}, want: outcome{hold, v1alpha1.ReasonSandboxReady, "web", 2}, writes: 1},
		"nor from another boot":       {query: about("web", 1), given: gone, boot: "earlier", want: outcome{hold, v1alpha1.ReasonSandboxNotSeen, "", 1}, writes: 1},
		"what was seen, in this boot": {query: about("web", 2), given: alive, boot: bootID, want: outcome{release, v1alpha1.ReasonSandboxAbsent, "web", 2}, writes: 1},
		"what was seen in an earlier boot is not seen": {query: about("web", 2), given: alive, boot: "earlier",
			want: outcome{hold, v1alpha1.ReasonSandboxNotSeen, "", 2}, writes: 1},
		"what no agent saw is not seen": {query: about("web", 2), given: outcome{hold, v1alpha1.ReasonSandboxNotSeen, "", 1}, boot: bootID,
			want: outcome{hold, v1alpha1.ReasonSandboxNotSeen, "", 2}, writes: 1},
		"a runtime that cannot be reached": {query: about("web", 1), err: unreachable, reason: v1alpha1.ReasonRuntimeUnreachable, writes: 1},
		"a list that fails":                {query: about("web", 1), err: errors.New("locked"), reason: v1alpha1.ReasonListFailed, writes: 1},
		"a list without the agent's own sandbox": {query: about("web", 1), before: []handshake.Sandbox{sandboxS0("web")}, alone: true,
			reason: v1alpha1.ReasonListFailed, writes: 1},
		"a response of an earlier epoch stays until there is a new one": {query: about("web", 2), given: alive, boot: bootID, err: errors.New("locked"),
			want: alive, reason: v1alpha1.ReasonListFailed, writes: 1},
		"an out-of-service node whose runtime cannot be listed is alive": {
			query: with(about("web", 2), func(q *v1alpha1.SandboxQuery) { q.OutOfService = true }), given: alive, boot: bootID, err: errors.New("locked"),
			want: outcome{hold, v1alpha1.ReasonListFailed, "web", 2}, reason: v1alpha1.ReasonListFailed, writes: 1},
		"a UID conflict": {query: about("web", 1),
			listed: []handshake.Sandbox{sandboxS0("web"), {ID: "s1", Pod: sandboxS0("web").Pod, State: handshake.StateReady}},
			reason: v1alpha1.ReasonUIDConflict, writes: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.lister.sandboxes = tc.before
			b.take()
			b.clock.Step(time.Second)
			if tc.given != (outcome{}) {
				b.given("web", tc.given, tc.boot)
			}
			b.query(tc.query)
			b.lister.sandboxes, b.lister.alone, b.lister.err = tc.listed, tc.alone, tc.err
			for range 5 {
				b.take()
				b.clock.Step(time.Second)
			}
			if tc.want == (outcome{}) {
				b.wants("web", tc.writes)
			} else {
				b.wants("web", tc.writes, tc.want)
			}
			if tc.reason != "" {
				b.wantEvent(tc.reason)
			}
			if got, want := b.condition(), map[bool]string{true: string(v1alpha1.ReasonResponding), false: "not: " + string(tc.reason)}[tc.reason == ""]; got != want {
				t.Errorf("the condition is %q, expected %q", got, want)
			}
		})
	}
}

func TestAQueryThatComesWhileTheRuntimeIsListedWaitsForTheNextList(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.take()
	b.lister.sandboxes = nil
	b.lister.during = func() {
		b.clock.Step(time.Second)
		b.query(about("web", 1))
	}
	b.take()
	b.wants("web", 0)
	b.lister.during = nil
	b.take()
	b.wants("web", 1, outcome{release, v1alpha1.ReasonSandboxAbsent, "web", 1})
}

// The pod is being deleted, and no agent saw its sandbox: the first query is about that sandbox and, after the release, the next one about any.
func TestSandboxCreationMaxIsWaitedForOnce(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.SandboxQuery)
		want   outcome
	}{
		"queried once the pod was terminated": {func(*v1alpha1.SandboxQuery) {}, outcome{release, v1alpha1.ReasonNoSandbox, "", 2}},
		"queried while the pod lived": {func(q *v1alpha1.SandboxQuery) { q.Purpose = v1alpha1.PurposeRewrite },
			outcome{hold, v1alpha1.ReasonSandboxNotSeen, "", 2}},
		"queried because its node is out of service": {func(q *v1alpha1.SandboxQuery) { q.OutOfService = true },
			outcome{hold, v1alpha1.ReasonSandboxNotSeen, "", 2}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.query(with(about("web", 1), tc.change))
			for range 12 {
				b.take()
				b.clock.Step(time.Minute)
			}
			b.wants("web", 2, outcome{release, v1alpha1.ReasonSandboxNeverListed, "", 1})
			b.query() // its entry is released, and the query withdrawn
			b.take()
			b.clock.Step(time.Second)
			b.query(with(about("web", 2), func(q *v1alpha1.SandboxQuery) { q.SandboxID = v1alpha1.AnySandbox }))
			b.take()
			b.wants("web", 4, tc.want)
		})
	}
}

func TestNetworkNamespacesAreReadForOpenQueriesOnly(t *testing.T) {
	b := newBench(t)
	b.given("done", outcome{release, v1alpha1.ReasonSandboxAbsent, "done", 1}, bootID)
	b.api.guarded.Status.Responses[0].SandboxID = "s9"
	b.query(about("web", 1), with(about("done", 1), func(q *v1alpha1.SandboxQuery) { q.SandboxID = "s9" }))
	b.take()
	if !b.lister.queried.IDs.Has("s0") || b.lister.queried.IDs.Has("s9") {
		t.Errorf("listed for %v", b.lister.queried)
	}
}

func TestNothingIsReadFromTheAPIServerWithoutAQuery(t *testing.T) {
	b := newBench(t)
	b.take()
	before := b.api.reads + b.api.guardedReads + b.api.queryReads
	for range 100 {
		b.clock.Step(time.Minute)
		b.take()
	}
	if got := b.api.reads + b.api.guardedReads + b.api.queryReads; got != before || b.api.tries > 0 {
		t.Errorf("%d reads and %d writes in 100 rounds", got-before, b.api.tries)
	}
}

func TestProbes(t *testing.T) {
	b := newBench(t)
	if b.Healthz(nil) != nil || b.Readyz(nil) == nil {
		t.Error("before the first round the agent is alive and not ready")
	}
	b.take()
	if err := errors.Join(b.Healthz(nil), b.Readyz(nil)); err != nil {
		t.Error(err)
	}
	b.lister.err = errors.New("locked")
	b.take()
	if b.Readyz(nil) == nil {
		t.Error("ready with no list")
	}
	b.clock.Step(stuckAfter + time.Second)
	if b.Healthz(nil) == nil {
		t.Error("alive with no round")
	}
}

func TestTheAgentIsNotReadyBeforeItsWatchesHaveListed(t *testing.T) {
	for name, forget := range map[string]func(*bench){
		"of the GuardedNode":   func(b *bench) { b.own = watchedNode(nodeUID, b.clock, b.poke) },
		"of the AllNodesQuery": func(b *bench) { b.all = watchedAll(b.clock, b.poke) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			forget(b)
			b.round(t.Context())
			if b.Readyz(nil) == nil {
				t.Error("ready without having read the queries")
			}
		})
	}
}

func TestAHintCausesARoundOnlyWithAQuery(t *testing.T) {
	b := newBench(t)
	b.take()
	<-b.poked
	b.hint()
	if len(b.poked) != 0 {
		t.Error("an event of the runtime causes a round without a query")
	}
	b.query(about("web", 1))
	b.take()
	<-b.poked
	b.hint()
	if len(b.poked) != 1 {
		t.Error("an event of the runtime causes no round while a query is open")
	}
}

func TestASuccessorIsNamedInTheResponse(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.take()
	following := sandboxS0("web")
	following.ID = "s1"
	b.lister.sandboxes = []handshake.Sandbox{following}
	b.query(about("web", 1))
	b.take()
	b.wants("web", 1, outcome{hold, v1alpha1.ReasonSandboxReplaced, "web", 1})
	if got := b.api.guarded.Status.Responses[0]; got.SuccessorID != "s1" || got.BootID != bootID || got.SandboxID != "s0" {
		t.Errorf("got %+v", got)
	}
	if !b.lister.queried.Pods.Has("web") || !b.lister.queried.IDs.Has("s0") {
		t.Errorf("listed for %v", b.lister.queried)
	}
}

func TestAnOrphanRecordNamesNoPodUID(t *testing.T) {
	b := newBench(t)
	b.query(about("web", 1), about(v1alpha1.OrphanPrefix+"s0", 1))
	b.take()
	if diff := cmp.Diff([]string{"web"}, podsQueried(b)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// No record had e1, which the pod's runtime lost: it may use the address of s0, which the agent never saw.
func TestI1ADisownedSandboxIsClaimedWhileAnotherOfItsPodIsThere(t *testing.T) {
	orphan := v1alpha1.OrphanPrefix + "s0"
	disowned := with(about(orphan, 1), func(q *v1alpha1.SandboxQuery) { q.DisownedBy = "web" })
	for name, query := range map[string]func(*bench){
		"by every node": func(b *bench) {
			b.queryAll("s0")
			b.api.all.Spec.Queries[0].DisownedBy = "web"
			if err := b.all.Replace([]any{b.api.all.DeepCopy()}, ""); err != nil {
				t.Fatal(err)
			}
		},
		"by the node that has claimed it": func(b *bench) { b.query(disowned) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			other := sandboxS0("web")
			other.ID = "e1"
			b.lister.sandboxes = []handshake.Sandbox{other}
			query(b)
			for range 14 {
				b.take()
				b.clock.Step(time.Minute)
			}
			claims := b.api.guarded.Status.AllNodes
			isClaimed := claims != nil && len(claims.Claims) == 1 && claims.Claims[0].SandboxID == "s0"
			isHeld := cmp.Diff([]outcome{{hold, v1alpha1.ReasonSandboxReplaced, "", 1}}, b.responses(orphan)) == ""
			if isClaimed == isHeld {
				t.Errorf("the claims are %+v, and the responses %+v", claims, b.responses(orphan))
			}
		})
	}
}

func TestI2AClaimForAnotherSandboxOfThePodEndsWithIt(t *testing.T) {
	b := newBench(t)
	other := sandboxS0("web")
	other.ID = "e1"
	b.lister.sandboxes = []handshake.Sandbox{other}
	b.queryAll("s0")
	b.api.all.Spec.Queries[0].DisownedBy = "web"
	if err := b.all.Replace([]any{b.api.all.DeepCopy()}, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		for range 14 {
			b.take()
			b.clock.Step(time.Minute)
		}
		if got := len(b.api.guarded.Status.AllNodes.Claims); got != want {
			t.Errorf("%d claims, want %d", got, want)
		}
		b.lister.sandboxes = nil
	}
}

func podsQueried(b *bench) []string {
	var pods []string
	for uid := range b.lister.queried.Pods {
		pods = append(pods, string(uid))
	}
	return pods
}
