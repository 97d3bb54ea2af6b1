// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/history"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/report"
)

// scenario is one failure. Its play is the same with the guard off and on: only what comes of it differs.
type scenario struct {
	name, title, harm, guard string
	play                     func(context.Context, *stage) error
	// overlay reports whether it is about the cluster's own pod network: its nodes get
	// their addresses from a CNS, and pool is what DNC splits among them.
	overlay bool
	// bits is the length of the run's range; zero is one with two addresses.
	bits int
	// networks are made before it plays; nil is one of the whole range.
	networks func(*stage) []network
	// reconciles is its turn among those that run whereabouts' reconciler; zero is none.
	reconciles int
	// early reports whether it begins while the reconciler still runs, which it must stand.
	early bool
}

// stage is where one run of a scenario plays: a namespace, a network and two nodes of its own.
type stage struct {
	*side
	scenario  scenario
	namespace string
	pool      netip.Prefix
	// first and second are the names of the nodes.
	first, second string

	// turn is when whereabouts' reconciler may run, which looks at the whole cluster.
	turn turn

	started time.Time
	mutex   sync.Mutex
	events  []history.Event
	// lostPrefixes are leaks that no pool shows: prefixes of an overlay that no node
	// can get any more.
	lostPrefixes int
}

// note marks an event on the timeline and prints it as progress.
func (s *stage) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mutex.Lock()
	s.events = append(s.events, history.Event{At: time.Now(), Text: text})
	s.mutex.Unlock()
	s.print("guard %s, %s: %s", s.state(), s.scenario.name, text)
}

// run plays the scenario and judges what the observer saw meanwhile. The error names what the run got stuck at, or why
// its counts are not valid; what was seen until then is returned all the same, as a failed run.
func (s *stage) run(ctx context.Context) (*report.Run, error) {
	s.started = time.Now()
	err := s.playThrough(ctx)
	ended := time.Now()
	seen := s.observer.History(s.pool, s.started)
	switch {
	case err != nil:
	case len(seen.Holds()) == 0:
		err = fmt.Errorf("the observer saw no sandbox with an address of %s, so its counts mean nothing", s.pool)
	default:
		err = s.observer.Sound(s.started, ended)
	}
	run := report.Judge(seen, s.events, s.started, ended)
	run.Leaks += s.lostPrefixes
	if err != nil {
		run.Failed = true
		return run, fmt.Errorf("%s, guard %s: %w", s.scenario.name, s.state(), err)
	}
	s.print("guard %s, %s: duplicates %d, leaks %d, %.1fs", s.state(), s.scenario.name, run.Duplicates, run.Leaks, run.Seconds())
	return run, nil
}

func (s *stage) playThrough(ctx context.Context) error {
	if err := s.setUp(ctx); err != nil {
		return err
	}
	if err := s.scenario.play(ctx, s); err != nil {
		return err
	}
	if err := s.epilogue(ctx); err != nil {
		return err
	}
	return s.settle(ctx)
}

// epilogue leaves the run alone for a while, so that the observer sees what the last step led to.
func (s *stage) epilogue(ctx context.Context) error {
	until := time.Now().Add(epiloguePeriod)
	return s.await(ctx, "the observer's look at the end of the run", podTimeout, func(context.Context) (bool, string, error) {
		sample, _ := s.observer.Latest(s.pool)
		return sample.At.After(until), "no sample since", nil
	})
}

// settle waits until no entry is left of which it is still open whether it leaks.
func (s *stage) settle(ctx context.Context) error {
	noted := false
	return s.await(ctx, "every entry of an ended sandbox to be gone or to count as leaked", settleTimeout,
		func(context.Context) (bool, string, error) {
			undecided := s.observer.History(s.pool, s.started).Undecided()
			if len(undecided) == 0 {
				return true, "", nil
			}
			if !noted && !s.guard {
				noted = true
				s.print("guard %s, %s: waiting out the %s after which an entry counts as leaked", s.state(), s.scenario.name, history.LeakWindow)
			}
			u := undecided[0]
			return false, fmt.Sprintf("%s in %s still names sandbox %.8s", u.IP, u.Pool, u.SandboxID), nil
		})
}
