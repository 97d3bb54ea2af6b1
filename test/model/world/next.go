// SPDX-License-Identifier: Apache-2.0

package world

import (
	"github.com/holdfast-dev/holdfast/test/model/checker"
)

// turn is one state, of which the steps are wanted.
type turn struct {
	checker.Turn[State, Chance]
	m *Model
}

// Next is the steps of every actor.
func (m *Model) Next(s State, explain bool, emit func(checker.Step[State])) {
	if s.over() {
		return
	}
	t := &turn{m: m, Turn: checker.Turn[State, Chance]{Rules: m, From: s, Explain: explain, Emit: emit}}
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

// Left is how often each chance may still come.
func (m *Model) Left(s *State) []uint8 { return s.Left[:] }
