// SPDX-License-Identifier: Apache-2.0

package backoff

import (
	"testing"
	"time"
)

func TestBackOffGrowsToItsEnd(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: First, 2: 2 * First, 4: 8 * First, 100: time.Second, 1_000_000: time.Second} {
		if got := After(failures, time.Second); got != want {
			t.Errorf("after %d failures %s, expected %s", failures, got, want)
		}
	}
}
