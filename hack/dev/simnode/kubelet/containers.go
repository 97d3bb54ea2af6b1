// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/podstatus"
)

// startContainers starts a sandbox's containers, once: first the init
// containers, whose work takes no time, then the others, all at once.
func (w *worker) startContainers() {
	if w.startedIn == w.sandbox {
		return
	}
	w.startedIn = w.sandbox
	now := w.Clock.Now()
	for _, c := range w.pod.Spec.InitContainers {
		w.start(c.Name, now)
		run := w.containers[c.Name]
		run.FinishedAt = now
		w.containers[c.Name] = run
		w.Runtime.ExitContainer(run.ID)
	}
	for _, c := range w.pod.Spec.Containers {
		w.start(c.Name, now)
	}
}

// start starts a container that never ran, or that died with its sandbox.
func (w *worker) start(name string, now time.Time) {
	run, known := w.containers[name]
	fresh := podstatus.Container{ID: newContainerID(), StartedAt: now}
	if known {
		fresh.Restarts, fresh.Last = run.Restarts+1, &run
		run.Last = nil // only the latest run is reported
	}
	w.containers[name] = fresh
	w.Runtime.StartContainer(w.sandbox, fresh.ID, name)
}

// endContainers ends what runs.
func (w *worker) endContainers(code int32) {
	now := w.Clock.Now()
	for name, run := range w.containers {
		if run.FinishedAt.IsZero() {
			run.FinishedAt, run.ExitCode = now, code
			w.containers[name] = run
			w.Runtime.ExitContainer(run.ID)
		}
	}
}

// startTime is when the last of the pod's containers started.
func (w *worker) startTime() time.Time {
	var last time.Time
	for _, run := range w.containers {
		if run.StartedAt.After(last) {
			last = run.StartedAt
		}
	}
	return last
}

func newContainerID() string {
	bytes := make([]byte, 32)
	rand.Read(bytes) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(bytes)
}
