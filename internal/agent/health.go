// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// stuckAfter is the longest time between two steps of a round. Every step is bounded by less: a list of the runtime by handshake.MaxGap, a
// call to the API server by callTimeout.
const stuckAfter = 5 * time.Minute

// health is the state behind the probes. It is safe for concurrent use.
type health struct {
	mu    sync.Mutex
	last  time.Time
	ready bool
}

// step records progress of a round.
func (h *health) step(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = now
}

func (h *health) ended(ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = ready
}

// Healthz fails if no round has made progress for stuckAfter: a restart may help.
func (a *Agent) Healthz(*http.Request) error {
	a.health.mu.Lock()
	defer a.health.mu.Unlock()
	if since := a.clock.Now().Sub(a.health.last); !a.health.last.IsZero() && since > stuckAfter {
		return fmt.Errorf("no round made progress for %s", since.Round(time.Second))
	}
	return nil
}

// Readyz fails while the agent cannot respond: the queries are not read, the runtime cannot be listed, or the agent may respond for no Node.
func (a *Agent) Readyz(*http.Request) error {
	a.health.mu.Lock()
	defer a.health.mu.Unlock()
	if !a.health.ready {
		return errors.New("the agent cannot respond to queries: see its log and the events of its Node")
	}
	return nil
}
