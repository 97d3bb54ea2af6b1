// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestWakesAreCollected: every agent reads each write of the queries, and orphans are found one by one.
func TestWakesAreCollected(t *testing.T) {
	for name, tc := range map[string]struct {
		wakes []time.Duration
		every time.Duration
		again time.Duration
		want  time.Duration
	}{
		"one":                            {wakes: []time.Duration{0}, want: reclaimerQuiet},
		"two that are close":             {wakes: []time.Duration{0, 400 * time.Millisecond}, want: 400*time.Millisecond + reclaimerQuiet},
		"two that are apart":             {wakes: []time.Duration{0, time.Second}, want: reclaimerQuiet},
		"many without a pause":           {every: 100 * time.Millisecond, want: 100*time.Millisecond + reclaimerGather},
		"until the next round is due":    {every: 100 * time.Millisecond, again: 2 * time.Second, want: 2 * time.Second},
		"none, and no next round is due": {want: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				k := newReclaimer(nil)
				for _, at := range tc.wakes {
					time.AfterFunc(at, k.wake)
				}
				if tc.every > 0 {
					for at := tc.every; at < time.Minute; at += tc.every {
						time.AfterFunc(at, k.wake)
					}
				}
				began := time.Now()
				k.pause(ctx, tc.again)
				if got := time.Since(began); got != tc.want {
					t.Errorf("the next round begins after %s, expected %s", got, tc.want)
				}
			})
		})
	}
}
