// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

func TestANodeThatNeverHadASandboxRespondsAfterSandboxCreationMax(t *testing.T) {
	b := newBench(t)
	b.take()
	b.queryAll("s0")
	for range 11 {
		b.take()
		b.claims(0, 0)
		b.clock.Step(time.Minute - time.Second)
	}
	b.clock.Step(time.Minute)
	for range 5 {
		b.clock.Step(time.Second)
		b.take()
	}
	b.claims(1, 1)
}

func TestAClaimAndTheGenerationComeInOneWrite(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.take()
	b.queryAll("s0")
	b.query(about("web", 1)) // the response to which comes in the same write
	b.take()
	b.take()
	b.claims(1, 1, "s0 of pod web in boot")
	b.wants("web", 1, outcome{hold, v1alpha1.ReasonSandboxReady, "web", 1})
	b.queryAll("s0", "s1") // whether it has the other one is not known yet
	b.take()
	b.claims(1, 1, "s0 of pod web in boot")
}

func TestAClaimOfAnEarlierBootStandsUntilThisOneClaims(t *testing.T) {
	for name, tc := range map[string]struct {
		listed []handshake.Sandbox
		want   string
	}{
		"it is listed":     {[]handshake.Sandbox{sandboxS0("web")}, "s0 of pod web in boot"},
		"it is not listed": {nil, "s0 of pod web in earlier"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.claimed("earlier")
			b.lister.sandboxes = tc.listed
			b.queryAll("s0")
			b.take()
			b.clock.Step(time.Second)
			b.take()
			b.claims(1, 1, tc.want)
		})
	}
}

// claimed writes a claim of sandbox s0 of pod web in a boot into the GuardedNode.
func (b *bench) claimed(boot string) {
	b.t.Helper()
	b.api.guarded.Status.AllNodes = &v1alpha1.AllNodesResponse{UID: "all", Generation: 1, BootID: boot, Claims: []v1alpha1.SandboxClaim{
		{SandboxID: "s0", BootID: boot, PodUID: "web", Reason: string(v1alpha1.ReasonSandboxReady)}}}
	b.api.touch()
	b.bring()
}

func TestAnEarlierResponseOfThisNodeAndBootStands(t *testing.T) {
	for name, tc := range map[string]struct {
		uid  types.UID
		boot string
	}{
		"of this boot: nothing is written":             {"all", bootID},
		"of an earlier boot: it is written once known": {"all", "earlier"},
		"to an object that was created again":          {"before", bootID},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.api.guarded.Status.AllNodes = &v1alpha1.AllNodesResponse{UID: tc.uid, Generation: 1, BootID: tc.boot}
			b.queryAll("s0")
			b.take()
			b.take()
			b.claims(0, 1)
			for range 11 {
				b.clock.Step(time.Minute)
				b.take()
			}
			if tc.boot == bootID && tc.uid == "all" {
				b.claims(0, 1)
			} else {
				b.claims(1, 1)
			}
		})
	}
}

// The agent was restarted, and the sandbox removed, between its claim or response and the query to its node alone.
func TestARestartedAgentKnowsWhatItsPredecessorSaw(t *testing.T) {
	orphan := v1alpha1.OrphanPrefix + "s0"
	unseen := outcome{hold, v1alpha1.ReasonSandboxNotSeen, "", 2}
	seen := outcome{release, v1alpha1.ReasonSandboxAbsent, "web", 2}
	for name, tc := range map[string]struct {
		before func(b *bench)
		want   outcome
	}{
		"by nothing":                  {func(*bench) {}, unseen},
		"by its claim":                {func(b *bench) { b.claimed(bootID) }, seen},
		"by a claim of another boot":  {func(b *bench) { b.claimed("earlier") }, unseen},
		"by its response":             {func(b *bench) { b.given(orphan, outcome{hold, v1alpha1.ReasonSandboxReady, "web", 1}, bootID) }, seen},
		"by that of another boot":     {func(b *bench) { b.given(orphan, outcome{hold, v1alpha1.ReasonSandboxReady, "web", 1}, "earlier") }, unseen},
		"by one about another record": {func(b *bench) { b.given("web", outcome{hold, v1alpha1.ReasonSandboxReady, "web", 1}, bootID) }, unseen},
		"by its claim, where its response came before it saw the sandbox": {func(b *bench) {
			b.given(orphan, outcome{hold, v1alpha1.ReasonSandboxNotSeen, "", 1}, bootID)
			b.claimed(bootID)
		}, seen},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tc.before(b)
			b.query(about(orphan, 2))
			b.take()
			b.wants(orphan, 1, tc.want)
		})
	}
}

