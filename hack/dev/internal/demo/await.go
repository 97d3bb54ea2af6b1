// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"time"
)

// The times after which a run counts as stuck. They are long, for busy machines: nothing is judged by them.
const (
	podTimeout    = 60 * time.Second // a pod starts or ends
	nodeTimeout   = 60 * time.Second // a node that does not respond becomes NotReady
	settleTimeout = 60 * time.Second // entries go, or count as leaked
	gcTimeout     = 3 * time.Minute  // PodGC looks every 20 s, and waits 40 s for a Node to come back
	dumpTimeout   = 10 * time.Second // the reads that explain a failure

	pollInterval = 200 * time.Millisecond

	// epiloguePeriod is how long a run is watched after its last step.
	epiloguePeriod = 1500 * time.Millisecond
)

// condition looks once. seen describes the present state for the output; an error counts as "not yet".
type condition func(context.Context) (done bool, seen string, err error)

// await looks until the condition is true. The error otherwise names what was awaited, what was there last, and shows
// the objects.
func (s *stage) await(ctx context.Context, what string, timeout time.Duration, done condition) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last, failure := "nothing yet", ""
	for {
		ok, seen, err := done(limited)
		switch {
		case err == nil && ok:
			return nil
		case err == nil:
			last, failure = seen, ""
		case limited.Err() == nil: // else the look was cut short and its error means nothing
			failure = fmt.Sprintf("; after that: %v", err)
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted while waiting for %s: %w", what, context.Cause(ctx))
			}
			return fmt.Errorf("stuck: waited %s for %s; last seen: %s%s\n%s", timeout, what, last, failure, s.dump(ctx))
		case <-ticker.C:
		}
	}
}

// remains checks that a condition stays true for a time. The error names what there was instead.
func (s *stage) remains(ctx context.Context, what string, period time.Duration, stays condition) error {
	limited, cancel := context.WithTimeout(ctx, period)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		ok, seen, err := stays(limited)
		if err == nil && !ok {
			return fmt.Errorf("%s did not last for %s: %s\n%s", what, period, seen, s.dump(ctx))
		}
		select {
		case <-limited.Done():
			return context.Cause(ctx) // nil when only the period is over
		case <-ticker.C:
		}
	}
}
