// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
)

// TestI3AnADDCountsFromTheBindingAsFarAsWatchesShow: the watch of pools may be some seconds ahead of that of pods, and an ADD from before the
// UID was seen may be of an earlier pod.
func TestI3AnADDCountsFromTheBindingAsFarAsWatchesShow(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const unbound = -1
	for name, tc := range map[string]struct {
		// first and bound are when the pod is first seen without a node and with one.
		first, bound, want time.Duration
	}{
		"a pod that is first seen bound":                   {unbound, time.Hour, time.Hour},
		"a pod that is bound soon after it was seen":       {0, time.Second, 0},
		"a pod that was pending for long":                  {0, time.Hour, time.Hour - watchSkew},
		"a pod that is bound after the clock was set back": {time.Hour, time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testingclock.NewFakePassiveClock(start)
			seen := New(clock)
			see := func(at time.Duration, node string) {
				clock.SetTime(start.Add(at))
				seen.Handler().OnAdd(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Spec: corev1.PodSpec{NodeName: node}}, false)
			}
			if tc.first != unbound {
				see(tc.first, "")
			}
			see(tc.bound, "node-1")
			see(tc.bound+time.Hour, "node-1")
			if got := seen.BoundSeen("a"); !got.Equal(start.Add(tc.want)) {
				t.Errorf("an ADD counts from %s, expected %s", got.Sub(start), tc.want)
			}
		})
	}
	never := New(testingclock.NewFakePassiveClock(start))
	never.Handler().OnAdd(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, false)
	if !never.BoundSeen("a").IsZero() {
		t.Error("no ADD is one of a pod that was not seen bound")
	}
}
