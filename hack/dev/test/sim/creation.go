// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"time"
)

const (
	// creationMax is how long a runtime works on a sandbox: less than the product's sandboxCreationMax, which is what that has to be.
	creationMax = 4 * time.Minute
	// slowest is how long a slow creation takes at most, before the first ADD and behind the last one.
	slowest = 90 * time.Second
)

// errLeft: the kubelet gave up on a sandbox, and its runtime did not.
var errLeft = errors.New("the runtime goes on with it")

// errPlugin: a CNI plugin behind whereabouts failed.
var errPlugin = errors.New("another plugin failed")

// errOff: the machine went off.
var errOff = errors.New("the machine went off")

// create has the runtime make a sandbox. A kubelet that learns of the pod's end gives the call up, or waits for it. The runtime then undoes what it
// did, or goes on if the ADD is behind it: the kubelet does not know of that sandbox until it is listed.
func (p *worker) create(b *box) error {
	ctx, cancel := context.WithTimeout(p.w.ctx, creationMax)
	out := make(chan error, 1)
	before, behind, heeds, fails := p.slowness(time.Second, slowest), p.slowness(time.Second, slowest), p.rand.IntN(2) == 0, p.rand.IntN(p.w.plan.Fails) == 0
	giveUp := func() {
		p.w.locked(func() { b.making = false })
		cancel()
	}
	p.w.act(func() { out <- p.make(ctx, b, before, behind, fails) })
	stopped := p.ctx.Done()
	for {
		select {
		case err := <-out:
			if err == nil && ctx.Err() != nil {
				err = ctx.Err()
			}
			cancel()
			return err
		case <-stopped:
			giveUp()
			stopped = nil
		case <-p.poked:
			if pod, known := p.view(); !known || !p.ended(pod) {
				continue
			}
			if !p.m.isAttached(b) {
				if heeds {
					giveUp()
				}
				continue
			}
			p.w.note("%s: the pod of %s ended, and the runtime goes on with it", p.m.name, b)
			p.w.act(func() {
				p.leave(b, <-out)
				cancel()
			})
			return errLeft
		}
	}
}

// slowness is how long a part of a creation takes, and least and most are its bounds if it is slow.
func (p *worker) slowness(least, most time.Duration) time.Duration {
	slow := p.rand.IntN(p.w.plan.Slow) == 0
	p.w.locked(func() { slow = slow || p.m.broken[SandboxSlow] > 0 })
	if !slow {
		return 0
	}
	return between(p.rand, least, most)
}

// make calls CNI ADD, and then does what else a sandbox needs. From the ADD on the address is in use. What a machine leaves when it goes off
// nothing undoes.
func (p *worker) make(ctx context.Context, b *box, before, behind time.Duration, fails bool) error {
	defer p.w.locked(func() { b.making = false }) // also where it failed
	if !rested(ctx, before) {
		return ctx.Err()
	}
	for i, device := range devices[:p.w.plan.Networks] {
		if i > 0 && !rested(ctx, p.slowness(slowest, creationMax)) {
			return ctx.Err()
		}
		address, err := p.cni.add(ctx, b, device)
		switch {
		case err != nil:
			return err
		case !p.m.has(b):
			return errOff
		}
		p.w.usage.begin(p.w, b, address)
	}
	switch {
	case !rested(ctx, behind):
		return ctx.Err()
	case fails:
		return errPlugin
	}
	p.w.locked(func() { b.creating = false })
	return nil
}

// leave is a sandbox that comes up after its pod's end: the kubelet's housekeeping finds it in the runtime's list, and stops it.
func (p *worker) leave(b *box, err error) {
	if err == nil && !rested(p.w.ctx, between(p.w.rand("housekeeping "+b.id), 30*time.Second, 3*time.Minute)) {
		return
	}
	if p.w.turn(p.w.ctx, "housekeeping stops %s", b.id[:8]) {
		p.undo(b)
	}
}

// undo takes back what was made of a sandbox.
func (p *worker) undo(b *box) {
	if !p.m.has(b) {
		p.removeBox(b)
		return
	}
	p.w.usage.end(p.w, b)
	isLost := false
	p.w.locked(func() { isLost = p.w.usage.takeLostDEL(b) })
	if isLost {
		p.w.note("%s: the DEL of %s is lost", p.m.name, b)
	} else {
		ctx, cancel := context.WithTimeout(p.w.ctx, time.Minute)
		defer cancel()
		p.cni.del(ctx, b)
	}
	p.removeBox(b)
}

// has says that a sandbox was not lost with the machine's boot.
func (m *machine) has(b *box) bool {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.on && m.boxes[b.id] == b && b.open
}

// isAttached says that the last ADD of a sandbox is behind it.
func (m *machine) isAttached(b *box) bool {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return len(b.addresses) == m.w.plan.Networks
}
