// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// stuckAfter is how long ago the last step of a round may be. Every step is bounded by less: a look at the runtime by
// handshake.MaxGap, what is asked of the API server by callTimeout.
const stuckAfter = 5 * time.Minute

// health is what the probes ask. It is safe for concurrent use.
type health struct {
	mu    sync.Mutex
	last  time.Time
	ready bool
}

// step notes that a round began, or got on.
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

// Healthz fails when no round has begun or got on for too long: a restart may help.
func (a *Agent) Healthz(*http.Request) error {
	a.health.mu.Lock()
	defer a.health.mu.Unlock()
	if since := a.clock.Now().Sub(a.health.last); !a.health.last.IsZero() && since > stuckAfter {
		return fmt.Errorf("no look at the container runtime began or got on for %s", since.Round(time.Second))
	}
	return nil
}

// Readyz fails while the agent cannot respond: no queries read, no list of the runtime, or no Node to respond for.
func (a *Agent) Readyz(*http.Request) error {
	a.health.mu.Lock()
	defer a.health.mu.Unlock()
	if !a.health.ready {
		return errors.New("the agent cannot respond yet, or any more: see its log and the events of its Node")
	}
	return nil
}
