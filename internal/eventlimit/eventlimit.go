// SPDX-License-Identifier: Apache-2.0

// Package eventlimit bounds how many events there are, and how long their notes and other texts are.
package eventlimit

import (
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Options are the bounds.
type Options struct {
	// Interval is how long there is no second event about one object for one reason.
	Interval time.Duration
	// Memory is of how many objects and reasons it is known when there was one.
	Memory int
	// PerSecond and Burst bound the events about all objects together.
	PerSecond float32
	Burst     int
}

// Limit keeps what finds the same again and again from flooding the API server with events. It is safe for concurrent use.
type Limit struct {
	clock    clock.PassiveClock
	interval time.Duration
	total    flowcontrol.PassiveRateLimiter
	mu       sync.Mutex
	last     *lru.Cache
}

type key struct {
	about  types.UID
	reason v1alpha1.Reason
}

// New is a limit that has seen no event.
func New(c clock.PassiveClock, o Options) *Limit {
	return &Limit{clock: c, interval: o.Interval, last: lru.New(o.Memory), total: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(o.PerSecond, o.Burst, c)}
}

// Allow reports whether there may be an event now, and counts it.
func (l *Limit) Allow(about types.UID, reason v1alpha1.Reason) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, k := l.clock.Now(), key{about, reason}
	if at, seen := l.last.Get(k); seen && now.Sub(at.(time.Time)) < l.interval {
		return false
	}
	if !l.total.TryAccept() {
		return false
	}
	l.last.Add(k, now)
	return true
}

// MaxNote is the length of the longest note, in bytes: below the 1 KiB that events.k8s.io allows.
const MaxNote = 1000

// Note is the text, no longer than a note may be.
func Note(text string) string { return Cut(text, MaxNote) }

// Cut is the text, no longer than that many bytes, without half a character at its end.
func Cut(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "")
}

// Clip is the text, no longer than that many bytes, with an ellipsis where it was cut.
func Clip(text string, longest int, ellipsis string) string {
	if len(text) <= longest {
		return text
	}
	return Cut(text, longest-len(ellipsis)) + ellipsis
}
