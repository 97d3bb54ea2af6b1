// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

const within = time.Minute

// oneAtATime has room for one open question.
func oneAtATime() (*flights, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(onepod.Now)
	return newFlights(clock, Options{Handshakes: Handshakes{MaxInFlight: 1}, Settings: release.Settings{AnswerWithin: within}}), clock
}

// stood is a question that was asked that long ago, as a record has it.
func stood(before time.Duration, epoch int64) release.Mark {
	return release.Mark{SandboxID: "sandbox", NodeUID: "node-1", BootID: "boot", Epoch: epoch, Time: onepod.Now.Add(-before)}
}

func TestAQuestionTakesItsPlaceWhoeverAskedIt(t *testing.T) {
	answered := func(epoch int64) release.Answer {
		return release.Answer{SandboxID: "sandbox", NodeUID: "node-1", BootID: "boot", Epoch: epoch, Verdict: v1alpha1.VerdictDoNotRelease}
	}
	for name, tc := range map[string]struct {
		see  func(*flights)
		want bool
	}{
		"nobody asked":                                    {func(*flights) {}, true},
		"a predecessor asked a moment ago":                {func(f *flights) { f.stands("uid", stood(time.Second, 3)) }, false},
		"a predecessor asked, and was answered since":     {func(f *flights) { f.stands("uid", stood(time.Second, 3)); f.heard("uid", answered(3)) }, true},
		"a predecessor asked for longer than one waits":   {func(f *flights) { f.stands("uid", stood(within, 3)) }, true},
		"its pod is let go":                               {func(f *flights) { f.stands("uid", stood(time.Second, 3)); f.forget("uid") }, true},
		"a late cache shows a question that was answered": {func(f *flights) { f.heard("uid", answered(3)); f.stands("uid", stood(time.Second, 3)) }, true},
		"a late cache shows an earlier question":          {func(f *flights) { f.heard("uid", answered(3)); f.stands("uid", stood(time.Second, 2)) }, true},
		"it was asked anew":                               {func(f *flights) { f.heard("uid", answered(3)); f.stands("uid", stood(time.Second, 4)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := oneAtATime()
			tc.see(f)
			if got := f.room("node-1", 1); got != tc.want {
				t.Errorf("room for another question: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestAQuestionThatIsSeenAgainTakesNoSecondPlaceAndNoLongerOne(t *testing.T) {
	f, clock := oneAtATime()
	f.stands("uid", stood(0, 3))
	clock.SetTime(onepod.Now.Add(within - time.Second))
	f.stands("uid", stood(0, 3))
	if len(f.open) != 1 || f.room("node-2", 1) {
		t.Errorf("%d questions are open, room for another one: %t", len(f.open), f.room("node-2", 1))
	}
	clock.SetTime(onepod.Now.Add(within))
	f.stands("uid", stood(0, 3))
	if !f.room("node-2", 1) {
		t.Error("a question that was silent for long keeps others waiting")
	}
}

// TestAQuestionWhoseWriteWasNotSeenCountsOnceItIsInTheRecord: the write went through, and its answer was lost.
func TestAQuestionWhoseWriteWasNotSeenCountsOnceItIsInTheRecord(t *testing.T) {
	record := onepod.RecordOfOld(onepod.OldMachine())
	record.Spec.Marks = []v1alpha1.Mark{{SandboxID: "old-sandbox", NodeUID: "node-1", BootID: "m1-boot", Epoch: 3}}
	record.Spec.Marks[0].Time.Time = onepod.Now
	f := newLife(t, record, onepod.Node("node", "node-1", "m1"))
	f.r.flights, _ = oneAtATime()
	if err := f.after(0); err != nil {
		t.Fatal(err)
	}
	if f.r.flights.room("node-2", 1) {
		t.Error("the question that stands in the record does not count")
	}
}

func TestFlightsKeepAPlaceUntilTheAnswerOrForAWhile(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(onepod.Now)
	f := newFlights(clock, Options{Handshakes: Handshakes{MaxInFlight: 3, MaxInFlightPerNode: 2},
		Settings: release.Settings{AnswerWithin: time.Minute}})
	send := func(uid types.UID, node types.UID) {
		record := askable(func(r *v1alpha1.IPAllocation) {
			r.Spec.Marks = []v1alpha1.Mark{{SandboxID: "s", NodeUID: node, Epoch: 1}}
		})
		f.sent(uid, record, []records.Question{{SandboxID: "s", NodeUID: node}})
	}
	expect := func(when string, node types.UID, questions int, want bool) {
		t.Helper()
		if got := f.room(node, questions); got != want {
			t.Errorf("%s: room for %d of %s = %t, want %t", when, questions, node, got, want)
		}
	}
	expect("nothing is open", "a", 9, true)
	send("1", "a")
	send("2", "a")
	expect("a node has as many as it may", "a", 1, false)
	expect("another node has none", "b", 1, true)
	send("3", "b")
	expect("all have as many as they may", "c", 1, false)
	f.heard("1", release.Answer{SandboxID: "s", NodeUID: "a", Epoch: 1, Verdict: v1alpha1.VerdictDoNotRelease})
	expect("one was answered", "c", 1, true)
	expect("one was answered", "a", 1, true)
	f.forget("2")
	send("4", "a")
	send("5", "c")
	expect("the places are taken again", "d", 1, false)
	clock.SetTime(onepod.Now.Add(time.Minute))
	expect("the silent ones gave their places up", "d", 3, true)
}
