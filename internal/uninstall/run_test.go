// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"testing"
	"time"

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
