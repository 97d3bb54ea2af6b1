// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
)

func TestHowARunEnds(t *testing.T) {
	failure := errors.New("refused")
	stopped, stop := context.WithCancel(context.Background())
	stop()
	late, cancel := context.WithTimeoutCause(context.Background(), 0, errTimedOut)
	defer cancel()
	// A limiter that has nothing left for an hour refuses at once what a deadline would not see.
	limiter := flowcontrol.NewTokenBucketRateLimiter(1.0/3600, 1)
	limiter.Accept()
	soon, end := context.WithTimeoutCause(context.Background(), time.Minute, errTimedOut)
	defer end()
	refused := limiter.Wait(soon)
	if refused == nil || soon.Err() != nil {
		t.Fatalf("the limiter let it through: %v", refused)
	}

	cases := map[string]struct {
		ctx      func() context.Context
		err      error
		timedOut bool
		stopped  bool
	}{
		"a failure":                             {context.Background, failure, false, false},
		"a signal":                              {func() context.Context { return stopped }, failure, false, true},
		"the time is over":                      {func() context.Context { return late }, failure, true, false},
		"the rate limiter sees that it will be": {func() context.Context { return soon }, refused, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := &uninstallation{Options: Options{Timeout: time.Minute}, step: "sweeping", proven: true}
			err := u.ended(tc.ctx(), tc.err)
			var timeout *TimeoutError
			if got := errors.As(err, &timeout); got != tc.timedOut {
				t.Errorf("a time-out: %t, from %v", got, err)
			}
			if timeout != nil && (!timeout.Proven || timeout.Step != "sweeping") {
				t.Errorf("got %+v", timeout)
			}
			if got := errors.Is(err, ErrStopped); got != tc.stopped {
				t.Errorf("stopped: %t, from %v", got, err)
			}
			if !tc.timedOut && !tc.stopped && !errors.Is(err, failure) {
				t.Errorf("the failure is lost: %v", err)
			}
		})
	}
}

func TestTheRightsWithWhichOtherPodsStartAreKept(t *testing.T) {
	for name, tc := range map[string]struct {
		container        corev1.Container
		policy, anything bool
	}{
		"for a policy":          {corev1.Container{Command: []string{"/manager", "wait-node-resource", "--policy=nodes"}}, true, true},
		"for objects":           {corev1.Container{Args: []string{"wait-node-resource", "--resource", "ciliumnodes.cilium.io"}}, false, true},
		"for nothing of a node": {corev1.Container{Args: []string{"version", "--policy"}}, false, false},
	} {
		if policy, anything := waitsForPolicy(tc.container), waits(tc.container); policy != tc.policy || anything != tc.anything {
			t.Errorf("%s: waits for a policy %t, at all %t", name, policy, anything)
		}
		u := &uninstallation{Options: Options{Out: io.Discard}, isWaitedFor: waits(tc.container)}
		var left []string
		for _, o := range u.withoutWaitRole([]metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: managerName}}, {ObjectMeta: metav1.ObjectMeta{Name: waitRole}}}) {
			left = append(left, o.Name)
		}
		if isKept := !slices.Contains(left, waitRole); isKept != tc.anything || !slices.Contains(left, managerName) {
			t.Errorf("%s: removes %v", name, left)
		}
	}
}
