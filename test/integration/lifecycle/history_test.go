// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// history is what really happens to addresses on the machines: who uses which one from when to when. It knows nothing of pools,
// pods or the guard, and is told by the stand-in for kubelet and CNI.
type history struct {
	mu       sync.Mutex
	users    map[string]string // sandbox by address
	log      []string
	twice    []string
	handouts int
}

func newHistory() *history { return &history{users: map[string]string{}} }

// up: a sandbox begins to use an address.
func (h *history) up(ip, sandbox string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handouts++
	h.log = append(h.log, "up   "+ip+" "+sandbox)
	if other, used := h.users[ip]; used {
		h.twice = append(h.twice, fmt.Sprintf("%s was given to sandbox %s while sandbox %s used it", ip, sandbox, other))
	}
	h.users[ip] = sandbox
}

// down: a sandbox is gone, and its addresses with it.
func (h *history) down(sandbox string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, "down "+sandbox)
	maps.DeleteFunc(h.users, func(_, user string) bool { return user == sandbox })
}

// violations are the addresses that two live sandboxes had at once; empty if there was none.
func (h *history) violations() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.twice)
}

// String is for a report.
func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("%d hand-outs\n", h.handouts) + fmt.Sprint(h.log)
}
