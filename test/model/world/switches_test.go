// SPDX-License-Identifier: Apache-2.0

package world

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/test/model/checker"
)

// quick bounds what a test explores; make model goes to the end.
const (
	quickDepth  = 11
	quickStates = 8_000
)

func TestNoAddressIsGivenAwayEarlyWithAllRules(t *testing.T) {
	for _, scenario := range Scenarios() {
		t.Run(scenario.Name, func(t *testing.T) {
			checker.MustHold[State](t, &Model{Scenario: scenario}, checker.Options{MaxDepth: quickDepth, MaxStates: quickStates, SafetyOnly: true})
		})
	}
}

// calm is a scenario in which everybody does what they owe, and nothing happens by chance.
func calm(scenario Scenario) Scenario {
	scenario.Chances = nil
	return scenario
}

func TestEverythingIsReleasedOrExplainedWhereNothingGoesWrong(t *testing.T) {
	for _, scenario := range Scenarios() {
		if scenario.Returns || (scenario.Orphan && len(scenario.Chances) > 0) {
			continue // too many states; the one without mishap stands for all orphans
		}
		t.Run(scenario.Name, func(t *testing.T) {
			result := checker.MustHold[State](t, &Model{Scenario: calm(scenario)}, checker.Options{MaxStates: 20_000})
			if !result.Complete && result.Violation == nil {
				t.Errorf("%d states are not all", result.States)
			}
		})
	}
}

func TestSmallScenariosHoldToTheirEnd(t *testing.T) {
	for _, scenario := range Scenarios() {
		if scenario.Depth > 0 {
			continue // progress is checked only to the end of a scenario
		}
		t.Run(scenario.Name, func(t *testing.T) {
			checker.MustHold[State](t, &Model{Scenario: scenario}, checker.Options{MaxStates: 3_000})
		})
	}
}

// near are the switches whose counterexample is short enough for a test; make model finds each.
var near = map[Switch]bool{NotReadyIsGone: true, InFlightOff: true, ReplacementTrusted: true,
	ResponseKept: true, ByName: true, TaintNotQueried: true, TaintAlone: true, WriterIgnored: true, StatusCounted: true,
	NoReportPolicy: true, NoIdentityPolicy: true, ForgedMachine: true, ForgedLife: true}

func TestARuleTurnedOffIsMissed(t *testing.T) {
	for _, one := range Switches() {
		if !near[one.Switch] {
			continue
		}
		t.Run(one.Name, func(t *testing.T) {
			scenario, found := Find(one.Scenario)
			if !found {
				t.Fatalf("scenario %q does not exist", one.Scenario)
			}
			result := checker.MustExplore[State](t, &Model{Scenario: scenario, Off: one.Switch}, checker.Options{MaxStates: 30_000, SafetyOnly: !one.Holds})
			if result.Violation == nil && result.Stuck == nil {
				t.Fatalf("no harm in %d states: the model does not need the rule", result.States)
			}
		})
	}
}

func TestEverySwitchIsNamedOnceAndHasAScenario(t *testing.T) {
	seen := map[Switch]bool{}
	for _, one := range Switches() {
		if _, found := Find(one.Scenario); !found || seen[one.Switch] || one.Switch == SwitchNone {
			t.Errorf("switch %q: scenario %q found %v, named before %v", one.Name, one.Scenario, found, seen[one.Switch])
		}
		seen[one.Switch] = true
	}
	if len(seen) != int(CreationDoneLate) {
		t.Errorf("%d switches are named, expected %d", len(seen), CreationDoneLate)
	}
}

func TestVersionsAreRenumberedInOrder(t *testing.T) {
	a, b, c, none := uint8(17), uint8(3), uint8(17), uint8(0)
	renumber(&a, &b, &c, &none)
	if a != 2 || b != 1 || c != 2 || none != 0 {
		t.Errorf("got %d, %d, %d, %d; expected 2, 1, 2, 0", a, b, c, none)
	}
}

func TestAStateIsNotForgottenByNormalizing(t *testing.T) {
	m := &Model{Scenario: Scenarios()[0]}
	before := m.Initial()[0]
	after := before
	m.Normalize(&after)
	if after.over() || after.Box != before.Box || after.Entry != before.Entry || after.Pod != before.Pod {
		t.Error("normalizing changed what lives")
	}
}

func TestWhatIsPrintedNamesTheActors(t *testing.T) {
	scenario, _ := Find("deletion")
	result := checker.MustExplore[State](t, &Model{Scenario: scenario, Off: NotReadyIsGone}, checker.Options{MaxStates: 20_000, SafetyOnly: true})
	if result.Violation == nil {
		t.Fatal("no violation")
	}
	var all strings.Builder
	for _, line := range result.Violation.Lines {
		all.WriteString(line.Label + "\n")
	}
	for _, actor := range []string{"the controller", "the agent on machine 0", "another pod is given address 0"} {
		if !strings.Contains(all.String(), actor) {
			t.Errorf("the trace does not name %q:\n%s", actor, all.String())
		}
	}
}
