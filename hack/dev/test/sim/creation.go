// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"time"
)

const (
	// creationMax is the longest creation of a sandbox, less than the sandboxCreationMax of the product, as is required.
	creationMax = 4 * time.Minute
	// slowest is the longest part of a slow creation, before the first ADD and after the last one.
	slowest = 90 * time.Second
)

// errLeft: the kubelet gave up on a sandbox, and its runtime did not.
var errLeft = errors.New("the runtime goes on with it")

// errPlugin: a CNI plugin after whereabouts failed.
var errPlugin = errors.New("another plugin failed")

// errOff: the machine was switched off.
var errOff = errors.New("the machine went off")

// create has the runtime create a sandbox. A kubelet that sees the pod's deletion cancels the call, or waits for it. The runtime then undoes its work
// or, after the ADD, continues: the kubelet does not know that sandbox until it is listed.
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
			p.w.locked(func() { b.left = true })
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

// make calls CNI ADD, and then creates the rest of the sandbox. From the ADD on the address is in use. After a power-off nothing is undone.
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

// leave is a sandbox that is created after its pod's termination: the kubelet's housekeeping finds it in the runtime's list, and stops it.
func (p *worker) leave(b *box, err error) {
	if err == nil && !rested(p.w.ctx, between(p.w.rand("housekeeping "+b.id), 30*time.Second, 3*time.Minute)) {
		return
	}
	if p.w.turn(p.w.ctx, "housekeeping stops %s", b.id[:8]) {
		p.undo(b)
	}
}

// undo removes an incomplete sandbox.
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

// has says whether a sandbox was not lost in a reboot of the machine.
func (m *machine) has(b *box) bool {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.on && m.boxes[b.id] == b && b.open
}

// isAttached says whether all ADDs of a sandbox are done.
func (m *machine) isAttached(b *box) bool {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return len(b.addresses) == m.w.plan.Networks
}
