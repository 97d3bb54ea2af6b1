// SPDX-License-Identifier: Apache-2.0

package release

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOneDecisionHasItsConsequences draws observations with two sandboxes: mode Shadow withholds the action of mode Guard and decides the rest as
// if it was done, and a Confirm has the decision that follows.
func TestOneDecisionHasItsConsequences(t *testing.T) {
	const draws = 50_000
	random := rand.New(rand.NewPCG(3, 4))
	seen := map[Action]int{}
	for range draws {
		o := terminating()
		for _, a := range axes {
			a[random.IntN(len(a))](&o)
		}
		exchanges[random.IntN(len(exchanges))](&o)
		if o.Sandboxes.IsKnown() && random.IntN(2) == 0 {
			o.Sandboxes = Known(append([]Sandbox{sandbox("other")}, o.Sandboxes.Get()...))
		}
		guard := Decide(o, now)
		seen[guard.Aim()]++
		if guard.Aim() == Confirm && (guard.Then == nil || (guard.Then.Action != Wait && guard.Then.Action != Keep)) {
			t.Fatalf("nothing to wait for after the query: %+v for %+v", guard, o)
		}
		checkShadow(t, o, guard)
	}
	if seen[Confirm] == 0 || seen[Release] == 0 || seen[Disown] == 0 {
		t.Errorf("the draws miss cases: %v", seen)
	}
}

// checkShadow compares the decision in mode Shadow with that in mode Guard.
func checkShadow(t *testing.T, o Observation, guard Decision) {
	t.Helper()
	o.Withholds = true
	shadow := Decide(o, now)
	if guard.Aim() != Release && guard.Aim() != Disown {
		if diff := cmp.Diff(guard, shadow); diff != "" {
			t.Fatalf("mode Shadow decides differently (-Guard +Shadow):\n%s", diff)
		}
		return
	}
	rest := o.without(&guard)
	rest.Withholds = false
	switch left := Decide(rest, now); {
	case shadow.Withheld == nil || shadow.Aim() != guard.Aim() || !cmp.Equal(shadow.Withheld.Sandboxes, guard.Sandboxes):
		t.Fatalf("Shadow withholds %+v, Guard does %+v", shadow.Withheld, guard)
	case !o.Live && shadow.Action != Reread:
		t.Fatalf("withheld on cached facts: %+v", shadow)
	case o.Live && (shadow.Action != left.Action || shadow.Row != left.Row):
		t.Fatalf("the rest is %+v, without the sandboxes it would be %+v", shadow, left)
	}
}
