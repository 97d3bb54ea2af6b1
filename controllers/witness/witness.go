// SPDX-License-Identifier: Apache-2.0

// Package witness remembers what this process saw of pods that no object shows.
package witness

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// watchSkew is how late the watch of pods may be compared with that of pools.
const watchSkew = 5 * time.Second

// Pods remembers what only a watcher can know of a pod UID: when it was seen bound, and that it was seen being deleted with a phase that was not
// terminal. After a restart, decisions may only take longer. Holds are only reported (holds.go).
type Pods struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	// first is when each UID was first seen, until it is bound.
	first map[types.UID]time.Time
	bound map[types.UID]time.Time
	alive map[types.UID]struct{}
	holds map[types.UID]hold
	// lost are the UIDs whose finalizer was removed before their deletion, with the field manager, if known.
	lost map[types.UID]string
	// shown is the network-status of a pod from before its deletion or termination.
	shown map[types.UID][]ownership.Shown
	// showed is the first sandbox of a live pod, once its entry and the network-status agreed.
	showed map[types.UID]string
}

// New makes an empty Pods.
func New(c clock.PassiveClock) *Pods {
	return &Pods{clock: c, first: map[types.UID]time.Time{}, bound: map[types.UID]time.Time{}, alive: map[types.UID]struct{}{}, holds: map[types.UID]hold{}, lost: map[types.UID]string{},
		shown: map[types.UID][]ownership.Shown{}, showed: map[types.UID]string{}}
}

// Watch observes pods from now on, on every replica, so that the next leader has observed them too.
func Watch(ctx context.Context, pods cache.Cache, c clock.PassiveClock) (*Pods, error) {
	p := New(c)
	informer, err := pods.GetInformer(ctx, &corev1.Pod{})
	if err == nil {
		_, err = informer.AddEventHandler(p.Handler())
	}
	if err != nil {
		return nil, fmt.Errorf("watching guarded pods: %w", err)
	}
	return p, nil
}

// Handler handles the events of the informer of pods.
func (p *Pods) Handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    p.see,
		UpdateFunc: p.seeChange,
		DeleteFunc: func(object any) {
			if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				p.forget(pod.UID)
			}
		},
	}
}

func (p *Pods) see(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seeBound(pod)
	if pod.DeletionTimestamp != nil && !facts.IsTerminal(pod) {
		p.alive[pod.UID] = struct{}{}
	}
	if held, ok := holdOf(pod); ok {
		p.holds[pod.UID] = held
	} else {
		delete(p.holds, pod.UID)
	}
}

// seeBound records since when a sandbox of the pod may have been added. The watch of pools may show an ADD before the watch of pods shows the
// binding. An ADD from before the UID was seen may be that of an earlier pod with the name (docs/decisions/0260).
func (p *Pods) seeBound(pod *corev1.Pod) {
	if _, seen := p.bound[pod.UID]; seen {
		return
	}
	now := p.clock.Now()
	if _, seen := p.first[pod.UID]; !seen {
		p.first[pod.UID] = now
	}
	if pod.Spec.NodeName == "" {
		return
	}
	since := now.Add(-watchSkew)
	switch first := p.first[pod.UID]; {
	case first.After(now): // the clock was set back
		since = now
	case first.After(since):
		since = first
	}
	p.bound[pod.UID] = since
	delete(p.first, pod.UID)
}

// seeChange records the network-status of a pod when its deletion or termination begins.
func (p *Pods) seeChange(last, object any) {
	before, after := last.(*corev1.Pod), object.(*corev1.Pod)
	if before.UID != after.UID { // a list after a lost watch: the next pod of the name is shown as a change of this one
		p.forget(before.UID)
	} else if !facts.IsEnding(before) && facts.IsEnding(after) {
		p.mu.Lock()
		p.shown[after.UID] = facts.Shown(before)
		p.mu.Unlock()
	}
	p.see(object)
}

func (p *Pods) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.first, uid)
	delete(p.bound, uid)
	delete(p.alive, uid)
	delete(p.holds, uid)
	delete(p.lost, uid)
	delete(p.shown, uid)
	delete(p.showed, uid)
}

// Show records that a live pod shows the address of its first sandbox.
func (p *Pods) Show(uid types.UID, sandbox string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.showed[uid] = sandbox
}

// HasShown says whether the pod showed the address of its first sandbox before another followed it.
func (p *Pods) HasShown(uid types.UID, sandbox string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.showed[uid] == sandbox
}

// LostFinalizer records that a client removed the finalizer of a live pod.
func (p *Pods) LostFinalizer(uid types.UID, by string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost[uid] = by
}

// FoundFinalizer removes and returns the record of LostFinalizer.
func (p *Pods) FoundFinalizer(uid types.UID) (by string, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	by, lost = p.lost[uid]
	delete(p.lost, uid)
	return by, lost
}

// BoundSeen is since when an observed ADD may be of the UID: since it was seen bound, or up to watchSkew earlier if it was seen unbound then. It is
// zero if the UID was not seen bound.
func (p *Pods) BoundSeen(uid types.UID) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound[uid]
}

// ShownAlive is the network-status of a pod from before its deletion or termination; empty if that was not observed.
func (p *Pods) ShownAlive(uid types.UID) []ownership.Shown {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown[uid]
}

// AliveWhileDeleting says whether the UID was seen being deleted with a phase that was not terminal.
func (p *Pods) AliveWhileDeleting(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, seen := p.alive[uid]
	return seen
}
