// SPDX-License-Identifier: Apache-2.0

package agent

import "time"

const (
	// minRest is the delay between a change and its round, so that a burst of changes causes one round.
	minRest = 200 * time.Millisecond
	// roundEvery is the shortest time between two rounds that changes cause. Responses are written no more often.
	roundEvery = time.Second
	// firstRecheck is the first interval between rounds while a query is open. It doubles each time.
	firstRecheck = time.Second
)

// pace says when the next round is due: with an open query after an interval that doubles while nothing changes, at most longest; without one
// after longest.
type pace struct {
	longest time.Duration
	open    bool
	recheck time.Duration
}

// news restarts the back-off.
func (p *pace) news() { p.recheck = 0 }

// next is the time until the next round.
func (p *pace) next() time.Duration {
	if !p.open {
		return p.longest
	}
	if p.recheck == 0 {
		p.recheck = firstRecheck
	} else {
		p.recheck *= 2
	}
	p.recheck = min(p.recheck, p.longest)
	return p.recheck
}

// rest is the delay of a round that a change causes; since is the time since the last round began.
func rest(since time.Duration) time.Duration { return max(minRest, roundEvery-since) }
