// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

// ofBoot changes for which boot a record's mark asks.
func ofBoot(record *v1alpha1.IPAllocation, boot string) *v1alpha1.IPAllocation {
	record.Spec.Marks[0].BootID = boot
	return record
}

func TestAMarkIsAnsweredInItsBootOnly(t *testing.T) {
	ready, absent := v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent
	cases := map[string]struct {
		record *v1alpha1.IPAllocation
		want   []outcome // nil: nothing is written
		silent bool
	}{
		"another boot": {ofBoot(marked("web", 90, nodeUID, 1), "earlier"), []outcome{}, true},
		"no boot: nobody could tell for which the answer is":    {ofBoot(marked("web", 90, nodeUID, 1), ""), []outcome{}, true},
		"an answer of another boot to the same epoch, silent":   {answeredBefore(ofBoot(marked("web", 90, nodeUID, 1), "earlier"), ready, absent, "web", "earlier", 1), []outcome{{ready, absent, "web", 1}}, true},
		"an answer of another boot to the same epoch, answered": {answeredBefore(marked("web", 90, nodeUID, 1), ready, absent, "web", "earlier", 1), []outcome{{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, "", 1}}, false},
		"ReadyForRelease of an earlier epoch is not final":      {answeredBefore(marked("web", 90, nodeUID, 2), ready, absent, "", bootID, 1), []outcome{{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, "", 2}}, false},
		"ReadyForRelease of this epoch and boot is final":       {answeredBefore(marked("web", 90, nodeUID, 1), ready, absent, "", bootID, 1), nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.list(t, tc.record)
			b.round(t.Context())
			if diff := cmp.Diff(tc.want, b.said("web")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			s := b.writer.waiting["web"]
			if silent := s != nil && s.condition != nil && s.condition.Reason == string(v1alpha1.ReasonNotThisMachine); silent != tc.silent {
				t.Errorf("silent: %t", silent)
			}
		})
	}
}

func TestAMarkOfAnotherBootMakesTheAgentLookWhoItIs(t *testing.T) {
	b := newBench(t)
	b.round(t.Context())
	b.list(t, ofBoot(marked("web", 90, nodeUID, 1), "next"))
	before := b.api.reads
	for range 10 {
		b.clock.Step(identityRetry / 5)
		b.round(t.Context())
	}
	if got := b.api.reads - before; got != 2 {
		t.Errorf("%d reads in twice identityRetry", got)
	}
}

func TestBootIDsAreSaidAsTheNodeSpellsThem(t *testing.T) {
	b := newBench(t)
	b.api.node.Status.NodeInfo.BootID = "BOOT"
	b.list(t, ofBoot(marked("web", 90, nodeUID, 1), "BOOT"))
	b.round(t.Context())
	if s := b.writer.waiting["web"]; s == nil || len(s.answers) != 1 || s.answers[0].BootID != "BOOT" {
		t.Errorf("got %+v", s)
	}
}

// slowLister takes as long as the test says for a list.
type slowLister struct {
	*stubLister
	bounded bool
}

func (s *slowLister) List(ctx context.Context, asked sandbox.Asked) (*handshake.Listing, error) {
	_, s.bounded = ctx.Deadline()
	s.clock.Step(stuckAfter - time.Second)
	return s.stubLister.List(ctx, asked)
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
		t.Error("the look at the runtime has no bound")
	}
	b.clock.Step(2 * time.Second)
	if b.Healthz(nil) == nil {
		t.Error("alive although nothing got on")
	}
}

func TestABurstOfEventsIsOneRound(t *testing.T) {
	b := newBench(t)
	for i := range int64(50) {
		record := marked("web", 100+i, nodeUID, i+1)
		if err := b.own.Update(record); err != nil {
			t.Fatal(err)
		}
	}
	b.settlePokes()
	if len(b.poked) != 0 {
		t.Error("the round that begins now will see them all, and another one is asked for")
	}
}

func TestAnswersThatWereWrittenAskForNoRoundOfTheirOwn(t *testing.T) {
	b := newBench(t)
	b.settlePokes()
	b.written(false)
	if len(b.poked) != 0 {
		t.Error("the watch brings what was written")
	}
	b.written(true)
	if len(b.poked) != 1 {
		t.Error("what could not be written is forgotten")
	}
}

func TestAMarkTakenBackAndSetAgainIsAnotherQuestion(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.round(t.Context())
	b.lister.sandboxes = nil
	first := marked("web", 90, nodeUID, 1)
	b.list(t, answeredBefore(first, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "web", bootID, 1))
	b.round(t.Context())
	if got := b.said("web"); got != nil {
		t.Fatalf("said again: %v", got)
	}
	next := answeredBefore(marked("web", 95, nodeUID, 2), v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "web", bootID, 1)
	next.Status.Answers[0].Time = metav1.NewTime(start)
	b.clock.Step(time.Minute)
	b.list(t, next)
	b.round(t.Context())
	if diff := cmp.Diff([]outcome{{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "web", 2}}, b.said("web")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if at := b.writer.waiting["web"].answers[0].Time; !at.Time.After(start) {
		t.Error("answered by a list of before")
	}
}
