// SPDX-License-Identifier: Apache-2.0

// Package witness is what this process saw of pods, and what no object shows.
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

// watchSkew is how far the watch of the pods may be behind that of the pools.
const watchSkew = 5 * time.Second

// Pods remembers what only a watcher can know of a pod UID: when it was seen bound, and that it was seen deleting while
// its phase was not terminal. Losing it (a restart) can only make a decision slower. What it knows of holds is only told (holds.go).
type Pods struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	// first is when each UID was first seen.
	first map[types.UID]time.Time
	bound map[types.UID]time.Time
	alive map[types.UID]struct{}
	holds map[types.UID]hold
	// lost are the UIDs whose finalizer was removed before their deletion: by which field manager, empty where it left no trace.
	lost map[types.UID]string
	// shown is what the network-status of a pod whose end has begun showed before.
	shown map[types.UID][]ownership.Shown
	// showed is the first sandbox of a pod that lives, once its entry and the network-status agreed.
	showed map[types.UID]string
}

// New has seen nothing yet.
func New(c clock.PassiveClock) *Pods {
	return &Pods{clock: c, first: map[types.UID]time.Time{}, bound: map[types.UID]time.Time{}, alive: map[types.UID]struct{}{}, holds: map[types.UID]hold{}, lost: map[types.UID]string{},
		shown: map[types.UID][]ownership.Shown{}, showed: map[types.UID]string{}}
}

// Watch sees pods from now on, on every replica: the next leader has watched before.
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

// Handler feeds it from the informer of pods.
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
	}
}

// seeBound notes since when a sandbox of the pod may have been added. Pods and pools come by two watches, and that of the pools may show an ADD
// before that of the pods shows the binding. An ADD from before the UID was seen may be that of an earlier pod with the name (docs/decisions/0260).
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
}

// seeChange notes, when the end of a pod begins, what its network-status showed until then.
func (p *Pods) seeChange(last, object any) {
	before, after := last.(*corev1.Pod), object.(*corev1.Pod)
	if before.UID == after.UID && !facts.IsEnding(before) && facts.IsEnding(after) {
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

// Show notes that a pod that lives shows the address of its first sandbox.
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

// LostFinalizer notes that a client removed the finalizer of a pod that lives on.
func (p *Pods) LostFinalizer(uid types.UID, by string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost[uid] = by
}

// FoundFinalizer ends what LostFinalizer began, and gives what was noted.
func (p *Pods) FoundFinalizer(uid types.UID) (by string, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	by, lost = p.lost[uid]
	delete(p.lost, uid)
	return by, lost
}

// BoundSeen is since when an ADD that this process saw may be one of the UID: when it was seen bound, or up to watchSkew before that if it was seen
// unbound then. It is zero if the UID was not seen bound.
func (p *Pods) BoundSeen(uid types.UID) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound[uid]
}

// ShownAlive is what the network-status of a pod showed before its end began; nothing where that was not watched.
func (p *Pods) ShownAlive(uid types.UID) []ownership.Shown {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown[uid]
}

// AliveWhileDeleting says whether the UID was seen deleting with a phase that was not terminal.
func (p *Pods) AliveWhileDeleting(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, seen := p.alive[uid]
	return seen
}
