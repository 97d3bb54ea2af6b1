// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"fmt"
)

// Options bound and watch an exploration.
type Options struct {
	// MaxStates ends it, incomplete; zero does not bound it.
	MaxStates int
	// MaxDepth is the greatest number of steps from an initial state; zero does not bound it.
	MaxDepth int
	// Progress, if set, is called at each new depth and every few thousand states.
	Progress func(states, depth int)
	// SafetyOnly leaves progress out, and with it the memory for the steps.
	SafetyOnly bool
}

// Result is what an exploration found.
type Result[S comparable] struct {
	// States, Steps and Depth are how far it came.
	States, Steps, Depth int
	// Complete: every reachable state was looked at. It is false after a violation, and where a bound ended the exploration.
	Complete bool
	// Violation is a shortest way to a state that breaks an invariant; nil if there is none.
	Violation *Trace[S]
	// Stuck is a shortest way to a state from which nothing leads to rest; nil if there is none, or if that was not looked at.
	Stuck *Trace[S]
}

// reportEvery is the number of states between two calls of Progress.
const reportEvery = 8192

// noParent is the parent of an initial state.
const noParent = ^uint32(0)

// explorer is one exploration. States are numbered in the order in which they are found.
type explorer[S comparable] struct {
	system  System[S]
	options Options
	index   map[S]uint32
	states  []S
	parent  []uint32
	steps   int
	// owed are the steps that are no chance, as pairs of states.
	owed []edge
}

type edge struct{ from, to uint32 }

// Explore looks at every state that the system can reach within the bounds. It fails where the system is none: a trace that cannot be
// replayed.
func Explore[S comparable](system System[S], options Options) (Result[S], error) {
	e := &explorer[S]{system: system, options: options, index: map[S]uint32{}}
	for _, s := range system.Initial() {
		e.add(s, noParent)
	}
	result, bad := e.search()
	switch {
	case bad != noParent:
		var err error
		result.Violation, err = e.trace(bad, system.Violation(e.states[bad]))
		return result, err
	case !result.Complete || options.SafetyOnly:
		return result, nil
	}
	stuck := e.stuck()
	if stuck == noParent {
		return result, nil
	}
	var err error
	result.Stuck, err = e.trace(stuck, system.Unrest(e.states[stuck]))
	return result, err
}

// add numbers a state, unless it is known.
func (e *explorer[S]) add(s S, parent uint32) (uint32, bool) {
	if known, ok := e.index[s]; ok {
		return known, false
	}
	number := uint32(len(e.states))
	e.index[s] = number
	e.states = append(e.states, s)
	e.parent = append(e.parent, parent)
	return number, true
}

// search is the breadth-first search. The number is that of the first state that breaks an invariant.
func (e *explorer[S]) search() (Result[S], uint32) {
	result := Result[S]{}
	for number := range e.states {
		if e.system.Violation(e.states[number]) != "" {
			return e.count(result, false), uint32(number)
		}
	}
	done, level := 0, len(e.states)
	for ; done < len(e.states); done++ {
		if done == level {
			result.Depth++
			level = len(e.states)
			e.report(result.Depth)
		}
		if e.over(result.Depth) {
			return e.count(result, false), noParent
		}
		if bad := e.expand(uint32(done), result.Depth); bad != noParent {
			result.Depth++
			return e.count(result, false), bad
		}
	}
	return e.count(result, true), noParent
}

func (e *explorer[S]) count(result Result[S], complete bool) Result[S] {
	result.States, result.Steps, result.Complete = len(e.states), e.steps, complete
	e.report(result.Depth)
	return result
}

// over: the bounds do not allow another state to be expanded.
func (e *explorer[S]) over(depth int) bool {
	return (e.options.MaxDepth > 0 && depth >= e.options.MaxDepth) || (e.options.MaxStates > 0 && len(e.states) >= e.options.MaxStates)
}

func (e *explorer[S]) report(depth int) {
	if e.options.Progress != nil {
		e.options.Progress(len(e.states), depth)
	}
}

// expand takes every step of one state; the number is that of a new state that breaks an invariant.
func (e *explorer[S]) expand(from uint32, depth int) uint32 {
	bad := noParent
	origin := e.states[from]
	e.system.Next(origin, false, func(step Step[S]) {
		if bad != noParent || step.To == origin {
			return
		}
		e.steps++
		to, fresh := e.add(step.To, from)
		if !step.Chance && !e.options.SafetyOnly {
			e.owed = append(e.owed, edge{from: from, to: to})
		}
		if !fresh {
			return
		}
		if len(e.states)%reportEvery == 0 {
			e.report(depth)
		}
		if e.system.Violation(step.To) != "" {
			bad = to
		}
	})
	return bad
}

// stuck is the first state that is found from which no owed steps lead to rest; noParent if there is none.
func (e *explorer[S]) stuck() uint32 {
	good := make([]bool, len(e.states))
	var open []uint32
	for number := range e.states {
		if e.system.Unrest(e.states[number]) == "" {
			good[number] = true
			open = append(open, uint32(number))
		}
	}
	first, back := reversed(e.owed, len(e.states))
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		for _, before := range back[first[at]:first[at+1]] {
			if !good[before] {
				good[before] = true
				open = append(open, before)
			}
		}
	}
	for number := range good {
		if !good[number] {
			return uint32(number)
		}
	}
	return noParent
}

// reversed sorts the steps by where they lead: those to a state n come from back[first[n]:first[n+1]].
func reversed(edges []edge, states int) (first []uint32, back []uint32) {
	first = make([]uint32, states+1)
	for _, e := range edges {
		first[e.to+1]++
	}
	for n := range states {
		first[n+1] += first[n]
	}
	at := append([]uint32(nil), first[:states]...)
	back = make([]uint32, len(edges))
	for _, e := range edges {
		back[at[e.to]] = e.from
		at[e.to]++
	}
	return first, back
}

// trace walks back to an initial state and replays the way from there.
func (e *explorer[S]) trace(bad uint32, why string) (*Trace[S], error) {
	var path []S
	for at := bad; at != noParent; at = e.parent[at] {
		path = append([]S{e.states[at]}, path...)
	}
	return Replay(e.system, path, why)
}

// Replay takes the steps of a path once more, from its first state, and writes down what they are. It fails at a step that the system
// does not have.
func Replay[S comparable](system System[S], path []S, why string) (*Trace[S], error) {
	trace := &Trace[S]{Why: why, Lines: []Line[S]{{State: path[0]}}}
	for i := 1; i < len(path); i++ {
		label, found := "", false
		system.Next(path[i-1], true, func(step Step[S]) {
			if !found && step.To == path[i] {
				label, found = step.Label, true
			}
		})
		if !found {
			return trace, fmt.Errorf("replaying a trace: step %d leads to a state that the system does not reach from there: its steps are no function of the state", i)
		}
		trace.Lines = append(trace.Lines, Line[S]{Label: label, State: path[i]})
	}
	return trace, nil
}
