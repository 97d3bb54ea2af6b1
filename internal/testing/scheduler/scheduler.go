// SPDX-License-Identifier: Apache-2.0

// Package scheduler plays a simulation one step at a time, in a testing/synctest bubble: a step serves a call to the API server in
// memory, delivers an event of a watch, or lets an actor act. Time passes with each step, and where none is possible.
//
// A seed decides. Each choice is made by a hash of the seed, the number of the step and the names of the options, not by their
// order, so that an option more or less leaves most choices as they are. Every step is recorded by name and can be replayed.
package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// longestDelay keeps two steps from one instant of virtual time: the runtime fires timers of one instant in random order.
const longestDelay = 2 * time.Millisecond

// Options of a scheduler.
type Options struct {
	Seed uint64
	// Held names what cannot happen now, a call or "STREAM event"; Wake signals a change of this. Default: nothing.
	Held func(name string) bool
	// Replay is a recorded schedule. A step that is not possible when its turn comes is taken as soon as it is; where none is, the seed chooses.
	Replay []string
}

// Scheduler is a gate of an API server. Make it inside the bubble.
type Scheduler struct {
	options Options
	server  *apiserver.Server
	arrived chan struct{}

	mu       sync.Mutex
	waiting  []*waiting
	open     bool
	recorded []string
	derailed int
	// left is what of the recorded schedule was not replayed yet.
	left []string
}

// waiting is a call or an actor that waits for its turn.
type waiting struct {
	name string
	turn chan struct{}
}

// New makes a scheduler that holds everything. Serve sets its server before the first step.
func New(o Options) *Scheduler {
	return &Scheduler{options: o, arrived: make(chan struct{}, 1), left: slices.Clone(o.Replay)}
}

// Serve sets the server whose watches are scheduled; its gate is the scheduler, and it holds events.
func (s *Scheduler) Serve(server *apiserver.Server) { s.server = server }

// Pass holds a call until its turn.
func (s *Scheduler) Pass(ctx context.Context, c apiserver.Call) apiserver.Outcome {
	return apiserver.Outcome{Err: s.Turn(ctx, nameOf(ctx, c))}
}

type actor struct{}

// As names the caller in a context, for calls that are otherwise the same.
func As(ctx context.Context, who string) context.Context { return context.WithValue(ctx, actor{}, who) }

func nameOf(ctx context.Context, c apiserver.Call) string {
	name := fmt.Sprintf("%s %08x", c, digest(string(c.Body))>>32)
	if who, _ := ctx.Value(actor{}).(string); who != "" {
		name += " for " + who
	}
	return name
}

// Turn waits until the scheduler lets an actor act. The name is what the actor does next. It fails once ctx is done.
func (s *Scheduler) Turn(ctx context.Context, name string) error {
	w := &waiting{name: name, turn: make(chan struct{}, 1)}
	s.mu.Lock()
	if s.open {
		s.mu.Unlock()
		return ctx.Err()
	}
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	s.Wake()
	select {
	case <-w.turn:
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting = slices.DeleteFunc(s.waiting, func(o *waiting) bool { return o == w })
	}
	return ctx.Err()
}

// Wake has Run look again at what is possible.
func (s *Scheduler) Wake() {
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// Open lets everything pass from now on: the end of a history.
func (s *Scheduler) Open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
	for _, w := range s.waiting {
		w.turn <- struct{}{}
	}
	s.waiting = nil
}

// Run plays all steps that there are for d of virtual time.
func (s *Scheduler) Run(d time.Duration) {
	end := time.Now().Add(d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for time.Now().Before(end) {
		if s.step() {
			continue
		}
		select {
		case <-s.arrived:
		case <-timer.C:
		}
	}
}

// Recorded is the schedule so far: one line for each step.
func (s *Scheduler) Recorded() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.recorded)
}

// number is how many steps there were.
func (s *Scheduler) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.recorded)
}

// Derailed counts the steps of a replay that were not taken in their turn.
func (s *Scheduler) Derailed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.derailed
}
