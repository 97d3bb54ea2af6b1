// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"math/rand" //nolint:depguard // client-go's backoff draws from it
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// quiescence is how long the world is left alone before it is judged: longer than all of the product's delays together, and that counts from the
// operator's first look, since the end of one wait may begin another.
const (
	quiescence = operatorLooks + 50*time.Minute
	// shortest is the least that the world is left alone, and looksEvery how often it is looked at then.
	shortest, looksEvery = 15 * time.Minute, 5 * time.Minute
	// restsToTheEnd: one history of so many is played to the end, also where nothing is left to wait for.
	restsToTheEnd = 8
)

// Result is what a history came to.
type Result struct {
	Violations []Violation
	// Story has what happened, Schedule every step.
	Story, Schedule []string
	Faults          map[Kind]int
	Rows            map[string]int
	Steps           int
	// Derailed counts the steps of a recorded schedule that were not played in their turn.
	Derailed int
	// ByHand is how many addresses a person had to release in the end.
	ByHand int
}

// Play plays a history, by a recorded schedule if there is one. It must run in a synctest bubble of its own; prepare has to be called outside of it.
func Play(plan Plan, log logr.LogSink, schedule []string) Result {
	w := newWorld(plan, log, schedule)
	w.install() // in the first history of a process it draws random numbers
	w.seed()
	w.locked(func() { w.free = false })
	for _, name := range []string{"node-1", "node-2"} {
		w.newMachine(name, name).register()
	}
	w.createPod(w.admin, "plain", false)
	w.startManager(0)
	if plan.Replicas {
		w.startManager(0)
	}
	w.sched.Run(firstPods)
	w.oldestList = w.server.Revision()
	for i := range plan.Pods {
		w.act(func() { w.keepPod(i) })
	}
	w.act(w.playEvents)
	w.act(w.bookmark)
	w.playFaults()
	w.sched.Run(duration - w.since())
	w.act(w.heal)
	w.act(w.operate)
	w.rest()
	w.checkEnd()
	w.checkRows()
	w.end()
	result := Result{Violations: w.found, Story: w.trace, Schedule: w.sched.Recorded(), Faults: maps.Clone(w.faults), Rows: w.rows.rows, ByHand: w.byHand}
	result.Steps, result.Derailed = len(result.Schedule), w.sched.Derailed()
	return result
}

// seed has what client-go draws next depend on the seed and the time, and not on how many random numbers were drawn before.
func (w *World) seed() {
	rand.Seed(int64(w.plan.Seed) + int64(w.since())) //nolint:staticcheck // with GODEBUG=randseednop=0
}

// rest lets time pass until the judgment. Most histories end as soon as only periodic steps are left.
func (w *World) rest() {
	end := w.since() + quiescence
	w.sched.Run(shortest)
	for w.plan.Seed%restsToTheEnd == 0 || !w.isQuiet() {
		left := end - w.since()
		if left <= 0 {
			return
		}
		w.sched.Run(min(left, looksEvery))
	}
}

// oldestVersion is the oldest version that a stale list may show.
func (w *World) oldestVersion() uint64 { return w.oldestList }

// end stops every process and waits for it.
func (w *World) end() {
	w.locked(func() { w.free = true })
	w.cancel()
	w.mu.Lock()
	managers, machines, agents := w.managers, w.machines, w.agents
	w.mu.Unlock()
	for _, m := range managers {
		if !m.dead {
			w.locked(m.kill)
		}
	}
	w.sched.Open()
	for _, agent := range agents {
		agent.kill()
	}
	for _, m := range machines {
		_ = os.RemoveAll(m.dir)
	}
	w.actors.Wait()
	for _, m := range managers {
		for _, i := range m.informers {
			i.abandon()
		}
	}
}

var _ apiserver.Gate = (*World)(nil)
