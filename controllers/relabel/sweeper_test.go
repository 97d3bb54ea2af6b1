// SPDX-License-Identifier: Apache-2.0

package relabel

import (
	"testing"
	"time"
)

func TestAFailedSweepIsTriedAgainSoon(t *testing.T) {
	pauses := newPauses(time.Hour)
	last := time.Duration(0)
	for try := range 20 {
		pause := pauses.next(true)
		if try == 0 && pause > 2*firstRetry {
			t.Errorf("the first pause is %s", pause)
		}
		if pause < last/2 || pause > 2*lastRetry {
			t.Errorf("pause %s after %s", pause, last)
		}
		last = pause
	}
	if pause := pauses.next(false); pause < time.Hour {
		t.Errorf("after a sweep that went well, the pause is %s", pause)
	}
	if pause := pauses.next(true); pause > 2*firstRetry {
		t.Errorf("the back-off begins with %s the second time", pause)
	}
	if pause := newPauses(time.Millisecond).next(true); pause > time.Millisecond {
		t.Errorf("the pause after a failure is %s, longer than the interval", pause)
	}
}
