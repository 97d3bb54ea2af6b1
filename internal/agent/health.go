// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// stuckAfter is the longest time between two steps of a round. Every step is bounded by less: a list of the runtime by handshake.MaxGap, a
// call to the API server by callTimeout.
const stuckAfter = 5 * time.Minute

// health is the state behind the probes.
type health struct {
	// last is when a round made progress; nil before the first.
	last  atomic.Pointer[time.Time]
	ready atomic.Bool
}

// Healthz fails if no round has made progress for stuckAfter: a restart may help.
func (a *Agent) Healthz(*http.Request) error {
	if last := a.health.last.Load(); last != nil {
		if since := a.clock.Now().Sub(*last); since > stuckAfter {
			return fmt.Errorf("no round made progress for %s", since.Round(time.Second))
		}
	}
	return nil
}

// Readyz fails while the agent cannot respond: the queries are not read, the runtime cannot be listed, or the agent may respond for no Node.
func (a *Agent) Readyz(*http.Request) error {
	if !a.health.ready.Load() {
		return errors.New("the agent cannot respond to queries: see its log and the events of its Node")
	}
	return nil
}
