// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// jugs is the riddle of the two jugs: five and three liters, four are wanted. Its shortest answer is known: six steps.
type jugs struct{ wanted uint8 }

type liters struct{ Five, Three uint8 }

func (jugs) Initial() []liters { return []liters{{}} }

func (jugs) Next(s liters, _ bool, emit func(Step[liters])) {
	pour := min(s.Five, 3-s.Three)
	back := min(s.Three, 5-s.Five)
	for _, step := range []Step[liters]{
		{To: liters{5, s.Three}, Label: "fill five"}, {To: liters{s.Five, 3}, Label: "fill three"},
		{To: liters{0, s.Three}, Label: "empty five"}, {To: liters{s.Five, 0}, Label: "empty three"},
		{To: liters{s.Five - pour, s.Three + pour}, Label: "five into three"}, {To: liters{s.Five + back, s.Three - back}, Label: "three into five"},
	} {
		emit(step)
	}
}

func (j jugs) Violation(s liters) string {
	if s.Five == j.wanted {
		return "the five-liter jug has what was wanted"
	}
	return ""
}

func (jugs) Unrest(liters) string { return "" }

func TestAViolationIsFoundByAShortestPath(t *testing.T) {
	result, err := Explore(jugs{wanted: 4}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, line := range result.Violation.Lines[1:] {
		labels = append(labels, line.Label)
	}
	want := []string{"fill five", "five into three", "empty three", "five into three", "fill five", "five into three"}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("path (-want +got):\n%s", diff)
	}
	if result.Complete || result.Violation.Steps() != 6 || result.Depth != 6 {
		t.Errorf("complete %v, steps %d, depth %d; expected false, 6, 6", result.Complete, result.Violation.Steps(), result.Depth)
	}
}

func TestEveryStateIsCountedOnce(t *testing.T) {
	result, err := Explore(jugs{wanted: 9}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// One of the two jugs is full or empty: 2 times 6 with three 0 or 3, and 2 times 2 more with five 0 or 5.
	if result.States != 16 || !result.Complete || result.Violation != nil {
		t.Errorf("got %d states, complete %v, violation %v; expected 16, true, none", result.States, result.Complete, result.Violation)
	}
}

// graph is a system that is written out: each state's steps, those by chance apart.
type graph struct {
	start         []string
	owed, chances map[string][]string
	bad, rest     string
}

func (g graph) Initial() []string { return g.start }

func (g graph) Next(s string, explain bool, emit func(Step[string])) {
	label := func(to string) string {
		if explain {
			return s + to
		}
		return ""
	}
	for _, to := range g.owed[s] {
		emit(Step[string]{To: to, Label: label(to)})
	}
	for _, to := range g.chances[s] {
		emit(Step[string]{To: to, Label: label(to), Chance: true})
	}
}

func (g graph) Violation(s string) string {
	if strings.Contains(g.bad, s) {
		return s + " is bad"
	}
	return ""
}

func (g graph) Unrest(s string) string {
	if strings.Contains(g.rest, s) {
		return ""
	}
	return s + " is no rest"
}

func TestProgress(t *testing.T) {
	cases := map[string]struct {
		system graph
		stuck  string
	}{
		"a way to rest from every state is progress": {
			system: graph{start: []string{"a"}, owed: map[string][]string{"a": {"b"}, "b": {"a", "c"}}, rest: "c"},
		},
		"a state without a way on, which is no rest, is stuck": {
			system: graph{start: []string{"a"}, owed: map[string][]string{"a": {"b", "c"}}, rest: "c"},
			stuck:  "b",
		},
		"a circle without a way out is stuck": {
			system: graph{start: []string{"a"}, owed: map[string][]string{"a": {"b", "c"}, "b": {"d"}, "d": {"b"}}, rest: "c"},
			stuck:  "b",
		},
		"progress must not rely on chance": {
			system: graph{start: []string{"a"}, owed: map[string][]string{"a": {"b"}}, chances: map[string][]string{"b": {"c"}}, rest: "c"},
			stuck:  "a",
		},
		"chance may lead to a state without a way out": {
			system: graph{start: []string{"c"}, chances: map[string][]string{"c": {"b"}}, rest: "c"},
			stuck:  "b",
		},
		"a step to the same state is no way on": {
			system: graph{start: []string{"a"}, owed: map[string][]string{"a": {"a"}}},
			stuck:  "a",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			result, err := Explore(c.system, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if result.Stuck != nil {
				got = result.Stuck.Lines[result.Stuck.Steps()].State
			}
			if got != c.stuck {
				t.Errorf("stuck in %q, expected %q", got, c.stuck)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	cases := map[string]struct {
		options Options
		states  int
	}{
		"a bound on the depth stops before deeper states": {options: Options{MaxDepth: 1}, states: 3},
		"a bound on the states stops":                     {options: Options{MaxStates: 5}, states: 5},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			result, err := Explore(jugs{wanted: 9}, c.options)
			if err != nil {
				t.Fatal(err)
			}
			if result.Complete || result.States < c.states || result.States > c.states+2 {
				t.Errorf("complete %v with %d states; expected an incomplete exploration of about %d", result.Complete, result.States, c.states)
			}
		})
	}
}

func TestAnInitialStateMayBeBad(t *testing.T) {
	result, err := Explore(graph{start: []string{"a", "b"}, bad: "b"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if result.Violation == nil || result.Violation.Steps() != 0 || result.Violation.Why != "b is bad" {
		t.Errorf("got %+v, expected a violation without a step", result.Violation)
	}
}

// fickle has steps that are no function of the state.
type fickle struct{ calls *int }

func (fickle) Initial() []int { return []int{0} }

func (f fickle) Next(s int, _ bool, emit func(Step[int])) {
	*f.calls++
	emit(Step[int]{To: s + *f.calls})
}

func (fickle) Violation(s int) string {
	if s > 3 {
		return "too much"
	}
	return ""
}

func (fickle) Unrest(int) string { return "" }

func TestATraceIsReplayed(t *testing.T) {
	if _, err := Explore(fickle{calls: new(int)}, Options{}); err == nil {
		t.Error("a system whose steps are no function of the state was believed")
	}
}

func TestProgressIsReported(t *testing.T) {
	var depths []int
	_, err := Explore(jugs{wanted: 9}, Options{Progress: func(_, depth int) { depths = append(depths, depth) }})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(depths); i++ {
		if depths[i] < depths[i-1] {
			t.Errorf("depths %v: expected them to grow", depths)
		}
	}
	if len(depths) < 3 {
		t.Errorf("%d reports, expected one for each depth", len(depths))
	}
}
