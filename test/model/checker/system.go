// SPDX-License-Identifier: Apache-2.0

package checker

// System is what is explored. It is a function of the state alone: the same state always has the same steps in the same order.
type System[S comparable] interface {
	// Initial is where it may begin.
	Initial() []S
	// Next calls emit for each step that can be taken in a state. Labels are only looked at if explain is set.
	Next(s S, explain bool, emit func(Step[S]))
	// Violation says which invariant the state breaks; empty if none.
	Violation(s S) string
	// Unrest says why not everything may rest in the state; empty if it may.
	Unrest(s S) string
}

// Step is a step from one state to another. One that leads to the same state is none.
type Step[S comparable] struct {
	To S
	// Label says to a person who does what.
	Label string
	// Chance marks a step that no actor owes: a crash, an action of an administrator. Progress never relies on one.
	Chance bool
}

// Named is a switch of a system, which turns one rule off, with its name and the scenario in which the rule is missed.
type Named[Switch any] struct {
	Switch Switch
	// Name is that of the rule, and Scenario that of the scenario.
	Name, Scenario string
	// Holds: the harm is not an address that is released too early, but something that is never done.
	Holds bool
}

// Line is one step of a trace.
type Line[S comparable] struct {
	Label string
	State S
}

// Trace is a way from an initial state to a bad one. Its first line is the initial state.
type Trace[S comparable] struct {
	// Why says what is wrong in the last state.
	Why   string
	Lines []Line[S]
}

// Steps is the number of steps of the trace; zero without a trace.
func (t *Trace[S]) Steps() int {
	if t == nil {
		return 0
	}
	return len(t.Lines) - 1
}
