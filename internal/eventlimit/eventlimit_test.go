// SPDX-License-Identifier: Apache-2.0

package eventlimit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestEventsAreLimited(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	o := Options{Interval: time.Hour, Memory: 1000, PerSecond: 5, Burst: 100}
	limit := New(clock, o)
	if !limit.Allow("uid", v1alpha1.ReasonPodInUse) || limit.Allow("uid", v1alpha1.ReasonPodInUse) {
		t.Error("want one event for an object and a reason, and no second one")
	}
	if !limit.Allow("uid", v1alpha1.ReasonRecordHolds) {
		t.Error("want an event for another reason")
	}
	clock.SetTime(clock.Now().Add(o.Interval))
	if !limit.Allow("uid", v1alpha1.ReasonPodInUse) {
		t.Error("want another event after the interval")
	}
	allowed := 0
	for n := range 10 * o.Burst {
		if limit.Allow(types.UID(fmt.Sprint(n)), v1alpha1.ReasonPodInUse) {
			allowed++
		}
	}
	if allowed != o.Burst-1 {
		t.Errorf("%d events at once, want %d", allowed, o.Burst-1)
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if !limit.Allow("999", v1alpha1.ReasonPodInUse) {
		t.Error("want what was held back a second later")
	}
}

func TestANoteFitsIntoAnEvent(t *testing.T) {
	if got := Note("a" + strings.Repeat("ä", MaxNote)); len(got) != MaxNote-1 || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("the note has %d bytes and ends with %q", len(got), got[len(got)-4:])
	}
	if got := Note("short"); got != "short" {
		t.Errorf("got %q", got)
	}
}
