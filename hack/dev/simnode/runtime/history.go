// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"sync"

	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// History is what happened on all machines, in order. It is safe for concurrent
// use.
type History struct {
	clock  clock.PassiveClock
	mutex  sync.Mutex
	events []api.Event
}

// NewHistory returns an empty history.
func NewHistory(clock clock.PassiveClock) *History { return &History{clock: clock} }

// Add appends an event and sets its time.
func (h *History) Add(event api.Event) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	event.Time = h.clock.Now()
	h.events = append(h.events, event)
}

// List is a copy of all events, oldest first, never nil.
func (h *History) List() []api.Event {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return append([]api.Event{}, h.events...)
}
