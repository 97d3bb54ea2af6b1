// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/test/model/checker"
)

// quickStates bounds what a test explores; make model goes to the end.
const quickStates = 12_000

func TestNoAddressIsReleasedEarlyWithAllRules(t *testing.T) {
	for _, scenario := range Scenarios() {
		t.Run(scenario.Name, func(t *testing.T) {
			checker.MustHold[State](t, &Model{Scenario: scenario}, checker.Options{MaxStates: quickStates})
		})
	}
}

func TestEveryScenarioEndsWhereNothingGoesWrong(t *testing.T) {
	for _, scenario := range Scenarios() {
		t.Run(scenario.Name, func(t *testing.T) {
			scenario.Chances = nil
			result := checker.MustHold[State](t, &Model{Scenario: scenario}, checker.Options{MaxStates: quickStates})
			if !result.Complete {
				t.Errorf("%d states are not all", result.States)
			}
		})
	}
}

func TestARuleTurnedOffIsMissed(t *testing.T) {
	for _, one := range Switches() {
		t.Run(one.Name, func(t *testing.T) {
			scenario, found := Find(one.Scenario)
			if !found {
				t.Fatalf("scenario %q does not exist", one.Scenario)
			}
			result := checker.MustExplore[State](t, &Model{Scenario: scenario, Off: one.Switch}, checker.Options{MaxStates: quickStates, SafetyOnly: !one.Holds})
			switch {
			case result.States >= quickStates: // make model finds it
			case one.Holds && result.Stuck == nil, !one.Holds && result.Violation == nil:
				t.Errorf("no harm in %d states: the model does not need the rule", result.States)
			}
		})
	}
}

func TestEverySwitchIsNamedOnce(t *testing.T) {
	named := map[Switch]int{}
	for _, one := range append(Switches(), Relaxed()...) {
		named[one.Switch]++
		if _, found := Find(one.Scenario); !found {
			t.Errorf("%s: there is no scenario %q", one.Name, one.Scenario)
		}
	}
	want := map[Switch]int{}
	for s := SwitchNone + 1; s < switches; s++ {
		want[s] = 1
	}
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("switches (-want +got):\n%s", diff)
	}
}

func TestEveryRuleButThatOfMemoryHasASwitch(t *testing.T) {
	for rule := 1; rule <= 11; rule++ {
		found := false
		for _, one := range append(Switches(), Relaxed()...) {
			found = found || strings.HasPrefix(one.Name, fmt.Sprintf("R%d:", rule))
		}
		if !found {
			t.Errorf("R%d has no switch", rule)
		}
	}
}

func TestADelayIsMoreThanOneTick(t *testing.T) {
	cases := map[string]struct {
		ticks int
		gone  bool
	}{
		"no tick":   {ticks: 0},
		"one tick":  {ticks: 1},
		"two ticks": {ticks: 2, gone: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := &Model{}
			var s State
			away(&s)
			s.Lease = Lease{}
			for range c.ticks {
				m.turn(s, false, func(step checker.Step[State]) { s = step.To }).time()
				s.Lease.Renewed = 0
			}
			if got := m.gone(&s, s.live(), 1, 0); got != c.gone {
				t.Errorf("gone %v, expected %v", got, c.gone)
			}
		})
	}
}
