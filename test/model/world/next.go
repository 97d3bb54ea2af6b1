// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/test/model/checker"
)

// turn is one state, of which the steps are wanted.
type turn struct {
	m       *Model
	s       State
	explain bool
	emit    func(checker.Step[State])
}

// Next is the steps of every actor.
func (m *Model) Next(s State, explain bool, emit func(checker.Step[State])) {
	if s.over() {
		return
	}
	t := &turn{m: m, s: s, explain: explain, emit: emit}
	for i := range machines {
		t.power(i)
		t.kubelet(i)
		t.registration(i)
		t.agent(i)
	}
	for i := range boxes {
		t.runtime(i)
	}
	t.time()
	t.administrators()
	t.forger()
	t.pools()
	t.controller()
}

// say is a label, if one is wanted.
func (t *turn) say(format string, args ...any) string {
	if !t.explain {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// owed is a step that is bound to come.
func (t *turn) owed(to State, label string) { t.step(to, label, false) }

// chance is a step that may come as often as the scenario allows.
func (t *turn) chance(c Chance, to State, label string) {
	to.Left[c]--
	t.step(to, label, true)
}

func (t *turn) may(c Chance) bool { return t.s.Left[c] > 0 }

func (t *turn) step(to State, label string, chance bool) {
	t.m.normalize(&to)
	t.emit(checker.Step[State]{To: to, Label: label, Chance: chance})
}
