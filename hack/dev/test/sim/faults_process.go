// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"
)

// staleRestart ends the manager; the caches of the next one begin with an earlier state.
func (w *World) staleRestart(f Fault) {
	m, err := w.leader()
	if err != nil || m.paused {
		return
	}
	w.locked(m.kill)
	if rested(w.ctx, time.Second) && w.turn(w.ctx, "a manager starts with stale lists") {
		w.startManager(uint64(20 * f.N))
	}
}

// twoLeaders pauses the manager, as if its machine froze. Another one leads by the time that it continues; soon it notices.
func (w *World) twoLeaders(f Fault) {
	old, err := w.leader()
	if err != nil || old.paused {
		return
	}
	w.locked(func() { old.paused = true })
	w.setHold(old.name+" ", 1)
	w.act(func() {
		rested(w.ctx, 15*time.Second)
		if w.ctx.Err() == nil && w.turn(w.ctx, "another manager leads") {
			w.startManager(0)
		}
		rested(w.ctx, min(f.For, 4*time.Minute))
		w.setHold(old.name+" ", -1)
		rested(w.ctx, time.Duration(f.N)*2*time.Second)
		w.locked(func() {
			if !old.dead {
				old.kill()
			}
		})
	})
}

// clockJump moves the manager's clock, forth or back, for a while.
func (w *World) clockJump(f Fault) {
	m, err := w.leader()
	if err != nil {
		return
	}
	by := time.Duration(f.N) * time.Minute
	if f.Pod%2 == 1 {
		by = -by
	}
	w.note("the clock of %s jumps by %s", m.name, by)
	m.clock.by.Store(int64(by))
	w.after(f.For, func() { m.clock.by.Store(0) })
}

func (w *World) setForward() bool {
	return slices.ContainsFunc(w.managers, func(m *manager) bool { return m.clock.by.Load() > 0 })
}

// skewAgent moves an agent's clock.
func (w *World) skewAgent(f Fault) {
	p := w.at(f).agent
	if p == nil {
		return
	}
	by := time.Duration(f.N) * 40 * time.Second
	if f.Pod%2 == 1 {
		by = -by
	}
	p.clock.by.Store(int64(by))
	w.after(f.For, func() { p.clock.by.Store(0) })
}

// restartAgent ends an agent's process and starts another one, in another sandbox.
func (w *World) restartAgent(f Fault) {
	m := w.at(f)
	node := w.node(m.node)
	if m.agent == nil || node == nil || !m.isOn() {
		return
	}
	m.agent.kill()
	if rested(w.ctx, between(w.rand(f.String()), time.Second, time.Minute)) && w.turn(w.ctx, "the agent of %s starts again", m.name) && m.isOn() {
		if node = w.node(m.node); node != nil {
			m.startAgent(node.UID)
		}
	}
}

func (m *machine) isOn() bool {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.on
}

// unload makes the runtime lose a sandbox that keeps running. The kubelet then reports what it sees.
func (w *World) unload(f Fault) {
	if !w.plan.Agents {
		return // otherwise it cannot be known
	}
	m := w.near(f)
	for _, b := range m.byAge() {
		if b.namespace == namespace && b.ready && !b.creating && b.name == podName(f.Pod) {
			w.locked(func() { b.unloaded = true })
			w.note("%s: the runtime loses %s", m.name, b)
			w.act(func() { // a user finds its processes later
				rested(w.ctx, max(f.For, duration-w.since()))
				w.usage.end(w, b)
				w.locked(func() { delete(m.boxes, b.id) })
			})
			w.poke("node " + m.node)
		}
	}
}

// endSandbox kills the sandbox of a pod, whose kubelet creates another one. A runtime that loses one may be slow for a while, and may have lost the
// state for CNI DEL.
func (w *World) endSandbox(f Fault) {
	if slow := f; f.N%2 == 0 {
		slow.Kind = SandboxSlow
		w.breakRuntime(slow)
	}
	for _, m := range w.all() {
		for _, b := range m.byAge() {
			if b.namespace == namespace && b.name == podName(f.Pod) && b.ready && !b.creating && !b.unloaded {
				w.note("%s: %s dies", m.name, b)
				w.locked(func() { b.ready, b.running, b.live, b.forgotten = false, 0, false, f.N%3 == 0 })
			}
		}
		w.poke("node " + m.node)
	}
}
