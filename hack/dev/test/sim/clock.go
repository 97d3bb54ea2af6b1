// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// skewed is a clock that is off by some time. Each of its timers is late by its own number of nanoseconds: timers of one instant fire in random order,
// and an agent has many of one instant, since all count from the start of a round (docs/decisions/0190).
type skewed struct {
	clock.RealClock
	by     atomic.Int64
	timers atomic.Int64
}

// Now is off.
func (c *skewed) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

// Since is measured by this clock.
func (c *skewed) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// NewTimer makes a timer.
func (c *skewed) NewTimer(d time.Duration) clock.Timer {
	late := time.Duration(c.timers.Add(1))
	return lateTimer{c.RealClock.NewTimer(d + late), late}
}

type lateTimer struct {
	clock.Timer
	late time.Duration
}

// Reset starts it again.
func (t lateTimer) Reset(d time.Duration) bool { return t.Timer.Reset(d + t.late) }
