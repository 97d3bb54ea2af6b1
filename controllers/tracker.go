// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// tracker remembers what only a watcher can know of a pod UID: when it was seen bound, and that it was seen deleting while
// its phase was not terminal. Losing it (a restart) can only make a decision slower. What it knows of holds is only told (holds.go).
type tracker struct {
	clock clock.PassiveClock
	mu    sync.Mutex
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

func newTracker(c clock.PassiveClock) *tracker {
	return &tracker{clock: c, bound: map[types.UID]time.Time{}, alive: map[types.UID]struct{}{}, holds: map[types.UID]hold{}, lost: map[types.UID]string{},
		shown: map[types.UID][]ownership.Shown{}, showed: map[types.UID]string{}}
}

// handler feeds the tracker from the pod informer, on every replica: whoever becomes leader has watched before.
func (t *tracker) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    t.see,
		UpdateFunc: t.seeChange,
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
	if pod.DeletionTimestamp != nil && !facts.IsTerminal(pod) {
		t.alive[pod.UID] = struct{}{}
	}
	if held, ok := holdOf(pod); ok {
		t.holds[pod.UID] = held
	}
}

// seeChange notes, when the end of a pod begins, what its network-status showed until then.
func (t *tracker) seeChange(last, object any) {
	before, after := last.(*corev1.Pod), object.(*corev1.Pod)
	if before.UID == after.UID && !facts.IsEnding(before) && facts.IsEnding(after) {
		t.mu.Lock()
		t.shown[after.UID] = facts.Shown(before)
		t.mu.Unlock()
	}
	t.see(object)
}

func (t *tracker) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.bound, uid)
	delete(t.alive, uid)
	delete(t.holds, uid)
	delete(t.lost, uid)
	delete(t.shown, uid)
	delete(t.showed, uid)
}

// show notes that a pod that lives shows the address of its first sandbox.
func (t *tracker) show(uid types.UID, sandbox string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.showed[uid] = sandbox
}

// hasShown says whether the pod showed the address of its first sandbox before another followed it.
func (t *tracker) hasShown(uid types.UID, sandbox string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.showed[uid] == sandbox
}

// lostFinalizer notes that somebody removed the finalizer of a pod that lives on.
func (t *tracker) lostFinalizer(uid types.UID, by string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost[uid] = by
}

// foundFinalizer ends what lostFinalizer began, and gives what was noted.
func (t *tracker) foundFinalizer(uid types.UID) (by string, lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	by, lost = t.lost[uid]
	delete(t.lost, uid)
	return by, lost
}

// boundSeen is when the UID was first seen bound; zero when it was not.
func (t *tracker) boundSeen(uid types.UID) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bound[uid]
}

// shownAlive is what the network-status of a pod showed before its end began; nothing where that was not watched.
func (t *tracker) shownAlive(uid types.UID) []ownership.Shown {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown[uid]
}

// aliveWhileDeleting says whether the UID was seen deleting with a phase that was not terminal.
func (t *tracker) aliveWhileDeleting(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, seen := t.alive[uid]
	return seen
}
