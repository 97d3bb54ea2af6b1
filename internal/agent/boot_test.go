// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

// toBoot changes the boot of a query.
func toBoot(q v1alpha1.SandboxQuery, boot string) v1alpha1.SandboxQuery {
	q.BootID = boot
	return q
}

func TestAQueryGetsAResponseInItsBootOnly(t *testing.T) {
	absent := outcome{release, v1alpha1.ReasonSandboxAbsent, "web", 1}
	cases := map[string]struct {
		query v1alpha1.SandboxQuery
		given string // the boot of a standing ReadyForRelease to the same epoch; empty for none
		want  []outcome
	}{
		"another boot": {toBoot(about("web", 1), "earlier"), "", nil},
		"no boot":      {toBoot(about("web", 1), ""), "", nil},
		"a final response of the boot of the query stays": {toBoot(about("web", 1), "earlier"), "earlier", []outcome{absent}},
		"a response of this boot to that query stays":     {toBoot(about("web", 1), "earlier"), bootID, []outcome{absent}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
			if tc.given != "" {
				b.given("web", absent, tc.given)
			}
			outOfService := tc.query
			outOfService.OutOfService, outOfService.Record = true, "out"
			b.query(tc.query, outOfService)
			b.take()
			b.take()
			b.wants("web", 1, tc.want...)
			b.wants("out", 1)
			if got := b.condition(); got != "not: "+string(v1alpha1.ReasonNotThisMachine) {
				t.Errorf("the condition is %q", got)
			}
			b.wantEvent(v1alpha1.ReasonNotThisMachine)
		})
	}
}

func TestBootIDsAreWrittenAsTheNodeSpellsThem(t *testing.T) {
	b := newBench(t)
	b.api.node.Status.NodeInfo.BootID = "BOOT"
	b.api.guarded.Spec.Machines[0].BootID = "BOOT"
	b.query(toBoot(about("web", 1), "BOOT"))
	b.take()
	if got := b.api.guarded.Status.Responses; len(got) != 1 || got[0].BootID != "BOOT" {
		t.Errorf("got %+v", got)
	}
}

// R8: the agent reads its identity again, at most every identityRetry, while its GuardedNode is not about this boot of this machine.
func TestWhatMakesTheAgentReadItsIdentityAgain(t *testing.T) {
	machine := func(change func(*v1alpha1.GuardedMachine)) func(*bench) {
		return func(b *bench) { change(&b.api.guarded.Spec.Machines[0]); b.query() }
	}
	const never, every = 0, 2
	for name, tc := range map[string]struct {
		change func(*bench)
		want   int // reads in twice identityRetry
	}{
		"nothing":                       {func(*bench) {}, never},
		"a query to its boot":           {func(b *bench) { b.query(about("web", 1)) }, never},
		"a query to another boot":       {func(b *bench) { b.query(toBoot(about("web", 1), "next")) }, every},
		"its machine booted again":      {machine(func(m *v1alpha1.GuardedMachine) { m.BootID = "next" }), every},
		"its machine has a successor":   {machine(func(m *v1alpha1.GuardedMachine) { m.SuccessorUID = "next" }), every},
		"no Node reports its machine":   {machine(func(m *v1alpha1.GuardedMachine) { m.Gone = &v1alpha1.MachineGone{} }), every},
		"another machine has its Node":  {func(b *bench) { anotherMachine(b); b.query() }, every},
		"the GuardedNode was deleted":   {func(b *bench) { b.api.guarded = nil }, every},
		"an earlier machine had a boot": {func(b *bench) { earlierMachine(b); b.query() }, never},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.take()
			tc.change(b)
			b.take() // a write reads the identity too
			before := b.api.reads
			for range 10 {
				b.clock.Step(identityRetry / 5)
				b.take()
			}
			if got := b.api.reads - before; got != tc.want {
				t.Errorf("%d reads in twice identityRetry, expected %d", got, tc.want)
			}
			if got := b.next(); tc.want == every && got > identityRetry {
				t.Errorf("the next round is in %s", got)
			}
		})
	}
}

func anotherMachine(b *bench) {
	b.api.guarded.Spec.Machines = append([]v1alpha1.GuardedMachine{{MachineID: "another", BootID: "another"}}, b.api.guarded.Spec.Machines...)
}

func earlierMachine(b *bench) {
	b.api.guarded.Spec.Machines = append(b.api.guarded.Spec.Machines, v1alpha1.GuardedMachine{MachineID: "earlier", BootID: "earlier", Gone: &v1alpha1.MachineGone{}})
}

func TestAnotherNodeUIDIsFollowed(t *testing.T) {
	b := newBench(t)
	b.own = watchedNode("", b.clock, b.poke)
	b.round(t.Context())
	if got := next(t, b.api.watches); got != string(nodeUID) {
		t.Fatalf("watches %q", got)
	}
	b.round(t.Context())
	if object, exists, _, synced := b.own.snapshot(); !exists || !synced || object.Name != string(nodeUID) {
		t.Errorf("the watch brought %+v", object)
	}

	b.api.node.UID, b.api.guarded.Name = "anew", "anew"
	b.clock.Step(identityRetry)
	b.bring()
	b.api.guarded.Spec.Machines[0].SuccessorUID = "anew"
	b.bring()
	b.round(t.Context())
	if got := next(t, b.api.watches); got != "end of "+string(nodeUID) {
		t.Fatalf("%s: the token is not for the new Node yet", got)
	}
	if _, exists, _, synced := b.own.snapshot(); exists || synced {
		t.Error("the GuardedNode of the earlier Node UID is kept")
	}

	b.api.nodeUIDs = []string{"anew"}
	b.clock.Step(identityRetry)
	b.round(t.Context())
	if got := next(t, b.api.watches); got != "anew" {
		t.Errorf("watches %q", got)
	}
	b.unfollow()
	b.running.Wait()
}

// slowLister takes almost stuckAfter for a list.
type slowLister struct {
	*stubLister
	bounded bool
}

func (s *slowLister) List(ctx context.Context, queried sandbox.Queried) (*handshake.Listing, error) {
	_, s.bounded = ctx.Deadline()
	s.clock.Step(stuckAfter - time.Second)
	return s.stubLister.List(ctx, queried)
}

func TestARoundThatGetsOnIsAlive(t *testing.T) {
	b := newBench(t)
	slow := &slowLister{stubLister: b.lister}
	b.options.Lister = slow
	b.round(t.Context())
	b.clock.Step(stuckAfter - time.Second)
	if err := b.Healthz(nil); err != nil {
		t.Error(err)
	}
	if !slow.bounded {
		t.Error("listing the runtime has no bound")
	}
	b.clock.Step(2 * time.Second)
	if b.Healthz(nil) == nil {
		t.Error("alive without progress")
	}
}

func TestAQueryThatIsWithdrawnAndMadeAgainIsAnother(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.take()
	b.lister.sandboxes = nil
	absent := outcome{release, v1alpha1.ReasonSandboxAbsent, "web", 1}
	b.given("web", absent, bootID)
	b.query(about("web", 1))
	b.take()
	b.wants("web", 0, absent)
	b.clock.Step(time.Minute)
	b.query(about("web", 2))
	b.take()
	b.wants("web", 1, outcome{release, v1alpha1.ReasonSandboxAbsent, "web", 2})
	if at := b.api.guarded.Status.Responses[0].Time; !at.After(start) {
		t.Error("the response rests on a list from before the query")
	}
}
