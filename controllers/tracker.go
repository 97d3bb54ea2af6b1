// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// tracker remembers what only a watcher can know of a pod UID: when it was seen bound, and that it was seen deleting while
// its phase was not terminal. Losing it (a restart) can only make a decision slower. What it knows of holds is only told (gauges.go).
type tracker struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	bound map[types.UID]time.Time
	alive map[types.UID]struct{}
	holds map[types.UID]hold
}

func newTracker(c clock.PassiveClock) *tracker {
	return &tracker{clock: c, bound: map[types.UID]time.Time{}, alive: map[types.UID]struct{}{}, holds: map[types.UID]hold{}}
}

// handler feeds the tracker from the pod informer, on every replica: whoever becomes leader has watched before.
func (t *tracker) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    t.see,
		UpdateFunc: func(_, object any) { t.see(object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				t.forget(pod.UID)
			}
		},
	}
}

func (t *tracker) see(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, seen := t.bound[pod.UID]; !seen && pod.Spec.NodeName != "" {
		t.bound[pod.UID] = t.clock.Now()
	}
	terminal := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if pod.DeletionTimestamp != nil && !terminal {
		t.alive[pod.UID] = struct{}{}
	}
	if held, ok := holdOf(pod); ok {
		t.holds[pod.UID] = held
	}
}

func (t *tracker) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.bound, uid)
	delete(t.alive, uid)
	delete(t.holds, uid)
}

// boundSeen is when the UID was first seen bound; zero when it was not.
func (t *tracker) boundSeen(uid types.UID) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bound[uid]
}

// aliveWhileDeleting says whether the UID was seen deleting with a phase that was not terminal.
func (t *tracker) aliveWhileDeleting(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, seen := t.alive[uid]
	return seen
}
