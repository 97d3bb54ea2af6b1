// SPDX-License-Identifier: Apache-2.0

// Package backoff is how long a controller waits before it tries again what failed.
package backoff

import (
	"time"

	"k8s.io/client-go/util/workqueue"
)

// First and Last bound the wait: nothing is given up, and nothing waits for a quarter of an hour because calls failed for a minute.
const (
	First = 5 * time.Millisecond
	Last  = 30 * time.Second
)

// A cache that is behind is left to catch up for CatchUp where no event may show that it has. A record's own event shows it, so that a look without
// it is only needed where the event is missing: then after EventOverdue.
const (
	CatchUp      = 250 * time.Millisecond
	EventOverdue = 2 * time.Second
)

// AfterStart is what a new leader leaves to the releases that waited for it before it looks through everything.
const AfterStart = 10 * time.Second

// RateLimiter is the back-off: twice as long after each failure of an item, up to last.
func RateLimiter[T comparable](last time.Duration) workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[T](First, last)
}