func TestAQueryToAllThatComesWhileTheRuntimeIsListedGetsNoResponseFromIt(t *testing.T) {
	b := newBench(t)
	b.take()
	b.queryAll("s0")
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	before := b.api.all
	b.lister.during = func() {
		b.queryAll("s0", "s1")
		b.api.all = before // the API server shows it a moment later
	}
	b.take()
	b.claims(1, 1, "s0 of pod web in boot")
}

// TestAQueryAfterTheCreationIsRespondedToByTheNextList: the sandbox may have been listed only after the list that the query found.
func TestAQueryAfterTheCreationIsRespondedToByTheNextList(t *testing.T) {
	done := func(b *bench) {
		b.api.all.Spec.Queries[0].CreationDone = true
		if err := b.all.Replace([]any{b.api.all.DeepCopy()}, ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("it was listed by then", func(t *testing.T) {
		b := newBench(t)
		b.take()
		b.queryAll("s0")
		b.lister.during = func() {
			b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
			done(b)
		}
		b.take()
		b.claims(0, 0)
		b.take()
		b.claims(1, 1, "s0 of pod web in boot")
	})
	t.Run("it is not here", func(t *testing.T) {
		b := newBench(t)
		b.queryAll("s0")
		done(b)
		b.take()
		b.claims(1, 1)
	})
}

// After a restore of etcd another query has the generation of the one that the watch showed before.
func TestAResponseIsToTheQueriesThatStand(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.queryAll("s0")
	b.api.all.Spec.Queries[0].SandboxID = "s9"
	b.take()
	b.claims(0, 0)
	b.query(about("web", 1)) // a response to a query to this node does not wait for them
	b.take()
	b.wants("web", 1, outcome{hold, v1alpha1.ReasonSandboxReady, "web", 1})
	if b.api.guarded.Status.AllNodes != nil {
		t.Errorf("there is a response to a query that does not stand: %+v", b.api.guarded.Status.AllNodes)
	}
}

func TestTheQueriesToAllAreReadLiveForANewResponseOnly(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.queryAll("s0")
	b.take()
	before := b.api.queryReads
	b.query(about("web", 1))
	b.take()
	b.wants("web", 2, outcome{hold, v1alpha1.ReasonSandboxReady, "web", 1})
	if got := b.api.queryReads - before; before != 1 || got != 0 {
		t.Errorf("%d reads for a claim, then %d", before, got)
	}
}

func TestAClaimIsDroppedWithItsQuery(t *testing.T) {
	b := newBench(t)
	b.claimed(bootID)
	b.queryAll("s9")
	b.take()
	if got := b.api.guarded.Status.AllNodes; len(b.api.written) != 1 || len(got.Claims) != 0 {
		t.Errorf("%d writes, %+v", len(b.api.written), got)
	}
}

// The queries are older than the response to them: for a moment, or because etcd was restored.
func TestTheGuardedNodeIsReadOftenWhileItsResponseIsNewerThanTheQueries(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.claimed(bootID)
	b.api.guarded.Status.AllNodes.Generation = 7
	b.queryAll("s0")
	before := b.api.guardedReads
	for range 120 {
		b.take()
		b.clock.Step(firstCheck)
	}
	if got := b.api.guardedReads - before; got != 120 || len(b.api.written) != 0 {
		t.Errorf("%d reads and %d writes in 120 times firstCheck", got, len(b.api.written))
	}
}
