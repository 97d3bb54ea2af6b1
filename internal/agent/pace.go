// SPDX-License-Identifier: Apache-2.0

package agent

import "time"

const (
	// minRest lies between something new and the round that it causes: a burst is one round.
	minRest = 200 * time.Millisecond
	// roundEvery is the least time between two rounds that something new caused. Responses are written no more often either.
	roundEvery = time.Second
	// firstRecheck is how soon after something new an open query is looked at again; then twice as long every time.
	firstRecheck = time.Second
)

// pace says when the next round is due: with open queries soon after anything new and ever later while nothing changes, at
// the latest as often as without any.
type pace struct {
	longest time.Duration
	open    bool
	recheck time.Duration
}

// news starts the back-off again.
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

// rest is how long a round that something new causes has to wait, so long after the last round began.
func rest(since time.Duration) time.Duration { return max(minRest, roundEvery-since) }
