// SPDX-License-Identifier: Apache-2.0

package checker

import "fmt"

// Rules are what every step of a world keeps to.
type Rules[S comparable] interface {
	// Left is how often each chance may still come; the state itself is changed through it.
	Left(s *S) []uint8
	// Normalize makes states equal that differ in nothing that matters any more.
	Normalize(s *S)
}

// Turn is one state, of which the steps are wanted. C are the chances of the world.
type Turn[S comparable, C ~uint8] struct {
	Rules   Rules[S]
	From    S
	Explain bool
	Emit    func(Step[S])
}

// Say is a label, if one is wanted.
func (t *Turn[S, C]) Say(format string, args ...any) string {
	if !t.Explain {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// Owed is a step that is bound to come.
func (t *Turn[S, C]) Owed(to S, label string) { t.Step(to, label, false) }

// Chance is a step that may come as often as the scenario allows.
func (t *Turn[S, C]) Chance(c C, to S, label string) {
	t.Rules.Left(&to)[c]--
	t.Step(to, label, true)
}

// May says whether a chance is left.
func (t *Turn[S, C]) May(c C) bool { return t.Rules.Left(&t.From)[c] > 0 }

// Step is a step of either kind.
func (t *Turn[S, C]) Step(to S, label string, chance bool) {
	t.Rules.Normalize(&to)
	t.Emit(Step[S]{To: to, Label: label, Chance: chance})
}
